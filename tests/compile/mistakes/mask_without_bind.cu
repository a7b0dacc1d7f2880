// SPDX-License-Identifier: MIT
// A mask that was meant to be its own Bound.
// error: mask: it needs Bound bind(const Block&) const
#include "call.hpp"

#if defined(STROBE_TEST_RIGHT)
struct Even {
  __host__ __device__ Even bind(const strobe::Block&) const { return {}; }
  __host__ __device__ bool visible(int, int k) const { return k % 2 == 0; }
};
#else
struct Even {
  __host__ __device__ bool visible(int, int k) const { return k % 2 == 0; }
};
#endif

using A = strobe::Attention<__half, 64, Even>;
strobe::Status attend(const A& a) { return call(a); }
