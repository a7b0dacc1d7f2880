// SPDX-License-Identifier: MIT
// The same, one call further down.
// nvcc: calling a __host__ function from a __host__ __device__ function is not allowed
#include "call.hpp"

#if defined(STROBE_TEST_RIGHT)
#define SIDES __host__ __device__
#else
#define SIDES
#endif

struct Even {
  __host__ __device__ Even bind(const strobe::Block&) const { return {}; }
  __host__ __device__ bool visible(int, int k) const { return k % 2 == 0; }
  SIDES strobe::Tile tile(strobe::Span) const { return strobe::Tile::partial; }
};
using A = strobe::Attention<__half, 64, Even>;
strobe::Status attend(const A& a) { return call(a); }
