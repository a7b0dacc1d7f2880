// SPDX-License-Identifier: MIT
// A one_span that is asked about a query.
// error: mask: its Bound's one_span is bool one_span() const
#include "call.hpp"

struct Bound {
  bool causal;
  __host__ __device__ bool visible(int q, int k) const { return !causal || k <= q; }
  __host__ __device__ strobe::Span keys_of(int q) const { return {0, q + 1}; }
#if defined(STROBE_TEST_RIGHT)
  __host__ __device__ bool one_span() const { return causal; }
#else
  __host__ __device__ bool one_span(int) const { return causal; }
#endif
};

struct MaybeTriangle {
  bool causal = true;
  __host__ __device__ Bound bind(const strobe::Block&) const { return {causal}; }
};
using A = strobe::Attention<__half, 64, MaybeTriangle>;
strobe::Status attend(const A& a) { return call(a); }
