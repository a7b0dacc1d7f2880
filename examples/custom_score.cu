// SPDX-License-Identifier: MIT
// A score of your own: what happens to a logit before softmax. Here a relative position bias as in
// T5: one learned number a head for each distance bucket, loaded once a block where possible.
// Chained after a soft cap, under a causal mask.
#include <strobe/prefill.cuh>

#include <cmath>
#include <cstdio>
#include <vector>

#include "support/array.hpp"

struct RelativeBias {
  const float* table;  // [q_heads, buckets], device memory
  int buckets;

  struct Bound {
    const float* of_head;
    int buckets;
    STROBE_HOST_DEVICE float operator()(float logit, int q, int k) const {
      const int distance = q > k ? q - k : 0;
      return logit + of_head[distance < buckets ? distance : buckets - 1];
    }
  };
  STROBE_HOST_DEVICE Bound bind(const strobe::Block& block) const {
    return {table + block.q_head * buckets, buckets};
  }
};

int main() {
  const int len = 150, heads = 3, dim = 64, buckets = 32;
  const float cap = 5.f;
  uint32_t seed = 1;
  const auto random = [&] {
    return float(int32_t(seed = seed * 1664525u + 1013904223u) >> 8) * 0x1p-22f;
  };  // about -2 .. 2
  std::vector<__half> qkv[3];
  for (auto& tensor : qkv)
    for (int i = 0; i < len * heads * dim; ++i) tensor.push_back(__float2half_rn(random()));
  std::vector<float> bias;
  for (int i = 0; i < heads * buckets; ++i) bias.push_back(random());
  const example::Array<__half> q(qkv[0]), k(qkv[1]), v(qkv[2]), o(qkv[0].size());
  const example::Array<float> table(bias);

  using Score = strobe::Chain<strobe::SoftCap, RelativeBias>;
  strobe::Attention<__half, dim, strobe::Causal, strobe::Strided<__half>, Score> a;
  a.q = strobe::token_major<const __half>(q.data(), len, heads, dim);
  a.kv.k = strobe::token_major<const __half>(k.data(), len, heads, dim);
  a.kv.v = strobe::token_major<const __half>(v.data(), len, heads, dim);
  a.o = strobe::token_major(o.data(), len, heads, dim);
  a.score = {{cap}, {table.data(), buckets}};
  a.bounds = {1, len, len, heads, heads};
  strobe::Device device;
  example::require(strobe::current_device(&device));
  example::require(strobe::prefill(a, device, strobe::Workspace{}, nullptr));

  const std::vector<__half> got = o.to_host();
  const auto at = [&](int tensor, int token, int head, int d) {
    return double(__half2float(qkv[tensor][size_t((token * heads + head) * dim + d)]));
  };
  double worst = 0;
  for (int row = 0; row < len; ++row) {
    for (int head = 0; head < heads; ++head) {
      std::vector<double> expected(dim);
      double sum = 0;
      for (int key = 0; key <= row; ++key) {
        double dot = 0;
        for (int d = 0; d < dim; ++d) dot += at(0, row, head, d) * at(1, key, head, d);
        const double capped = double(cap) * std::tanh(dot / std::sqrt(double(dim)) / double(cap));
        const double weight = std::exp(
            capped + double(bias[size_t(head * buckets + std::min(row - key, buckets - 1))]));
        for (int d = 0; d < dim; ++d) expected[size_t(d)] += weight * at(2, key, head, d);
        sum += weight;
      }
      for (int d = 0; d < dim; ++d) {
        const double error =
            std::fabs(double(__half2float(got[size_t((row * heads + head) * dim + d)])) -
                      expected[size_t(d)] / sum);
        worst = error <= worst ? worst : error;
      }
    }
  }
  std::printf("soft cap + relative bias, largest error %.1e, on %s\n", worst, example::place());
  return worst <= 2e-3 ? 0 : 1;
}
