// SPDX-License-Identifier: MIT
// Faults that users of other attention kernels reported, as inputs with the right value; each case
// carries the id of the report it restates and says what went wrong there. Ids not here: the
// layout, ragged and GQA ones are in test_prefill_layout.cu, OOB-01 in test_prefill_basic.cu,
// OOB-04 in test_prefill_widths.cu, what needs a GPU in test_prefill_gpu.cu, wrong calls in
// tests/host. Reports about paging, decode, splits, sinks as logits (NUM-10), fp8 and backward wait
// for those features.
#include "support/case.hpp"

using namespace strobe_test;

namespace {

template <class T, int Width>
using With = strobe::Attention<T, Width, strobe::Window>;
constexpr strobe::Window causal{strobe::unlimited, 0}, full{};

Problem shape(int q_len, int kv_len, int q_heads = 1, int kv_heads = 1) {
  Problem p;
  p.q_len = q_len;
  p.kv_len = kv_len;
  p.q_heads = q_heads;
  p.kv_heads = kv_heads;
  return p;
}
Values constant(float value) {
  return [value](int, int, int, int) { return value; };
}

// Row (b, h, t) is v[key] exactly.
void check_is_value_of(const Result& r, const Numbers& n, int h, int t, int key) {
  const int group = r.q_heads / n.kv_heads;
  for (int d = 0; d < r.value_dim; ++d) {
    INFO("head " << h << ", row " << t << ", dim " << d);
    CHECK(r.row(0, h, t)[d] == n.v[size_t(n.v_at(0, key, h / group) + d)]);
  }
}

template <class T>
void check_very_negative_logits() {
  for (const int kv_len : {64, 1}) {
    Problem p = shape(1, kv_len, 16, 1);
    p.q_values = constant(1.f);
    p.k_values = [](int, int t, int, int) { return t == 0 ? -736.f : -768.f; };
    const Prepared<With<T, 128>> prepared(p, full);
    require_ok(prepared.launch());
    finish();
    const Result r = judge(prepared);
    for (int h = 0; h < 16; ++h) {
      check_is_value_of(r, prepared.numbers, h, 0, 0);
      CHECK(std::fabs(r.lse_at(0, h, 0) + 8326.889f) < 2e-3f);  // 2 ulp of fp32 there
    }
  }
}

}  // namespace

// Minus infinity was a finite constant, so rows whose logits lay below it became zeros.
STROBE_TEST_CASE("NUM-01: logits far below any constant taken for minus infinity", "") {
  check_very_negative_logits<__half>();
  check_very_negative_logits<__nv_bfloat16>();
}

// The first tile of early rows was fully masked, and its stand-in for the maximum stayed.
STROBE_TEST_CASE("NUM-02: very negative logits beside fully masked tiles", "") {
  for (const int q_heads : {1, 7}) {
    Problem p = shape(88, 448, q_heads, 1);
    p.scale = 1;
    p.q_values = constant(1.f);
    p.k_values = constant(-3.125f);
    const Result r = check_problem<With<__half, 64>>(p, causal);
    CHECK(std::fabs(r.lse_at(0, 0, 2) + 194.10560f) < 1e-4f);
  }
  // Early rows of a later query tile under a narrow window: here the last tile is the masked one.
  Problem p = shape(200, 200);
  p.scale = 1;
  p.q_values = constant(1.f);
  p.k_values = constant(-3.125f);
  check_problem<With<__half, 64>>(p, {70, 3});
}

STROBE_TEST_CASE("NUM-04: logits beyond fp16's range", "") {
  Problem p = shape(1, 64);
  p.q_values = constant(32.f);
  p.k_values = [](int, int t, int, int) { return t == 0 ? 32.f : -32.f; };
  const Prepared<With<__half, 128>> prepared(p, full);
  require_ok(prepared.launch());
  finish();
  check_is_value_of(judge(prepared), prepared.numbers, 0, 0, 0);
}

