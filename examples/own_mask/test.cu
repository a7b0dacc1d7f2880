// SPDX-License-Identifier: MIT
// Proves the mask and the call on a machine without a GPU. Three parts: the mask's tiles against
// its elements, a mistake that this finds, and the kernels of two architectures, run on the CPU,
// against the textbook.
#include <strobe/host/check_mask.hpp>
#include <strobe/host/execution.hpp>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <vector>

#include "attend.hpp"

namespace {

void print(const char* name, const strobe::MaskReport& r) {
  std::printf("%-16s %lld of %lld tiles visited, %lld of them for nothing: %s\n", name,
              static_cast<long long>(r.visited), static_cast<long long>(r.tiles),
              static_cast<long long>(r.idle), r.ok() ? "no mistake" : r.mistake.c_str());
}

// The window begins one key too late: right for a block of one row, wrong for others.
struct TooLate {
  SinkWindow mask;
  struct Bound : SinkWindow::Bound {
    int next_key(int k) const {
      const int first = q.end - window;
      return k >= sinks && k < first ? first : k;
    }
  };
  Bound bind(const strobe::Block& block) const { return {mask.bind(block)}; }
};

// The textbook, in double: softmax over the keys that `seen` lists, then the mean of their values.
double largest_error(const std::vector<__half>& q, const std::vector<__half>& k,
                     const std::vector<__half>& v, const std::vector<float>& o, int q_len,
                     int kv_len, int q_heads, int kv_heads, SinkWindow mask) {
  const auto at = [](const std::vector<__half>& x, int token, int heads, int head, int d) {
    return double(__half2float(x[size_t((token * heads + head) * 64 + d)]));
  };
  double worst = 0;
  for (int row = 0; row < q_len; ++row)
    for (int head = 0; head < q_heads; ++head) {
      const int position = row + kv_len - q_len, kv_head = head / (q_heads / kv_heads);
      std::vector<int> seen;
      for (int key = 0; key <= position; ++key)
        if (key < mask.sinks || key > position - mask.window) seen.push_back(key);
      std::vector<double> sum(64, 0.0);
      double weights = 0;
      for (const int key : seen) {
        double dot = 0;
        for (int d = 0; d < 64; ++d)
          dot += at(q, row, q_heads, head, d) * at(k, key, kv_heads, kv_head, d);
        const double weight = std::exp(dot / 8);
        weights += weight;
        for (size_t d = 0; d < 64; ++d) sum[d] += weight * at(v, key, kv_heads, kv_head, int(d));
      }
      for (size_t d = 0; d < 64; ++d) {
        const double got = double(o[size_t(row * q_heads + head) * 64 + d]);
        const double error = std::fabs(got - sum[d] / weights);
        worst = error <= worst ? worst : error;  // NaN becomes the worst, and stays
      }
    }
  return worst;
}

}  // namespace

int main() {
  // [docs: prove]
  const strobe::MaskReport plain = strobe::check_mask_shapes(PlainSinkWindow{5, 24});
  const strobe::MaskReport fast = strobe::check_mask_shapes(SinkWindow{5, 24});
  const strobe::MaskReport wrong = strobe::check_mask_shapes(TooLate{{5, 24}});
  // [docs: end]
  print("PlainSinkWindow", plain);
  print("SinkWindow", fast);
  print("TooLate", wrong);
  if (!plain.ok() || !fast.ok() || wrong.ok()) return 1;

  uint32_t seed = 1;
  const auto random = [&](int tokens, int heads) {
    std::vector<__half> values(size_t(tokens) * size_t(heads) * 64);
    for (__half& x : values)
      x = __float2half_rn(float(int32_t(seed = seed * 1664525u + 1013904223u) >> 8) * 0x1p-22f);
    return values;
  };
  const int q_len = 200, kv_len = 333, q_heads = 2, kv_heads = 1;
  const SinkWindow mask{5, 70};
  const std::vector<__half> q = random(q_len, q_heads), k = random(kv_len, kv_heads),
                            v = random(kv_len, kv_heads);
  bool right = true;

  // [docs: devices]
  // The same source for two devices, with threads, warps and copies in a random order.
  strobe::host::Options options;
  options.order = strobe::host::Order::random;
  options.asynchrony = strobe::host::Asynchrony::mixed;
  const strobe::host::ScopedOptions scope(options);
  for (const strobe::Device device : {strobe::Device{0, 80, 4, 99 << 10},      // mma.sync
                                      strobe::Device{0, 90, 4, 227 << 10}}) {  // wgmma and TMA
    std::vector<float> o(q.size());
    const strobe::Status status = attend(q.data(), k.data(), v.data(), o.data(), q_len, kv_len,
                                         q_heads, kv_heads, mask, device, nullptr);
    if (!status) {
      std::printf("%s\n%s\n", status.text, strobe::host::failure().c_str());
      return 1;
    }
    const double error = largest_error(q, k, v, o, q_len, kv_len, q_heads, kv_heads, mask);
    std::printf("compute capability %d: largest error %.1e\n", device.compute_capability, error);
    right &= error <= 2e-3;
  }
  // [docs: end]
  return right ? 0 : 1;
}
