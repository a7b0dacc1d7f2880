// SPDX-License-Identifier: MIT
// Several sequences share a prefix (a system prompt): its keys are read once for all of them. The
// queries of all sequences attend the prefix in one call, each sequence attends its own suffix, and
// merge puts the two halves together by their LSE.
#include <strobe/merge.cuh>
#include <strobe/prefill.cuh>

#include <cmath>
#include <cstdio>
#include <vector>

#include "support/array.hpp"

int main() {
  const int sequences = 3, prefix = 200, suffix = 40, heads = 4, kv_heads = 2, dim = 64;
  const size_t q_row = size_t(heads) * dim, kv_row = size_t(kv_heads) * dim;
  uint32_t seed = 1;
  const auto random = [&](size_t size) {
    std::vector<__half> values(size);
    for (__half& x : values)
      x = __float2half_rn(float(int32_t(seed = seed * 1664525u + 1013904223u) >> 8) * 0x1p-22f);
    return values;
  };
  const std::vector<__half> prefix_k = random(prefix * kv_row), prefix_v = random(prefix * kv_row);
  const std::vector<__half> suffix_k = random(sequences * suffix * kv_row),
                            suffix_v = random(sequences * suffix * kv_row);
  const example::Array<__half> q(random(sequences * suffix * q_row)), pk(prefix_k), pv(prefix_v),
      sk(suffix_k), sv(suffix_v);

  strobe::Device device;
  example::require(strobe::current_device(&device));
  const strobe::Workspace none;

  // Two partial results, fp32, one behind the other; then the merged one.
  const size_t rows = size_t(sequences) * suffix, part = rows * q_row;
  const example::Array<float> o(2 * part), lse(2 * rows * heads);
  const example::Array<__half> merged(part);

  // The prefix: every query sees all of it. To this call the batch is one long sequence.
  strobe::Attention<__half, dim, strobe::Full, strobe::Strided<__half>, strobe::NoScore, dim, float>
      before;
  before.q = strobe::token_major<const __half>(q.data(), sequences * suffix, heads, dim);
  before.kv.k = strobe::token_major<const __half>(pk.data(), prefix, kv_heads, dim);
  before.kv.v = strobe::token_major<const __half>(pv.data(), prefix, kv_heads, dim);
  before.o = strobe::token_major(o.data(), sequences * suffix, heads, dim);
  before.lse = strobe::token_major(lse.data(), sequences * suffix, heads, 1);
  before.bounds = {1, sequences * suffix, prefix, heads, kv_heads};
  example::require(strobe::prefill(before, device, none, nullptr));

  // The suffixes: causal, each its own.
  strobe::Attention<__half, dim, strobe::Causal, strobe::Strided<__half>, strobe::NoScore, dim,
                    float>
      after;
  after.q = strobe::token_major<const __half>(q.data(), suffix, heads, dim);
  after.kv.k = strobe::token_major<const __half>(sk.data(), suffix, kv_heads, dim);
  after.kv.v = strobe::token_major<const __half>(sv.data(), suffix, kv_heads, dim);
  after.o = strobe::token_major(o.data() + part, suffix, heads, dim);
  after.lse = strobe::token_major(lse.data() + rows * heads, suffix, heads, 1);
  after.bounds = {sequences, suffix, suffix, heads, kv_heads};
  example::require(strobe::prefill(after, device, none, nullptr));

  // [docs: merge]
  strobe::Merge<float, __half> merge;
  merge.o = strobe::token_major<const float>(o.data(), suffix, heads, dim);
  merge.o_part = int64_t(part);
  merge.lse = strobe::token_major<const float>(lse.data(), suffix, heads, 1);
  merge.lse_part = int64_t(rows) * heads;
  merge.merged_o = strobe::token_major(merged.data(), suffix, heads, dim);
  merge.parts = 2;
  merge.batch = sequences;
  merge.tokens = suffix;
  merge.heads = heads;
  merge.value_dim = dim;
  example::require(strobe::merge(merge, device, nullptr));
  // [docs: end]

  // The same without the trick: every sequence with its own copy of the prefix.
  std::vector<__half> whole_k, whole_v;
  for (size_t s = 0; s < size_t(sequences); ++s) {
    whole_k.insert(whole_k.end(), prefix_k.begin(), prefix_k.end());
    whole_v.insert(whole_v.end(), prefix_v.begin(), prefix_v.end());
    const auto begin = std::ptrdiff_t(s * suffix * kv_row),
               end = std::ptrdiff_t((s + 1) * suffix * kv_row);
    whole_k.insert(whole_k.end(), suffix_k.begin() + begin, suffix_k.begin() + end);
    whole_v.insert(whole_v.end(), suffix_v.begin() + begin, suffix_v.begin() + end);
  }
  const example::Array<__half> wk(whole_k), wv(whole_v), whole_o(part);
  strobe::Attention<__half, dim, strobe::Causal> whole;
  whole.q = strobe::token_major<const __half>(q.data(), suffix, heads, dim);
  whole.kv.k = strobe::token_major<const __half>(wk.data(), prefix + suffix, kv_heads, dim);
  whole.kv.v = strobe::token_major<const __half>(wv.data(), prefix + suffix, kv_heads, dim);
  whole.o = strobe::token_major(whole_o.data(), suffix, heads, dim);
  whole.bounds = {sequences, suffix, prefix + suffix, heads, kv_heads};
  example::require(strobe::prefill(whole, device, none, nullptr));

  const std::vector<__half> got = merged.to_host(), expected = whole_o.to_host();
  double worst = 0;
  for (size_t i = 0; i < got.size(); ++i) {
    const double error =
        std::fabs(double(__half2float(got[i])) - double(__half2float(expected[i])));
    worst = error <= worst ? worst : error;
  }
  std::printf(
      "shared prefix of %d keys, %d suffixes: merged and whole differ by at most %.1e, on %s\n",
      prefix, sequences, worst, example::place());
  return worst <= 2e-3 ? 0 : 1;
}
