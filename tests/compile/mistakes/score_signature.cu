// SPDX-License-Identifier: MIT
// A score that forgets the two positions.
// error: score: its Bound needs float operator()(float logit, int q, int k) const
#include "call.hpp"

#if defined(STROBE_TEST_RIGHT)
struct Half {
  __host__ __device__ Half bind(const strobe::Block&) const { return {}; }
  __host__ __device__ float operator()(float logit, int, int) const { return logit / 2; }
};
#else
struct Half {
  __host__ __device__ Half bind(const strobe::Block&) const { return {}; }
  __host__ __device__ float operator()(float logit) const { return logit / 2; }
};
#endif

using A = strobe::Attention<__half, 64, strobe::Full, strobe::Strided<__half>, Half>;
strobe::Status attend(const A& a) { return call(a); }
