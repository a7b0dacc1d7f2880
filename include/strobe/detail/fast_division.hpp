// SPDX-License-Identifier: MIT
// Division by a number known only at launch, as a multiplication (Granlund and Montgomery,
// "Division by Invariant Integers using Multiplication", 1994, section 4: round-up method). Layer:
// detail, host and device.
#pragma once

#include "integers.hpp"

namespace strobe {
inline namespace STROBE_ABI {
namespace detail {

/// n / divisor for 0 <= n < 2^31 and 1 <= divisor < 2^31.
struct FastDivision {
  uint32_t divisor = 1;
  uint32_t multiplier = 0;
  int shift = 0;

  FastDivision() = default;
  STROBE_HOST_DEVICE explicit FastDivision(int d) : divisor(uint32_t(d)) {
    // Smallest shift with 2^shift >= d; then ceil(2^(31 + shift) / d) fits 32 bits and is exact for
    // n < 2^31.
    while ((uint64_t(1) << shift) < divisor) ++shift;
    multiplier = uint32_t(((uint64_t(1) << (31 + shift)) + divisor - 1) / divisor);
  }
  STROBE_HOST_DEVICE int operator()(int n) const {
    return int((uint64_t(uint32_t(n)) * multiplier) >> (31 + shift));
  }
};

}  // namespace detail
}  // namespace STROBE_ABI
}  // namespace strobe
