// SPDX-License-Identifier: MIT
// A mask of your own. "Dilated" attention: causal, and of the past only every stride-th key counted
// from the query. The struct below is all there is to write; it works in every kernel, and
// check_mask proves it on the CPU.
#include <strobe/prefill.cuh>

#include <cmath>
#include <cstdio>
#include <vector>

#include "support/array.hpp"
#if STROBE_HOST_EXECUTION
#include <strobe/host/check_mask.hpp>
#endif

struct Dilated {
  int stride;
  int reach;  // how many of them

  struct Bound {
    int stride, reach;
    strobe::Span q;
    // Does the query at position q see key k? The one question that needs an answer.
    STROBE_HOST_DEVICE bool visible(int position, int k) const {
      const int distance = position - k;
      return distance >= 0 && distance % stride == 0 && distance / stride < reach;
    }
    // Optional, for speed: tiles no query of the block can see are never loaded.
    STROBE_HOST_DEVICE int next_key(int k) const {
      if (k > q.end - 1) return strobe::unlimited;
      const int first = q.begin - (reach - 1) * stride;
      return k > first ? k : first;
    }
  };
  STROBE_HOST_DEVICE Bound bind(const strobe::Block& block) const {
    return {stride, reach, block.q};
  }
};

int main() {
  const Dilated mask{4, 16};
#if STROBE_HOST_EXECUTION
  const strobe::MaskReport report = strobe::check_mask_shapes(mask);
  std::printf("check_mask: %lld tiles, %lld visited, %s\n", static_cast<long long>(report.tiles),
              static_cast<long long>(report.visited),
              report.ok() ? "no mistake" : report.mistake.c_str());
  if (!report.ok()) return 1;
#endif

  // V[key] = key in every dim and Q = 0, so each output is the mean of the keys its query sees:
  // easy to check.
  const int len = 300, heads = 2, dim = 64;
  std::vector<__half> zeros(size_t(len) * heads * dim, __float2half_rn(0.f)), keys(zeros);
  for (int i = 0; i < len; ++i)
    for (int j = 0; j < heads * dim; ++j)
      keys[size_t(i) * heads * dim + size_t(j)] = __float2half_rn(float(i));
  const example::Array<__half> q(zeros), k(zeros), v(keys);
  const example::Array<float> o(zeros.size());

  strobe::Attention<__half, dim, Dilated, strobe::Strided<__half>, strobe::NoScore, dim, float> a;
  a.q = strobe::token_major<const __half>(q.data(), len, heads, dim);
  a.kv.k = strobe::token_major<const __half>(k.data(), len, heads, dim);
  a.kv.v = strobe::token_major<const __half>(v.data(), len, heads, dim);
  a.o = strobe::token_major(o.data(), len, heads, dim);
  a.mask = mask;
  a.bounds = {1, len, len, heads, heads};
  strobe::Device device;
  example::require(strobe::current_device(&device));
  example::require(strobe::prefill(a, device, strobe::Workspace{}, nullptr));

  const std::vector<float> got = o.to_host();
  for (int i = 0; i < len; ++i) {
    double sum = 0, count = 0;
    for (int key = i; key >= 0 && (i - key) / mask.stride < mask.reach; key -= mask.stride)
      sum += key, ++count;
    const double expected = sum / count;
    if (!(std::fabs(double(got[size_t(i) * heads * dim]) - expected) <= 1e-3 * (1 + expected))) {
      std::printf("row %d: %g, expected %g\n", i, double(got[size_t(i) * heads * dim]), expected);
      return 1;
    }
  }
  std::printf("dilated attention is right in all %d rows, on %s\n", len, example::place());
}
