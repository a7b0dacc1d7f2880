// SPDX-License-Identifier: MIT
// A next_key that asks for a query, too.
// error: mask: its Bound's next_key is int next_key(int k) const
#include "call.hpp"

#if defined(STROBE_TEST_RIGHT)
struct Bound : strobe::Causal::Bound {
  __host__ __device__ int next_key(int k) const { return k; }
};
#else
struct Bound : strobe::Causal::Bound {
  __host__ __device__ int next_key(int, int k) const { return k; }
};
#endif

struct Triangle {
  __host__ __device__ Bound bind(const strobe::Block& block) const { return {{block.q}}; }
};
using A = strobe::Attention<__half, 64, Triangle>;
strobe::Status attend(const A& a) { return call(a); }
