// SPDX-License-Identifier: MIT
// A shortcut that does not say how far it is good.
// error: score: its Bound's shortcut is shortcut(float scale) const and returns what has
#include "call.hpp"

struct Half {
  struct Shortcut {
    float scale_log2;
    __host__ __device__ float operator()(float product, float more) const {
      return product * scale_log2 + more;
    }
#if defined(STROBE_TEST_RIGHT)
    __host__ __device__ float most(float log2_logit) const { return log2_logit / scale_log2; }
    __host__ __device__ float limit() const { return 1e30f; }
#endif
  };
  __host__ __device__ Half bind(const strobe::Block&) const { return {}; }
  __host__ __device__ float operator()(float logit, int, int) const { return logit / 2; }
  __host__ __device__ Shortcut shortcut(float scale) const { return {scale * strobe::log2_e / 2}; }
};

using A = strobe::Attention<__half, 64, strobe::Full, strobe::Strided<__half>, Half>;
strobe::Status attend(const A& a) { return call(a); }
