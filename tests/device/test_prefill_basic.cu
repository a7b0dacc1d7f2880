// SPDX-License-Identifier: MIT
// Prefill in its two tuned widths: element types, every tail of a tile, both alignments of q_len
// and kv_len, scales, inputs that real models have.
#include "support/case.hpp"

using namespace strobe_test;

namespace {

using Half64 = strobe::Attention<__half, 64, strobe::Causal>;
using Bfloat64 = strobe::Attention<__nv_bfloat16, 64, strobe::Full>;
using Half128 = strobe::Attention<__half, 128, strobe::Full>;
using Bfloat128 = strobe::Attention<__nv_bfloat16, 128, strobe::Causal>;
using Half64Full = strobe::Attention<__half, 64, strobe::Full>;

Problem shape(int q_len, int kv_len, int q_heads = 1, int kv_heads = 1) {
  Problem p;
  p.q_len = q_len;
  p.kv_len = kv_len;
  p.q_heads = q_heads;
  p.kv_heads = kv_heads;
  return p;
}

constexpr int tails[] = {1, 7, 63, 64, 65, 127, 128, 129, 255, 257};

// Every pair of lengths around a tile's edges, with and without LSE.
template <class Attention>
void check_tails(int longest) {
  int count = 0;
  for (const int q_len : tails)
    for (const int kv_len : tails) {
      // The longest ones meet each other and the shortest only: the rest adds time, not edges.
      if (std::max(q_len, kv_len) > longest && std::min(q_len, kv_len) != 1) continue;
      Problem p = shape(q_len, kv_len);
      p.lse = count % 4 != 3;
      p.seed = uint64_t(++count);
      check_problem<Attention>(p);
    }
}

template <class Attention>
void check_inputs() {
  for (const Input input : {Input::normal, Input::outliers, Input::all_equal, Input::alternating}) {
    Problem p = shape(100, 150, 2, 1);
    p.input = input;
    check_problem<Attention>(p);
  }
}

template <class Attention>
void check_scales() {
  for (const float scale : {-0.5f, -1e-3f, 0.f, 0.125f, 1.f}) {
    Problem p = shape(33, 70, 2, 2);
    p.scale = scale;
    check_problem<Attention>(p);
  }
}

}  // namespace

STROBE_TEST_CASE("OOB-01: tails, fp16, head dimension 64, causal", "") { check_tails<Half64>(129); }
STROBE_TEST_CASE("OOB-01: tails, bf16, head dimension 64, full", "") { check_tails<Bfloat64>(129); }
STROBE_TEST_CASE("OOB-01: tails, fp16, head dimension 128, full", "") { check_tails<Half128>(129); }
STROBE_TEST_CASE("OOB-01: tails, bf16, head dimension 128, causal", "") {
  check_tails<Bfloat128>(129);
}
STROBE_TEST_CASE("OOB-01: tails, fp16, head dimension 64, full", "") {
  check_tails<Half64Full>(65);
}

STROBE_TEST_CASE("inputs, fp16", "") {
  check_inputs<Half64>();
  check_inputs<Half128>();
}
STROBE_TEST_CASE("inputs, bf16", "") {
  check_inputs<Bfloat64>();
  check_inputs<Bfloat128>();
}

STROBE_TEST_CASE("scales", "") {
  check_scales<Half64>();
  check_scales<Bfloat64>();
  check_scales<Half128>();
}

STROBE_TEST_CASE("many key tiles: the maximum moves, both buffers are used often", "") {
  Problem p = shape(30, 900, 2, 1);
  p.input = Input::outliers;
  check_problem<Half64>(p);
  // Logits that rise by about one a tile: every tile raises the maximum.
  p = shape(16, 700);
  p.q_values = [](int, int t, int, int d) { return d == 0 ? 1.f : 0.01f * float(t + d); };
  p.k_values = [](int, int t, int, int d) { return d == 0 ? 0.125f * float(t) : 0.25f; };
  check_problem<Bfloat64>(p);
  // The same without a positive one, and falling from 0 far down: the maximum stays where it was.
  p.k_values = [](int, int t, int, int d) { return d == 0 ? 0.125f * float(t) - 200.f : 0.25f; };
  check_problem<Half64>(p);
  p.k_values = [](int, int t, int, int d) { return d == 0 ? -0.125f * float(t) : 0.f; };
  check_problem<Half64>(p);
}

STROBE_TEST_CASE("a call leaves nothing behind: twice the same bits", "") {
  const Problem p = shape(130, 200, 2, 1);
  CHECK(same_bits(run_problem<Half64>(p), run_problem<Half64>(p)));
  CHECK(same_bits(run_problem<Bfloat128>(p), run_problem<Bfloat128>(p)));
}

#if !STROBE_HOST_EXECUTION
// Shapes too large for the CPU; of these the first two, last two and some random rows are judged.
STROBE_TEST_CASE("long sequences, all instances", "") {
  const auto check = [](auto instance) {
    using Attention = decltype(instance);
    for (const auto& [q_len, kv_len] : {std::pair{1024, 1024}, {513, 4001}, {2048, 777}}) {
      Problem p = shape(q_len, kv_len, 8, 2);
      p.batch = 2;
      p.rows_checked = 40;
      check_problem<Attention>(p);
    }
  };
  check(Half64{});
  check(Bfloat64{});
  check(Half128{});
  check(Bfloat128{});
}
#endif
