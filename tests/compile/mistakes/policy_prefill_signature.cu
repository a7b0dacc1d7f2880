// SPDX-License-Identifier: MIT
// A policy from before there were kernel families.
// error: Policy: it needs static constexpr PrefillTile prefill(Family, int head_dim, int value_dim)
#include "call.hpp"

#if defined(STROBE_TEST_RIGHT)
struct Mine : strobe::DefaultPolicy {
  static constexpr strobe::PrefillTile prefill(strobe::Family, int, int) { return {64, 64, 4, 2}; }
};
#else
struct Mine : strobe::DefaultPolicy {
  static constexpr strobe::PrefillTile prefill(int, int) { return {64, 64, 4, 2}; }
};
#endif

using A = strobe::Attention<__half, 64, strobe::Full, strobe::Strided<__half>, strobe::NoScore, 64,
                            __half, Mine>;
strobe::Status attend(const A& a) { return call(a); }
