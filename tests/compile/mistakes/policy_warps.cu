// SPDX-License-Identifier: MIT
// A tile whose rows do not divide by its warps.
// error: PrefillTile: block_q is 16 or 32 query rows for each of its warps
#include "call.hpp"

#if defined(STROBE_TEST_RIGHT)
constexpr int warps = 4;
#else
constexpr int warps = 3;
#endif

struct Mine : strobe::DefaultPolicy {
  static constexpr strobe::PrefillTile prefill(strobe::Family, int, int) {
    return {128, 64, warps, 1};
  }
};
using A = strobe::Attention<__half, 64, strobe::Full, strobe::Strided<__half>, strobe::NoScore, 64,
                            __half, Mine>;
strobe::Status attend(const A& a) { return call(a); }
