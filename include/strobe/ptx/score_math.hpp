// SPDX-License-Identifier: MIT
// Arithmetic of scores, for both sides of a CUDA program: masks and scores also run on the host, so
// this is the one header of ptx/ that they may include, and it includes no other. Layer: noun. Any
// thread. Source: PTX ISA, "Floating Point Instructions: ex2, rcp, min".
#pragma once

#include "../detail/config.hpp"

#if !defined(__CUDACC_RTC__)
#include <cmath>
#include <cstring>
#endif

namespace strobe {
inline namespace STROBE_ABI {
namespace ptx {

/// The bits of a float, which for floats that are not negative are in their order.
STROBE_HOST_DEVICE int bits_of(float x) {
#if STROBE_DEVICE_PASS
  return __float_as_int(x);
#else
  int bits;
  std::memcpy(&bits, &x, sizeof bits);
  return bits;
#endif
}

/// (1 + 2^x) / 2, and what it is at x = 30 beyond: 2 / (1 + 2^x) is below 2^-24 by then. NaN stays
/// NaN.
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
/// 1 / x within 1 ulp, for x from 2^-120 to 2^120; on the device 1 / 0 = infinity, 1 / infinity =
/// 0.
///   rcp.approx.ftz.f32 y, x;
STROBE_HOST_DEVICE float reciprocal_of(float x) {
#if STROBE_DEVICE_PASS
  float y;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
#else
  return 1.f / x;
#endif
}

}  // namespace ptx
}  // namespace STROBE_ABI
}  // namespace strobe
