// SPDX-License-Identifier: MIT
// Compiled widths and the head dimensions inside them, value widths of their own, fp32 output, and
// Precision::split_p.
#include "support/case.hpp"

using namespace strobe_test;

namespace {

template <class T, int HeadDim, int ValueDim = HeadDim, class Out = T,
          class Policy = strobe::DefaultPolicy>
using Causal = strobe::Attention<T, HeadDim, strobe::Causal, strobe::Strided<T>, strobe::NoScore,
                                 ValueDim, Out, Policy>;

Problem shape(int q_len, int kv_len, int head_dim = 0, int value_dim = 0) {
  Problem p;
  p.q_len = q_len;
  p.kv_len = kv_len;
  p.q_heads = 2;
  p.head_dim = head_dim;
  p.value_dim = value_dim;
  return p;
}

template <class Attention>
void check_width() {
  check_problem<Attention>(shape(70, 131));
  check_problem<Attention>(shape(129, 65));
  Problem p = shape(33, 33);
  p.input = Input::outliers;
  check_problem<Attention>(p);
}

}  // namespace

STROBE_TEST_CASE("compiled width 32", "") { check_width<Causal<__half, 32>>(); }
STROBE_TEST_CASE("compiled width 96", "") { check_width<Causal<__nv_bfloat16, 96>>(); }
STROBE_TEST_CASE("compiled width 192", "") { check_width<Causal<__half, 192>>(); }
STROBE_TEST_CASE("compiled width 256", "") { check_width<Causal<__nv_bfloat16, 256>>(); }
STROBE_TEST_CASE("compiled widths 192 for keys, 128 for values", "") {
  check_width<Causal<__nv_bfloat16, 192, 128>>();
}
STROBE_TEST_CASE("compiled widths 64 for keys, 128 for values", "") {
  check_width<Causal<__half, 64, 128>>();
}

// OOB-04: multiples of 8 that are no multiple of 16, 32 or 64. 100 and 320 are errors, which the
// host tests check.
STROBE_TEST_CASE("OOB-04: head dimensions below the compiled width", "") {
  for (const int dim : {8, 16, 24}) check_problem<Causal<__half, 32>>(shape(33, 33, dim, dim));
  for (const int dim : {72, 80, 88}) {
    check_problem<Causal<__nv_bfloat16, 96>>(shape(33, 33, dim, dim));
    check_problem<Causal<__nv_bfloat16, 96>>(shape(17, 70, dim, 96));
  }
  for (const int dim : {136, 160}) check_problem<Causal<__half, 192>>(shape(33, 33, dim, dim));
  for (const int dim : {200, 248})
    check_problem<Causal<__nv_bfloat16, 256>>(shape(33, 33, dim, dim));
}
STROBE_TEST_CASE("OOB-04: key and value dimensions apart", "") {
  using Attention = Causal<__half, 64, 128>;
  for (const int head_dim : {8, 40, 64})
    for (const int value_dim : {8, 72, 104, 112, 120})
      check_problem<Attention>(shape(33, 66, head_dim, value_dim));
}

STROBE_TEST_CASE("fp32 output", "") {
  check_width<Causal<__half, 64, 64, float>>();
  // The same arithmetic, stored differently: rounding the fp32 output gives the 16-bit output.
  const Problem p = shape(129, 190);
  const Result wide = run_problem<Causal<__half, 64, 64, float>>(p);
  const Result narrow = run_problem<Causal<__half, 64>>(p);
  int64_t different = 0;
  for (size_t i = 0; i < wide.o.size(); ++i)
    different += round_through<__half>(wide.o[i]) != narrow.o[i];
  CHECK(different == 0);
  CHECK(wide.lse == narrow.lse);
  check_problem<Causal<__half, 64, 64, float>>(shape(20, 90, 40, 24));
  check_width<Causal<__nv_bfloat16, 128, 128, float>>();
}

namespace {
// With fp32 output nothing hides what the rounding of P costs.
template <class T, int Width>
void check_split_p(double at_least) {
  const Problem p = shape(100, 200);
  const Result standard = check_problem<Causal<T, Width, Width, float>>(p);
  const Result split = check_problem<Causal<T, Width, Width, float, strobe::SplitPPolicy>>(p);
  INFO(Format<T>::name << ": mean error " << standard.mean_error << " standard, "
                       << split.mean_error << " split_p");
  CHECK(split.mean_error * at_least < standard.mean_error);
  CHECK(split.worst_error * at_least < standard.worst_error);
}
}  // namespace

STROBE_TEST_CASE("split_p is nearer to the oracle: fp16", "") { check_split_p<__half, 64>(50.0); }
STROBE_TEST_CASE("split_p is nearer to the oracle: bf16", "") {
  check_split_p<__nv_bfloat16, 128>(50.0);
}
STROBE_TEST_CASE("split_p: 16-bit output, outliers", "") {
  Problem p = shape(70, 131);
  p.input = Input::outliers;
  check_problem<Causal<__half, 64, 64, float, strobe::SplitPPolicy>>(p);
}
