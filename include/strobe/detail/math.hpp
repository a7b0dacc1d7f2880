// SPDX-License-Identifier: MIT
// Two functions that scores need on both sides of a CUDA program. Layer: detail.
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

/// tanh(x) = 1 - 2 / (1 + e^2x): right at both ends, where a quotient of two exponentials is inf /
/// inf. Absolute error about 2e-7: tanh.approx.f32 would be faster but is only good to 2^-11, which
/// a soft cap of 50 turns into 0.02.
STROBE_HOST_DEVICE float tanh_of(float x) {
  constexpr float two_log2_e = 2.885390081777927f;
#if STROBE_DEVICE_PASS
  return 1.f - __fdividef(2.f, 1.f + exp2f(x * two_log2_e));
#else
  return 1.f - 2.f / (1.f + ::exp2f(x * two_log2_e));
#endif
}

#if !defined(__CUDACC_RTC__)
/// By bits, because -ffast-math lets the host compiler fold isfinite away.
inline bool is_finite(float x) noexcept {
  uint32_t bits;
  std::memcpy(&bits, &x, sizeof bits);
  return (bits & 0x7f800000u) != 0x7f800000u;
}
#endif

STROBE_HOST_DEVICE int abs_of(int x) { return x < 0 ? -x : x; }

}  // namespace detail
}  // namespace STROBE_ABI
}  // namespace strobe
