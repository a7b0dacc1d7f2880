// SPDX-License-Identifier: MIT
// A keys_of that names the last key alone.
// error: mask: its Bound's keys_of is Span keys_of(int q) const
#include "call.hpp"

struct Bound {
  __host__ __device__ bool visible(int q, int k) const { return k <= q; }
#if defined(STROBE_TEST_RIGHT)
  __host__ __device__ strobe::Span keys_of(int q) const { return {0, q + 1}; }
#else
  __host__ __device__ int keys_of(int q) const { return q; }
#endif
};

struct Triangle {
  __host__ __device__ Bound bind(const strobe::Block&) const { return {}; }
};
using A = strobe::Attention<__half, 64, Triangle>;
strobe::Status attend(const A& a) { return call(a); }
