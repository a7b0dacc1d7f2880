// SPDX-License-Identifier: MIT
// A tile that the smallest cards have no room for.
// error: PrefillTile: Q, two K and two V tiles fit in the 99 kB of shared memory
#include "call.hpp"

#if defined(STROBE_TEST_RIGHT)
constexpr int block_kv = 64;
#else
constexpr int block_kv = 256;
#endif

struct Mine : strobe::DefaultPolicy {
  static constexpr strobe::PrefillTile prefill(strobe::Family, int, int) {
    return {128, block_kv, 4, 1};
  }
};
using A = strobe::Attention<__half, 64, strobe::Full, strobe::Strided<__half>, strobe::NoScore, 64,
                            __half, Mine>;
strobe::Status attend(const A& a) { return call(a); }
