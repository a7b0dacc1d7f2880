// SPDX-License-Identifier: MIT
// A key tile that is no multiple of what a product takes.
// error: DecodeTile: block_kv, keys a tile, is a multiple of 16
#include "call.hpp"

#if defined(STROBE_TEST_RIGHT)
constexpr int block_kv = 32;
#else
constexpr int block_kv = 24;
#endif

struct Mine : strobe::DefaultPolicy {
  static constexpr strobe::DecodeTile decode(strobe::Family, int, int) { return {block_kv, 2}; }
};
using A = strobe::Attention<__half, 64, strobe::Full, strobe::Strided<__half>, strobe::NoScore, 64,
                            __half, Mine>;
strobe::Status attend(const A& a) { return call(a); }
