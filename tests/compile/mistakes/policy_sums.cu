// SPDX-License-Identifier: MIT
// A policy that says nothing about sums.
// error: Policy: it needs static constexpr Reduction reduction and static constexpr Precision
// precision
#include "call.hpp"

#if defined(STROBE_TEST_RIGHT)
struct Mine : strobe::DefaultPolicy {};
#else
struct Mine {
  static constexpr strobe::PrefillTile prefill(strobe::Family, int, int) { return {64, 64, 4, 2}; }
  static constexpr strobe::DecodeTile decode(strobe::Family, int, int) { return {32, 2}; }
};
#endif

using A = strobe::Attention<__half, 64, strobe::Full, strobe::Strided<__half>, strobe::NoScore, 64,
                            __half, Mine>;
strobe::Status attend(const A& a) { return call(a); }
