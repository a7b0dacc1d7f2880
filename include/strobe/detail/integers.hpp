// SPDX-License-Identifier: MIT
// Fixed-width integers and three small integer functions, for host, device and run-time compilation
// (NVRTC has no <cstdint>). Layer: detail; used everywhere.
#pragma once

#include "config.hpp"

#if defined(__CUDACC_RTC__)
using int32_t = int;
using uint32_t = unsigned int;
using int64_t = long long;
using uint64_t = unsigned long long;
using uint16_t = unsigned short;
using uintptr_t = unsigned long long;
#else
#include <cstddef>
#include <cstdint>
#endif

namespace strobe {
inline namespace STROBE_ABI {
namespace detail {

STROBE_HOST_DEVICE constexpr int min_of(int a, int b) { return a < b ? a : b; }
STROBE_HOST_DEVICE constexpr int max_of(int a, int b) { return a > b ? a : b; }
/// Rounds up; for a >= 0 and b > 0, without overflow near INT_MAX.
STROBE_HOST_DEVICE constexpr int ceil_div(int a, int b) { return a / b + (a % b != 0); }
/// The largest n with 2^n <= x, for x > 0.
STROBE_HOST_DEVICE int floor_log2(int x) {
#if STROBE_DEVICE_PASS
  return 31 - __clz(x);
#else
  int n = 0;
  while (x >> n > 1) ++n;
  return n;
#endif
}
/// a + b, held at INT_MAX or INT_MIN instead of wrapping: window edges may be "unlimited".
STROBE_HOST_DEVICE constexpr int saturating_add(int a, int b) {
  const int64_t sum = int64_t(a) + b;
  return sum > 0x7fffffff ? 0x7fffffff : sum < -0x7fffffff - 1 ? -0x7fffffff - 1 : int(sum);
}

/// a * b for a, b >= 0, held at the largest int64_t.
STROBE_HOST_DEVICE constexpr int64_t saturating_multiply(int64_t a, int64_t b) {
  const int64_t most = 0x7fffffffffffffff;
  return b > 0 && a > most / b ? most : a * b;
}

}  // namespace detail
}  // namespace STROBE_ABI
}  // namespace strobe