// tanh as a quotient of exponentials overflowed.
STROBE_TEST_CASE("NUM-06: a soft cap far below the logits", "") {
  using Attention =
      strobe::Attention<__half, 64, strobe::Full, strobe::Strided<__half>, strobe::SoftCap>;
  // q = 16, k = +-key: logits +-1024 key; the last pair reaches 10^6.
  for (const float key : {10.f, 4.2969f, 4.8828f, 976.f}) {
    Problem p = shape(3, 2);
    p.scale = 1;
    p.q_values = constant(16.f);
    p.k_values = [key](int, int t, int, int) { return t == 0 ? key : -key; };
    p.v_values = [](int, int t, int, int) { return t == 0 ? 1.f : 5.f; };
    const Result r = check_problem<Attention>(p, {}, {50.f});
    CHECK(r.row(0, 0, 1)[5] == 1.f);
    CHECK(std::fabs(r.lse_at(0, 0, 1) - 50.f) < 1e-4f);
  }
}

STROBE_TEST_CASE("NUM-08: negative and zero scales", "") {
  for (const float scale : {-0.5f, -1e-3f, 0.f, 0.125f}) {
    Problem p = shape(70, 130, 2, 1);
    p.scale = scale;
    p.q_values = [](int, int t, int h, int d) { return 10.f * std::sin(float(t * 7 + h + d * d)); };
    p.k_values = [](int, int t, int, int d) { return 10.f * std::cos(float(t * 3 + d * 5)); };
    const Result r = check_problem<With<__half, 64>>(p, causal);
    if (scale == 0.f)
      for (const int t : {0, 69})
        CHECK(std::fabs(r.lse_at(0, 1, t) - std::log(float(t + 61))) < 1e-5f);
  }
}

// One side's LSE was in base 2, the other's natural: merged results were silently wrong.
STROBE_TEST_CASE("NUM-09: prefix and suffix merged by their LSE equal one pass", "") {
  constexpr int prefix = STROBE_HOST_EXECUTION ? 448 : 3072, suffix = 64, q_len = 20;
  for (const bool q_is_zero : {false, true}) {
    Problem p = shape(q_len, prefix + suffix, 2, 1);
    if (q_is_zero) p.q_values = constant(0.f);
    const Prepared<With<__half, 64>> whole(p, full);
    require_ok(whole.launch());
    finish();
    const Result once = judge(whole);
    const Numbers& n = whole.numbers;
    const auto part = [&](int first, int len) {
      Problem part_p = p;
      part_p.kv_len = len;
      part_p.k_values = [&n, first](int b, int t, int h, int d) {
        return n.k[size_t(n.k_at(b, first + t, h) + d)];
      };
      part_p.v_values = [&n, first](int b, int t, int h, int d) {
        return n.v[size_t(n.v_at(b, first + t, h) + d)];
      };
      return check_problem<With<__half, 64>>(part_p, full);
    };
    const Result left = part(0, prefix), right = part(prefix, suffix);
    for (int h = 0; h < 2; ++h)
      for (int t = 0; t < q_len; ++t) {
        const double a = double(left.lse_at(0, h, t)), b = double(right.lse_at(0, h, t));
        const double lse = std::max(a, b) + std::log1p(std::exp(-std::fabs(a - b)));
        const double weight = std::exp(b - lse);
        CHECK(std::fabs(lse - double(once.lse_at(0, h, t))) < 2e-5);
        if (q_is_zero) CHECK(std::fabs(weight - double(suffix) / (prefix + suffix)) < 1e-5);
        for (int d = 0; d < 64; ++d) {
          const double merged = (1.0 - weight) * double(left.row(0, h, t)[d]) +
                                weight * double(right.row(0, h, t)[d]);
          CHECK(std::fabs(merged - double(once.row(0, h, t)[d])) < 1e-3);  // fp16 rounding of each
        }
      }
  }
}

// The causal mask was aligned top-left, and the verifier shared the mistake.
STROBE_TEST_CASE("MSK-01: causal is aligned bottom-right", "") {
  for (const auto& [q_len, kv_len] : {std::pair{2, 5}, {3, 128}, {1, 1}, {1, 77}, {64, 65}})
    check_problem<With<__half, 64>>(shape(q_len, kv_len, 2, 1), causal);
  // By hand, without the oracle: q = 0, so O is the mean of the visible v[k] = k.
  Problem p = shape(2, 5);
  p.q_values = constant(0.f);
  p.v_values = [](int, int t, int, int) { return float(t); };
  const Result r = check_problem<With<__half, 64>>(p, causal);
  CHECK(r.row(0, 0, 0)[0] == 1.5f);
  CHECK(r.row(0, 0, 1)[0] == 2.f);
}

