// SPDX-License-Identifier: MIT
// The special-function unit's fast approximations, and two floats packed into one 16-bit pair.
// Layer: ptx. Any thread, no convergence needed. Source: PTX ISA, "Floating Point Instructions:
// ex2, lg2, tanh, rcp" and "Data Movement and Conversion Instructions: cvt". Under host execution
// the results are the correctly rounded or nearly so std:: functions: they differ from a GPU's in
// the last bits. Flushing of subnormals (.ftz) is the same on both.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include "prelude.cuh"
#include "score_math.hpp"

namespace strobe {
inline namespace STROBE_ABI {
namespace ptx {

// 2^x, relative error 2^-22. exp2_approx(-infinity) = 0. PTX ISA 1.4.
//   ex2.approx.ftz.f32 y, x;
STROBE_DEVICE float exp2_approx(float x) {
#if STROBE_HOST_EXECUTION
  return host::flush_subnormal(std::exp2(x));
#else
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
#endif
}

// log2(x), absolute error 2^-22 for x in (0.5, 2), relative 2^-22 elsewhere. log2_approx(0) =
// -infinity. PTX ISA 1.4.
//   lg2.approx.ftz.f32 y, x;
STROBE_DEVICE float log2_approx(float x) {
#if STROBE_HOST_EXECUTION
  return std::log2(host::flush_subnormal(x));
#else
  float y;
  asm("lg2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
#endif
}

// tanh(x), relative error 2^-11. PTX ISA 7.0, sm_75.
//   tanh.approx.f32 y, x;
STROBE_DEVICE float tanh_approx(float x) {
#if STROBE_HOST_EXECUTION
  return std::tanh(x);
#else
  float y;
  asm("tanh.approx.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
#endif
}

// 1 / x within 1 ulp. rcp_approx(0) = infinity, rcp_approx(infinity) = 0. PTX ISA 1.4.
//   rcp.approx.ftz.f32 y, x;
STROBE_DEVICE float rcp_approx(float x) {
#if STROBE_HOST_EXECUTION
  return host::flush_subnormal(1.0f / host::flush_subnormal(x));
#else
  return reciprocal_of(x);
#endif
}

// Two floats rounded to nearest even, lo in bits 0..15 and hi in bits 16..31: the order of an mma
// fragment. Values beyond the type's range become infinity. T is __half or __nv_bfloat16. PTX
// ISA 7.0, sm_80.
//   cvt.rn.{f16x2 | bf16x2}.f32 r, hi, lo;
template <class T>
STROBE_DEVICE uint32_t pack2(float lo, float hi);

#if STROBE_HOST_EXECUTION

template <>
STROBE_DEVICE uint32_t pack2<__half>(float lo, float hi) {
  return host::bits_of(__floats2half2_rn(lo, hi));
}
template <>
STROBE_DEVICE uint32_t pack2<__nv_bfloat16>(float lo, float hi) {
  return host::bits_of(__floats2bfloat162_rn(lo, hi));
}

#else

template <>
STROBE_DEVICE uint32_t pack2<__half>(float lo, float hi) {
  uint32_t r;
  asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(r) : "f"(hi), "f"(lo));
  return r;
}
template <>
STROBE_DEVICE uint32_t pack2<__nv_bfloat16>(float lo, float hi) {
  uint32_t r;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(r) : "f"(hi), "f"(lo));
  return r;
}

#endif

}  // namespace ptx
}  // namespace STROBE_ABI
}  // namespace strobe
