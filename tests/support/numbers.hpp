// SPDX-License-Identifier: MIT
// Element types as the tests need them: exact to and from float, their bits, their rounding, their
// units in the last place. Host code.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <type_traits>
#include <vector>

namespace strobe_test {

template <class T>
struct Format;  // significand bits with the hidden one, smallest normal exponent, poison patterns
template <>
struct Format<__half> {
  using Bits = uint16_t;
  static constexpr const char* name = "fp16";
  static constexpr int digits = 11, min_exponent = -14;
  static constexpr Bits infinity = 0x7c00, nan = 0xffff;
};
template <>
struct Format<__nv_bfloat16> {
  using Bits = uint16_t;
  static constexpr const char* name = "bf16";
  static constexpr int digits = 8, min_exponent = -126;
  static constexpr Bits infinity = 0x7f80, nan = 0xffff;
};
template <>
struct Format<float> {
  using Bits = uint32_t;
  static constexpr const char* name = "fp32";
  static constexpr int digits = 24, min_exponent = -126;
  static constexpr Bits infinity = 0x7f800000u, nan = 0xffffffffu;
};

template <class T>
typename Format<T>::Bits bits_of(T value) {
  typename Format<T>::Bits bits;
  static_assert(sizeof bits == sizeof value, "one pattern a value");
  std::memcpy(&bits, &value, sizeof bits);
  return bits;
}
template <class T>
T from_bits(typename Format<T>::Bits bits) {
  T value;
  std::memcpy(static_cast<void*>(&value), &bits, sizeof value);
  return value;
}

inline float to_float(float x) { return x; }
inline float to_float(__half x) { return __half2float(x); }
inline float to_float(__nv_bfloat16 x) { return __bfloat162float(x); }

template <class T>
T rounded_to(float x) {
  if constexpr (std::is_same_v<T, __half>) return __float2half_rn(x);
  if constexpr (std::is_same_v<T, __nv_bfloat16>) return __float2bfloat16_rn(x);
  if constexpr (std::is_same_v<T, float>) return x;
}
template <class T>
float round_through(float x) {
  return to_float(rounded_to<T>(x));
}

/// Distance between neighbours of T at |x|.
template <class T>
double ulp_at(double x) {
  int exponent = 0;
  if (x != 0.0 && std::isfinite(x)) (void)std::frexp(x, &exponent);  // x in [2^(e-1), 2^e)
  const int floor_exponent = x == 0.0 ? Format<T>::min_exponent : exponent - 1;
  return std::ldexp(
      1.0, (floor_exponent < Format<T>::min_exponent ? Format<T>::min_exponent : floor_exponent) -
               (Format<T>::digits - 1));
}

/// Whether two arrays of one length agree in every bit; NaN equals the same NaN, 0 is not -0.
template <class T>
bool same_bytes(const std::vector<T>& a, const std::vector<T>& b) {
  return a.size() == b.size() &&
         (a.empty() || std::memcmp(static_cast<const void*>(a.data()),
                                   static_cast<const void*>(b.data()), a.size() * sizeof(T)) == 0);
}

/// Random numbers that are the same with every standard library.
class Random {
 public:
  explicit Random(uint64_t seed) : state_(seed * 0x9e3779b97f4a7c15ull + 0x1234567ull) {}
  uint64_t next() {  // splitmix64
    uint64_t z = (state_ += 0x9e3779b97f4a7c15ull);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
    return z ^ (z >> 31);
  }
  int below(int n) { return int(next() % uint64_t(n)); }
  float uniform() { return float(next() >> 40) * 0x1p-24f; }  // [0, 1)
  float normal() {                                            // Box and Muller
    const float u = 1.f - uniform(), v = uniform();
    return std::sqrt(-2.f * std::log(u)) * std::cos(6.2831853f * v);
  }

 private:
  uint64_t state_;
};

}  // namespace strobe_test
