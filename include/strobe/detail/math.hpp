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

/// 2 / (1 + 2^x), with which cap * tanh(x ln(2) / 2) = cap - cap * logistic_of(x): right at both
/// ends, where a quotient of two exponentials is inf / inf. Absolute error about 2e-7, where
/// tanh.approx.f32 is only good to 2^-11, which a soft cap of 50 turns into 0.02. On the device two
/// instructions of the special-function unit; exp2f and a division would spend six more on
/// subnormals, which come to the same result.
STROBE_HOST_DEVICE float logistic_of(float x) {
#if STROBE_DEVICE_PASS
  float power, inverse;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(power) : "f"(x));
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(inverse) : "f"(0.5f + 0.5f * power));
  return inverse;
#else
  return 1.f / (0.5f + 0.5f * ::exp2f(x));
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

STROBE_HOST_DEVICE float abs_of(float x) { return fabsf(x); }

}  // namespace detail
}  // namespace STROBE_ABI
}  // namespace strobe
