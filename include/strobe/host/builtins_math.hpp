// SPDX-License-Identifier: MIT
// CUDA's arithmetic built-ins for host execution: minimum and maximum, fast maths, bit casts,
// integer operations.
// Layer: host execution. Source: CUDA Math API Reference. Fast approximations (__expf ...) are the
// exact std:: ones.
#pragma once

#include <cmath>

#include "runtime.hpp"

// ---- min and max: the overloads CUDA has, mixed signedness included -----------------------------
#define STROBE_HOST_MIN_MAX(RESULT, X, Y)                                            \
  inline RESULT min(X x, Y y) {                                                      \
    return static_cast<RESULT>(x) < static_cast<RESULT>(y) ? static_cast<RESULT>(x)  \
                                                           : static_cast<RESULT>(y); \
  }                                                                                  \
  inline RESULT max(X x, Y y) {                                                      \
    return static_cast<RESULT>(x) < static_cast<RESULT>(y) ? static_cast<RESULT>(y)  \
                                                           : static_cast<RESULT>(x); \
  }
STROBE_HOST_MIN_MAX(int, int, int)
STROBE_HOST_MIN_MAX(unsigned, unsigned, unsigned)
STROBE_HOST_MIN_MAX(unsigned, int, unsigned)
STROBE_HOST_MIN_MAX(unsigned, unsigned, int)
STROBE_HOST_MIN_MAX(long, long, long)
STROBE_HOST_MIN_MAX(unsigned long, unsigned long, unsigned long)
STROBE_HOST_MIN_MAX(unsigned long, long, unsigned long)
STROBE_HOST_MIN_MAX(unsigned long, unsigned long, long)
STROBE_HOST_MIN_MAX(long long, long long, long long)
STROBE_HOST_MIN_MAX(unsigned long long, unsigned long long, unsigned long long)
STROBE_HOST_MIN_MAX(unsigned long long, long long, unsigned long long)
STROBE_HOST_MIN_MAX(unsigned long long, unsigned long long, long long)
#undef STROBE_HOST_MIN_MAX
inline float min(float x, float y) { return std::fmin(x, y); }
inline float max(float x, float y) { return std::fmax(x, y); }
inline double min(double x, double y) { return std::fmin(x, y); }
inline double max(double x, double y) { return std::fmax(x, y); }

// ---- bit casts ----------------------------------------------------------------------------------
inline unsigned __float_as_uint(float x) { return strobe::host::bits_of(x); }
inline int __float_as_int(float x) { return static_cast<int>(strobe::host::bits_of(x)); }
inline float __uint_as_float(unsigned x) {
  float y;
  std::memcpy(&y, &x, 4);
  return y;
}
inline float __int_as_float(int x) { return __uint_as_float(static_cast<unsigned>(x)); }

// ---- integers -----------------------------------------------------------------------------------
inline int __popc(unsigned x) { return __builtin_popcount(x); }
inline int __popcll(unsigned long long x) { return __builtin_popcountll(x); }
inline int __ffs(int x) { return __builtin_ffs(x); }
inline int __ffsll(long long x) { return __builtin_ffsll(x); }
inline int __clz(int x) { return x == 0 ? 32 : __builtin_clz(static_cast<unsigned>(x)); }
inline int __clzll(long long x) {
  return x == 0 ? 64 : __builtin_clzll(static_cast<unsigned long long>(x));
}
inline unsigned __brev(unsigned x) {
  unsigned y = 0;
  for (int i = 0; i < 32; ++i) y |= (x >> i & 1u) << (31 - i);
  return y;
}
inline unsigned __umulhi(unsigned x, unsigned y) {
  return static_cast<unsigned>((static_cast<uint64_t>(x) * y) >> 32);
}
inline int __mulhi(int x, int y) { return static_cast<int>((static_cast<int64_t>(x) * y) >> 32); }
inline unsigned long long __umul64hi(unsigned long long x, unsigned long long y) {
  return static_cast<unsigned long long>((static_cast<__uint128_t>(x) * y) >> 64);
}
// Four bytes out of the eight of {y, x}, chosen by the low three bits of s's nibbles.
inline unsigned __byte_perm(unsigned x, unsigned y, unsigned s) {
  const uint64_t both = (static_cast<uint64_t>(y) << 32) | x;
  unsigned r = 0;
  for (int i = 0; i < 4; ++i) {
    r |= static_cast<unsigned>(both >> (8 * (s >> (4 * i) & 7u)) & 0xffu) << (8 * i);
  }
  return r;
}
inline unsigned __funnelshift_r(unsigned lo, unsigned hi, unsigned shift) {
  return static_cast<unsigned>(((static_cast<uint64_t>(hi) << 32) | lo) >> (shift & 31u));
}
inline unsigned __funnelshift_l(unsigned lo, unsigned hi, unsigned shift) {
  return static_cast<unsigned>(((((static_cast<uint64_t>(hi) << 32) | lo) << (shift & 31u))) >> 32);
}

// ---- floating point -----------------------------------------------------------------------------
inline float rsqrtf(float x) { return 1.0f / std::sqrt(x); }
inline float __fdividef(float x, float y) { return x / y; }
inline float __frcp_rn(float x) { return 1.0f / x; }
inline float __fsqrt_rn(float x) { return std::sqrt(x); }
inline float __fmaf_rn(float x, float y, float z) { return std::fma(x, y, z); }
inline float __fdiv_rn(float x, float y) { return x / y; }
inline float __saturatef(float x) { return x > 0.0f ? (x < 1.0f ? x : 1.0f) : 0.0f; }
// These keep the compiler from contracting x * y + z, as on the device: the operands pass through
// memory.
inline float __fmul_rn(float x, float y) {
  volatile float r = x * y;
  return r;
}
inline float __fadd_rn(float x, float y) {
  volatile float r = x + y;
  return r;
}
inline float __fsub_rn(float x, float y) {
  volatile float r = x - y;
  return r;
}
inline int __float2int_rn(float x) { return static_cast<int>(std::nearbyint(x)); }
inline int __float2int_rd(float x) { return static_cast<int>(std::floor(x)); }
inline int __float2int_ru(float x) { return static_cast<int>(std::ceil(x)); }
inline int __float2int_rz(float x) { return static_cast<int>(x); }

// glibc's headers declare some of these names for its own use, with the same meaning; macros leave
// those alone.
namespace strobe {
inline namespace STROBE_ABI {
namespace host {
inline float fast_exp(float x) { return std::exp(x); }
inline float fast_exp10(float x) { return std::pow(10.0f, x); }
inline float fast_log(float x) { return std::log(x); }
inline float fast_log2(float x) { return std::log2(x); }
inline float fast_log10(float x) { return std::log10(x); }
inline float fast_pow(float x, float y) { return std::pow(x, y); }
inline float fast_sin(float x) { return std::sin(x); }
inline float fast_cos(float x) { return std::cos(x); }
inline float fast_tanh(float x) { return std::tanh(x); }
}  // namespace host
}  // namespace STROBE_ABI
}  // namespace strobe
#define __expf(x) (::strobe::host::fast_exp(x))
#define __exp10f(x) (::strobe::host::fast_exp10(x))
#define __logf(x) (::strobe::host::fast_log(x))
#define __log2f(x) (::strobe::host::fast_log2(x))
#define __log10f(x) (::strobe::host::fast_log10(x))
#define __powf(x, y) (::strobe::host::fast_pow(x, y))
#define __sinf(x) (::strobe::host::fast_sin(x))
#define __cosf(x) (::strobe::host::fast_cos(x))
#define __tanhf(x) (::strobe::host::fast_tanh(x))
