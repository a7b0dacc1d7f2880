// SPDX-License-Identifier: MIT
// Functions that scores need on both sides of a CUDA program. Layer: detail.
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

/// 1 + 2^x over 2, at most 2^29: 2 / (1 + 2^x) is below 2^-24 by then. NaN stays NaN.
STROBE_HOST_DEVICE float half_of_one_plus_exp2(float x) {
#if STROBE_DEVICE_PASS
  // One instruction of the special-function unit; exp2f would spend three more on subnormals, which
  // come to the same result.
  float power;
  asm("{.reg .f32 y; min.NaN.f32 y, %1, 0f41F00000; ex2.approx.ftz.f32 %0, y;}"
      : "=f"(power)
      : "f"(x));
#else
  const float power = ::exp2f(x > 30.f ? 30.f : x);
#endif
  return 0.5f + 0.5f * power;
}
/// 1 / x for x from 2^-120 to 2^120, within 1 ulp.
STROBE_HOST_DEVICE float reciprocal_of(float x) {
#if STROBE_DEVICE_PASS
  float y;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
#else
  return 1.f / x;
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

}  // namespace detail
}  // namespace STROBE_ABI
}  // namespace strobe
