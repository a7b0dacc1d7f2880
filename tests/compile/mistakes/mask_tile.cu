// SPDX-License-Identifier: MIT
// A tile that takes two keys where a Span is asked about.
// error: mask: its Bound's tile is Tile tile(Span keys) const
#include "call.hpp"

#if defined(STROBE_TEST_RIGHT)
struct Bound : strobe::Causal::Bound {
  __host__ __device__ strobe::Tile tile(strobe::Span) const { return strobe::Tile::partial; }
};
#else
struct Bound : strobe::Causal::Bound {
  __host__ __device__ strobe::Tile tile(int, int) const { return strobe::Tile::partial; }
};
#endif

struct Triangle {
  __host__ __device__ Bound bind(const strobe::Block& block) const { return {{block.q}}; }
};
using A = strobe::Attention<__half, 64, Triangle>;
strobe::Status attend(const A& a) { return call(a); }
