// SPDX-License-Identifier: MIT
// Causal attention on the Q, K and V of a real model (SmolLM2-135M-Instruct, one early and one late
// layer, 384 tokens of English), checked row by row against fp64: the output, the log-sum-exp and
// how long it takes. The same source is built by nvcc for a GPU and by the host compiler for the
// CPU; examples/quickstart.sh picks.
#include <strobe/append.cuh>
#include <strobe/decode.cuh>
#include <strobe/prefill.cuh>

#include <cmath>
#include <cstdio>
#include <limits>
#include <string>
#include <vector>

#include "real_tensors.hpp"
#include "support/array.hpp"

namespace {

constexpr int head_dim = 64;

float value(uint16_t fp16_bits) {
  __half_raw raw;
  raw.x = fp16_bits;
  return __half2float(__half(raw));
}

/// Attention as the textbook writes it, in fp64: scores, softmax, weighted mean.
struct Reference {
  std::vector<double> o, lse;

  explicit Reference(const strobe_test::RealTensors& t)
      : o(t.q.size()), lse(size_t(t.tokens) * size_t(t.q_heads)) {
    const int group = t.q_heads / t.kv_heads;
    std::vector<double> weight(size_t(t.tokens));
    for (int row = 0; row < t.tokens; ++row) {
      for (int head = 0; head < t.q_heads; ++head) {
        const size_t q = (size_t(row) * size_t(t.q_heads) + size_t(head)) * head_dim;
        const auto kv = [&](int key) {
          return (size_t(key) * size_t(t.kv_heads) + size_t(head / group)) * head_dim;
        };
        double largest = -std::numeric_limits<double>::infinity(), sum = 0;
        for (int key = 0; key <= row; ++key) {
          double dot = 0;
          for (size_t d = 0; d < head_dim; ++d)
            dot += double(value(t.q[q + d])) * double(value(t.k[kv(key) + d]));
          weight[size_t(key)] = dot / std::sqrt(double(head_dim));
          largest = std::max(largest, weight[size_t(key)]);
        }
        for (int key = 0; key <= row; ++key)
          sum += weight[size_t(key)] = std::exp(weight[size_t(key)] - largest);
        for (int key = 0; key <= row; ++key)
          for (size_t d = 0; d < head_dim; ++d)
            o[q + d] += weight[size_t(key)] / sum * double(value(t.v[kv(key) + d]));
        lse[size_t(row) * size_t(t.q_heads) + size_t(head)] = largest + std::log(sum);
      }
    }
  }
};

bool run_layer(const char* file, const strobe::Device& device) {
  const strobe_test::RealTensors t =
      strobe_test::load_real_tensors(std::string(STROBE_DATA_DIR "/") + file);
  if (t.head_dim != head_dim) {
    std::fprintf(stderr, "%s has head_dim %d; this example is built for %d\n", file, t.head_dim,
                 head_dim);
    return false;
  }
  const example::Array<__half> q(t.q), k(t.k), v(t.v), o(t.q.size());
  const example::Array<float> lse(size_t(t.tokens) * size_t(t.q_heads));

  strobe::Attention<__half, head_dim, strobe::Causal> a;
  a.q = strobe::token_major<const __half>(q.data(), t.tokens, t.q_heads, head_dim);
  a.kv.k = strobe::token_major<const __half>(k.data(), t.tokens, t.kv_heads, head_dim);
  a.kv.v = strobe::token_major<const __half>(v.data(), t.tokens, t.kv_heads, head_dim);
  a.o = strobe::token_major(o.data(), t.tokens, t.q_heads, head_dim);
  a.lse = strobe::token_major(lse.data(), t.tokens, t.q_heads, 1);
  a.bounds = {1, t.tokens, t.tokens, t.q_heads, t.kv_heads};

  const double time = example::seconds(
      [&] { example::require(strobe::prefill(a, device, strobe::Workspace{}, nullptr)); });

  const Reference reference(t);
  const std::vector<__half> got_o = o.to_host();
  const std::vector<float> got_lse = lse.to_host();
  double o_error = 0, o_largest = 0, lse_error = 0;
  for (size_t i = 0; i < got_o.size(); ++i) {
    // Written so that a NaN counts as an infinite error.
    const double error = std::fabs(double(__half2float(got_o[i])) - reference.o[i]);
    o_error = error <= o_error ? o_error : std::isnan(error) ? HUGE_VAL : error;
    o_largest = std::max(o_largest, std::fabs(reference.o[i]));
  }
  for (size_t i = 0; i < got_lse.size(); ++i) {
    const double error = std::fabs(double(got_lse[i]) - reference.lse[i]);
    lse_error = error <= lse_error ? lse_error : std::isnan(error) ? HUGE_VAL : error;
  }
  // Outputs reach o_largest, where fp16 has steps of 2^-10 relative; P is rounded to fp16 too, and
  // averages out.
  const double o_allowed = o_largest * 0x1p-10, lse_allowed = 1e-4;
  const bool right = o_error <= o_allowed && lse_error <= lse_allowed;
  std::printf(
      "%-22s %d tokens, %d/%d heads, head dim %d: %8.3g ms   O error %.2e of %.1f (allowed %.2e)   "
      "LSE error %.1e  %s\n",
      file, t.tokens, t.q_heads, t.kv_heads, head_dim, time * 1e3, o_error, o_largest, o_allowed,
      lse_error, right ? "right" : "WRONG");
  return right;
}

/// The last tokens of the text one by one, as a model generates them: append the token's K and V to
/// a cache, then attend. With Reduction::fixed every step gives exactly the row that prefill gave,
/// bit for bit.
bool decode_layer(const char* file, const strobe::Device& device) {
  using Attention = strobe::Attention<__half, head_dim, strobe::Causal, strobe::Strided<__half>,
                                      strobe::NoScore, head_dim, __half, strobe::FixedPolicy<256>>;
  const strobe_test::RealTensors t =
      strobe_test::load_real_tensors(std::string(STROBE_DATA_DIR "/") + file);
  const int steps = 16, known = t.tokens - steps;
  const size_t q_row = size_t(t.q_heads) * head_dim, kv_row = size_t(t.kv_heads) * head_dim;
  const example::Array<__half> q(t.q), k(t.k), v(t.v), o(t.q.size()), step_o(t.q.size());

  Attention whole;
  whole.q = strobe::token_major<const __half>(q.data(), t.tokens, t.q_heads, head_dim);
  whole.kv.k = strobe::token_major<const __half>(k.data(), t.tokens, t.kv_heads, head_dim);
  whole.kv.v = strobe::token_major<const __half>(v.data(), t.tokens, t.kv_heads, head_dim);
  whole.o = strobe::token_major(o.data(), t.tokens, t.q_heads, head_dim);
  whole.bounds = {1, t.tokens, t.tokens, t.q_heads, t.kv_heads};
  example::require(strobe::prefill(whole, device, strobe::Workspace{}, nullptr));

  // The cache knows the tokens before; the rest of it is NaN, which must never reach a result.
  std::vector<uint16_t> dead_k(t.k), dead_v(t.v);
  std::fill(dead_k.begin() + std::ptrdiff_t(size_t(known) * kv_row), dead_k.end(),
            uint16_t(0x7e00));
  std::fill(dead_v.begin() + std::ptrdiff_t(size_t(known) * kv_row), dead_v.end(),
            uint16_t(0x7e00));
  const example::Array<__half> k_cache(dead_k), v_cache(dead_v);
  std::vector<int> lens;
  for (int i = 0; i < steps; ++i) lens.push_back(known + i + 1);
  const example::Array<int> kv_lens(lens);

  Attention step;
  step.kv.k = strobe::token_major<const __half>(k_cache.data(), t.tokens, t.kv_heads, head_dim);
  step.kv.v = strobe::token_major<const __half>(v_cache.data(), t.tokens, t.kv_heads, head_dim);
  step.bounds = {1, 1, t.tokens, t.q_heads, t.kv_heads};
  const size_t bytes = strobe::decode_workspace_bytes<Attention>(step.bounds, device);
  const example::Array<unsigned char> scratch(bytes > 0 ? bytes : 1);
  const strobe::Workspace workspace{bytes > 0 ? scratch.data() : nullptr, bytes};
  example::require(strobe::init_workspace(workspace, nullptr));

  for (int i = 0; i < steps; ++i) {
    const size_t token = size_t(known + i);
    strobe::Append<__half> append;
    append.k =
        strobe::token_major<const __half>(k.data() + token * kv_row, 1, t.kv_heads, head_dim);
    append.v =
        strobe::token_major<const __half>(v.data() + token * kv_row, 1, t.kv_heads, head_dim);
    append.kv = step.kv;
    append.bounds = step.bounds;
    append.head_dim = append.value_dim = head_dim;
    step.q = strobe::token_major<const __half>(q.data() + token * q_row, 1, t.q_heads, head_dim);
    step.o = strobe::token_major(step_o.data() + token * q_row, 1, t.q_heads, head_dim);
    step.lengths.kv_lens = append.lengths.kv_lens = kv_lens.data() + i;
    example::require(strobe::append(append, device, nullptr));
    example::require(strobe::decode(step, device, workspace, nullptr));
  }

  const std::vector<__half> row_by_row = step_o.to_host(), at_once = o.to_host();
  const size_t first = size_t(known) * q_row;
  const bool same = std::memcmp(&row_by_row[first], &at_once[first],
                                (at_once.size() - first) * sizeof(__half)) == 0;
  std::printf("%-22s last %d tokens decoded one by one from a cache: %s\n", file, steps,
              same ? "bit for bit what prefill gave" : "DIFFERENT from prefill");
  return same;
}

}  // namespace

int main() {
  strobe::Device device;
  example::require(strobe::current_device(&device));
  std::printf("strobe %d.%d.%d: causal prefill of real tensors against fp64, on %s\n",
              STROBE_VERSION_MAJOR, STROBE_VERSION_MINOR, STROBE_VERSION_PATCH, example::place());
  strobe::Attention<__half, head_dim, strobe::Causal> any;
  const strobe::KernelChoice choice = strobe::prefill_kernel(any, device);
  example::require(choice.status);
  std::printf("kernel: %s\n", choice.text);
  const bool early = run_layer("smollm2_layer01.bin", device);
  const bool late = run_layer("smollm2_layer28.bin", device);
  const bool decoded = decode_layer("smollm2_layer28.bin", device);
  return early && late && decoded ? 0 : 1;
}
