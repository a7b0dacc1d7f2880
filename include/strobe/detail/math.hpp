// SPDX-License-Identifier: MIT
// What checks need to know of floats. Layer: detail.
#pragma once

#include "config.hpp"

#if !defined(__CUDACC_RTC__)
#include <cmath>
#include <cstdint>
#include <cstring>
#endif

namespace strobe {
inline namespace STROBE_ABI {
namespace detail {

#if !defined(__CUDACC_RTC__)
/// By bits, because -ffast-math lets the host compiler fold isfinite away.
inline bool is_finite(float x) noexcept {
  uint32_t bits;
  std::memcpy(&bits, &x, sizeof bits);
  return (bits & 0x7f800000u) != 0x7f800000u;
}
#endif

}  // namespace detail
}  // namespace STROBE_ABI
}  // namespace strobe
