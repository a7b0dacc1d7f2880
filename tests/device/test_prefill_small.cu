// SPDX-License-Identifier: MIT
// The cases that also run under ASan, UBSan and the race checker, where everything costs about ten
// times as much: one of each kind of code path in as few blocks as possible. All of them are
// [small], and they are alone in this file so that a sanitizer build compiles only this one.
#include "support/case.hpp"

using namespace strobe_test;

namespace {
using HalfCausal = strobe::Attention<__half, 64, strobe::Causal>;
using WideWindow = strobe::Attention<__nv_bfloat16, 128, strobe::Window>;
using Capped = strobe::Attention<__half, 64, strobe::SinkWindow, strobe::Strided<__half>,
                                 strobe::SoftCap, 64, float>;
// So small a problem gets small tiles on 9.0, unless the policy has no others than the large ones.
struct LargeTiles : strobe::DefaultPolicy {
  static constexpr strobe::PrefillTile prefill(strobe::Family family, int head_dim, int value_dim) {
    return strobe::DefaultPolicy::prefill(
        family == strobe::Family::sm80 ? family : strobe::Family::sm90a, head_dim, value_dim);
  }
};
using LargeCausal = strobe::Attention<__half, 64, strobe::Causal, strobe::Strided<__half>,
                                      strobe::NoScore, 64, __half, LargeTiles>;
using LargeWindow =
    strobe::Attention<__nv_bfloat16, 64, strobe::Window, strobe::Strided<__nv_bfloat16>,
                      strobe::NoScore, 64, __nv_bfloat16, LargeTiles>;
using Full128 = strobe::Attention<__half, 128, strobe::Full>;
}  // namespace

STROBE_TEST_CASE(
    "small: several key tiles, tails of every kind, and a block that does several tiles",
    "[small]") {
  for (const float scale : {0.125f, -0.125f}) {
    Problem p;
    p.q_len = 211;
    p.kv_len = 397;
    p.q_heads = 2;
    p.scale = scale;
    check_problem<LargeCausal>(p);
    check_problem<HalfCausal>(p);
    check_problem<Full128>(p);
  }
  Problem p;
  p.batch = 2;
  p.q_len = 200;
  p.kv_len = 270;
  p.q_lens = {200, 3};
  p.kv_lens = {0, 261};
  check_problem<LargeWindow>(p, {100, 3});
  check_problem<Full128>(p);
}

STROBE_TEST_CASE("small: causal, two query tiles, grouped heads", "[small]") {
  Problem p;
  p.q_len = p.kv_len = 131;
  p.q_heads = 2;
  check_problem<HalfCausal>(p);
}

STROBE_TEST_CASE("small: one row, one key, and no key", "[small]") {
  for (const int kv_len : {1, 0}) {
    Problem p;
    p.q_len = 1;
    p.kv_len = kv_len;
    check_problem<HalfCausal>(p);
  }
}

STROBE_TEST_CASE("small: more queries than keys leave rows without any", "[small]") {
  Problem p;
  p.q_len = 70;
  p.kv_len = 33;
  check_problem<HalfCausal>(p);
}

STROBE_TEST_CASE("small: a head dimension below the compiled width", "[small]") {
  Problem p;
  p.q_len = 17;
  p.kv_len = 65;
  p.head_dim = 40;
  p.value_dim = 24;
  check_problem<HalfCausal>(p);
}

STROBE_TEST_CASE("small: negative scale, zero scale", "[small]") {
  for (const float scale : {-0.125f, 0.f}) {
    Problem p;
    p.q_len = p.kv_len = 20;
    p.scale = scale;
    check_problem<HalfCausal>(p);
  }
}

STROBE_TEST_CASE("small: packed sequences, one of them empty", "[small]") {
  Problem p;
  p.batch = 3;
  p.q_len = 40;
  p.kv_len = 70;
  p.q_offsets = {0, 40, 40, 47};
  p.kv_offsets = {0, 70, 75, 75};
  p.q_rows = 50;
  p.kv_rows = 80;
  check_problem<HalfCausal>(p);
}

STROBE_TEST_CASE("small: window, head dimension 128, padded head-major layout", "[small]") {
  Problem p;
  p.q_len = 66;
  p.kv_len = 140;
  p.q_heads = 2;
  p.k = p.v = Layout{Order::head_major, 8, 16, 8, 8};
  p.o = Layout{Order::head_major, 16, 8, 0, 0};
  check_problem<WideWindow>(p, {37, 5});
}

STROBE_TEST_CASE("small: device lengths in a longer cache", "[small]") {
  Problem p;
  p.batch = 2;
  p.q_len = 5;
  p.kv_len = 96;
  p.q_lens = {5, 2};
  p.kv_lens = {67, 0};
  p.kv_rows = 100;
  check_problem<WideWindow>(p, {strobe::unlimited, 0});
}

STROBE_TEST_CASE("small: a mask with holes, a score, fp32 output", "[small]") {
  Problem p;
  p.q_len = 30;
  p.kv_len = 210;
  check_problem<Capped>(p, {3, 20}, {5.f});
}

// What a launch may use decides who does what, never what comes out.
STROBE_TEST_CASE("small: few multiprocessors or many, with and without a workspace: the same bits",
                 "[small]") {
  Problem p;
  p.q_len = 300;
  p.kv_len = 150;
  p.q_heads = 4;
  p.kv_heads = 2;
  const Prepared<LargeCausal> prepared(p);
  require_ok(prepared.launch());
  finish();
  const auto o = prepared.download_o();
  const auto lse = prepared.download_lse();
  for (const int sm_count : {1, 3, 1000})
    for (const bool with_workspace : {true, false}) {
      INFO(sm_count << " multiprocessors, workspace " << with_workspace);
      strobe::Device device = test_device();
      device.sm_count = sm_count;
      prepared.reset_outputs();
      require_ok(strobe::prefill(prepared.args, device,
                                 with_workspace ? prepared.workspace : strobe::Workspace{},
                                 nullptr));
      finish();
      CHECK(same_bytes(prepared.download_o(), o));
      CHECK(same_bytes(prepared.download_lse(), lse));
      CHECK(prepared.damage(o, lse).empty());
    }
}

#if STROBE_HOST_EXECUTION
// A kernel without races gives the same bits whichever thread runs first and whenever a copy lands.
STROBE_TEST_CASE("small: every order of threads, every timing of copies: the same bits",
                 "[small]") {
  Problem p;
  p.q_len = 60;
  p.kv_len = 200;
  p.q_heads = 2;
  const Result expected = check_problem<HalfCausal>(p);
  using strobe::host::Asynchrony;
  for (const auto order :
       {strobe::host::Order::in_order, strobe::host::Order::reverse, strobe::host::Order::random})
    for (const auto asynchrony : {Asynchrony::lazy, Asynchrony::eager, Asynchrony::mixed})
      for (const uint64_t seed : {3u, 4u}) {
        strobe::host::Options options = strobe::host::current_options();
        options.order = order;
        options.asynchrony = asynchrony;
        options.seed = seed;
        const strobe::host::ScopedOptions scoped(options);
        INFO("order " << int(order) << ", asynchrony " << int(asynchrony) << ", seed " << seed);
        CHECK(same_bits(expected, run_problem<HalfCausal>(p)));
      }
}
#endif
