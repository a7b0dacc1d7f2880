// SPDX-License-Identifier: MIT
// A visible that kernels cannot call, because it may change its Bound.
// error: mask: its Bound needs bool visible(int q, int k) const
#include "call.hpp"

#if defined(STROBE_TEST_RIGHT)
struct Bound {
  __host__ __device__ bool visible(int, int k) const { return k % 2 == 0; }
};
#else
struct Bound {
  __host__ __device__ bool visible(int, int k) { return k % 2 == 0; }
};
#endif

struct Even {
  __host__ __device__ Bound bind(const strobe::Block&) const { return {}; }
};
using A = strobe::Attention<__half, 64, Even>;
strobe::Status attend(const A& a) { return call(a); }
