// SPDX-License-Identifier: MIT
// A ramp that returns its size.
// error: score: its Bound's ramp is bool ramp(Span q, Span keys, float* per_key) const
#include "call.hpp"

struct Rising {
  __host__ __device__ Rising bind(const strobe::Block&) const { return {}; }
  __host__ __device__ float operator()(float logit, int, int k) const {
    return logit + 0.125f * float(k);
  }
#if defined(STROBE_TEST_RIGHT)
  __host__ __device__ bool ramp(strobe::Span, strobe::Span, float* per_key) const {
    *per_key = 0.125f;
    return true;
  }
#else
  __host__ __device__ float ramp(strobe::Span, strobe::Span) const { return 0.125f; }
#endif
};

using A = strobe::Attention<__half, 64, strobe::Full, strobe::Strided<__half>, Rising>;
strobe::Status attend(const A& a) { return call(a); }
