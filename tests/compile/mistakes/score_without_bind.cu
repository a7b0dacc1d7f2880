// SPDX-License-Identifier: MIT
// A score that was meant to be its own Bound.
// error: score: it needs Bound bind(const Block&) const
#include "call.hpp"

#if defined(STROBE_TEST_RIGHT)
struct Half {
  __host__ __device__ Half bind(const strobe::Block&) const { return {}; }
  __host__ __device__ float operator()(float logit, int, int) const { return logit / 2; }
};
#else
struct Half {
  __host__ __device__ float operator()(float logit, int, int) const { return logit / 2; }
};
#endif

using A = strobe::Attention<__half, 64, strobe::Full, strobe::Strided<__half>, Half>;
strobe::Status attend(const A& a) { return call(a); }
