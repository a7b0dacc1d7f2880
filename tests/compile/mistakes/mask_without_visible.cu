// SPDX-License-Identifier: MIT
// A Bound that only knows tiles.
// error: mask: its Bound needs bool visible(int q, int k) const
#include "call.hpp"

#if defined(STROBE_TEST_RIGHT)
struct Bound {
  __host__ __device__ bool visible(int, int) const { return true; }
  __host__ __device__ strobe::Tile tile(strobe::Span) const { return strobe::Tile::full; }
};
#else
struct Bound {
  __host__ __device__ strobe::Tile tile(strobe::Span) const { return strobe::Tile::full; }
};
#endif

struct Everything {
  __host__ __device__ Bound bind(const strobe::Block&) const { return {}; }
};
using A = strobe::Attention<__half, 64, Everything>;
strobe::Status attend(const A& a) { return call(a); }