STROBE_TEST_CASE("MSK-02, SCH-05: rows before the first key", "") {
  const Result r = check_problem<With<__half, 64>>(shape(5, 2), causal);
  for (int t = 0; t < 3; ++t) {
    CHECK(r.lse_at(0, 0, t) == -INFINITY);
    CHECK(r.row(0, 0, t)[0] == 0.f);
  }
  CHECK(kind_of(double(r.lse_at(0, 0, 3))) == 0);
  check_problem<With<__nv_bfloat16, 128>>(shape(200, 100), causal);
  Problem p = shape(150, 150);
  p.batch = 2;
  p.q_offsets = {0, 150, 190};
  p.kv_offsets = {0, 20, 170};
  check_problem<With<__half, 64>>(p, causal);
}

// Whether a window of W counts the token itself.
STROBE_TEST_CASE("MSK-04: windows are inclusive and count the token itself", "") {
  Problem p = shape(8, 8);
  const Prepared<With<__half, 64>> own(p, {0, 0});
  require_ok(own.launch());
  finish();
  const Result r = judge(own);
  for (int t = 0; t < 8; ++t) check_is_value_of(r, own.numbers, 0, t, t);
  for (const int left : {1, 3}) {
    Problem zero = shape(8, 8);
    zero.q_values = constant(0.f);
    const Result counted = check_problem<With<__half, 64>>(zero, {left, 0});
    for (int t = 0; t < 8; ++t)
      CHECK(std::fabs(counted.lse_at(0, 0, t) - std::log(float(std::min(t, left) + 1))) < 1e-5f);
  }
  check_problem<With<__half, 64>>(shape(1, 9), {3, 0});
}

// 0 was taken for "not set". Negative numbers are errors: tests/host.
STROBE_TEST_CASE("MSK-05: an edge of 0 is an edge", "") {
  using strobe::unlimited;
  const Problem p = shape(40, 70);
  CHECK(same_bits(run_problem<With<__half, 64>>(p, {unlimited, 0}),
                  run_problem<strobe::Attention<__half, 64, strobe::Causal>>(p)));
  check_problem<With<__half, 64>>(p, {0, unlimited});
}

// The first tiles' key span left out the tile's own width.
STROBE_TEST_CASE("MSK-08: a window open to the right", "") {
  constexpr int kv_len = STROBE_HOST_EXECUTION ? 1000 : 4096;
  Problem p = shape(300, kv_len, STROBE_HOST_EXECUTION ? 1 : 8, STROBE_HOST_EXECUTION ? 1 : 2);
  check_problem<With<__half, 128>>(p, {333, strobe::unlimited});
#if !STROBE_HOST_EXECUTION
  p = shape(1024, 1024, 8, 2);
  check_problem<With<__half, 128>>(p, {333, strobe::unlimited});
#endif
}

// Cross attention: the query start was offset by the K/V length.
STROBE_TEST_CASE("MSK-10: cross attention over a part of the K/V storage", "") {
  Problem p = shape(64, 128, STROBE_HOST_EXECUTION ? 4 : 16, 1);
  p.kv_lens = {32};
  p.head_dim = p.value_dim = 32;
  p.q_values = p.k_values = constant(1.f);
  p.v_values = [](int, int t, int, int) { return float(t); };
  const Result r = check_problem<With<__half, 64>>(p, full);
  for (const int t : {0, 63}) CHECK(r.row(0, 1, t)[31] == 15.5f);
}

// Padded graph slots, some of them bf16 and wide, whose stale output stayed.
STROBE_TEST_CASE("RAG-06: slots of length 0, bf16, head dimension 128", "") {
  Problem p = shape(1, 130, 4, 2);
  p.batch = 8;
  p.kv_lens = {17, 130, 1, 64, 0, 0, 0, 0};
  check_problem<With<__nv_bfloat16, 128>>(p, causal);
}
