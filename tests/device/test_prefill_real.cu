// SPDX-License-Identifier: MIT
// Prefill on what a trained model makes of real English (tests/data/README.md): outliers, an
// attention sink, wide logits, which random tensors lack.
#include "data/real_tensors.hpp"
#include "support/case.hpp"

using namespace strobe_test;

namespace {

// STROBE_DATA_DIR: tests/data, defined by the build.
RealTensors load(const char* file) {
  return load_real_tensors(std::string(STROBE_DATA_DIR) + "/" + file);
}

// Heads `q_begin` .. of the file's; all of its tokens, so that the last rows see 384 keys.
Problem problem_of(const RealTensors& t, int kv_head, int kv_heads, int q_len) {
  const int group = t.q_heads / t.kv_heads;
  Problem p;
  p.q_len = q_len;
  p.kv_len = t.tokens;
  p.q_heads = kv_heads * group;
  p.kv_heads = kv_heads;
  const auto at = [dim = t.head_dim](const std::vector<std::uint16_t>& bits, int heads, int token,
                                     int head, int d) {
    return to_float(from_bits<__half>(bits[size_t((token * heads + head) * dim + d)]));
  };
  const int first_token = t.tokens - q_len;
  p.q_values = [=, &t](int, int token, int head, int d) {
    return at(t.q, t.q_heads, first_token + token, kv_head * group + head, d);
  };
  p.k_values = [=, &t](int, int token, int head, int d) {
    return at(t.k, t.kv_heads, token, kv_head + head, d);
  };
  p.v_values = [=, &t](int, int token, int head, int d) {
    return at(t.v, t.kv_heads, token, kv_head + head, d);
  };
  return p;
}

template <class Attention>
void check_layer(const char* file) {
  const RealTensors t = load(file);
  REQUIRE(t.head_dim == 64);
#if STROBE_HOST_EXECUTION
  // One K/V head and its three query heads; all rows of one, then the last 100 of another.
  check_problem<Attention>(problem_of(t, 0, 1, t.tokens));
  check_problem<Attention>(problem_of(t, 2, 1, 100));
#else
  const Result r = check_problem<Attention>(problem_of(t, 0, t.kv_heads, t.tokens));
  WARN(file << ", " << Format<typename Attention::query_type>::name << ": largest error "
            << r.worst_error << ", mean " << r.mean_error);
#endif
}

}  // namespace

STROBE_TEST_CASE("real tensors, early layer, fp16", "") {
  check_layer<strobe::Attention<__half, 64, strobe::Causal>>("smollm2_layer01.bin");
}
STROBE_TEST_CASE("real tensors, late layer, fp16", "") {
  check_layer<strobe::Attention<__half, 64, strobe::Causal>>("smollm2_layer28.bin");
}
STROBE_TEST_CASE("real tensors, late layer, rounded to bf16", "") {
  check_layer<strobe::Attention<__nv_bfloat16, 64, strobe::Causal>>("smollm2_layer28.bin");
}
