// SPDX-License-Identifier: MIT
// Decode, pages and fixed reduction under ASan, UBSan and the race checker, where everything costs
// about ten times as much: each kind of code path in as few blocks as possible. All cases are
// [small], and they are alone in this file so that a sanitizer build compiles only it.
#include "support/case.hpp"

using namespace strobe_test;

namespace {

using Half64 = strobe::Attention<__half, 64, strobe::SinkWindow>;
using Paged128 = strobe::Attention<__nv_bfloat16, 128, strobe::Causal, strobe::Paged<__nv_bfloat16>,
                                   strobe::NoScore, 128, float>;
using Fixed64 = strobe::Attention<__half, 64, strobe::Window, strobe::Paged<__half>,
                                  strobe::NoScore, 64, __half, strobe::FixedPolicy<64>>;
constexpr strobe::SinkWindow causal{0, strobe::unlimited};
constexpr strobe::Window causal_window{strobe::unlimited, 0};

Problem shape(int batch, int q_len, int kv_len, int q_heads, int kv_heads, int splits) {
  Problem p;
  p.batch = batch;
  p.q_len = q_len;
  p.kv_len = kv_len;
  p.q_heads = q_heads;
  p.kv_heads = kv_heads;
  p.kv_splits = splits;
  return p;
}

}  // namespace

STROBE_TEST_CASE("small decode: narrow and wide blocks, one part and three", "[small]") {
  for (const int splits : {1, 3}) {
    check_decode<Half64>(shape(1, 1, 300, 4, 2, splits), causal);
    check_decode<Half64>(shape(1, 3, 260, 9, 1, splits), causal);
  }
}

STROBE_TEST_CASE("small decode: lengths 0, 1 and ragged, LSE left out", "[small]") {
  Problem p = shape(4, 2, 200, 2, 1, 2);
  p.kv_lens = {200, 0, 1, 130};
  p.q_lens = {2, 2, 1, 0};
  check_decode<Half64>(p, causal);
  p.lse = false;
  check_decode<Half64>(p, causal);
}

STROBE_TEST_CASE("small decode: sinks and a window, dims below the width, scale below 0",
                 "[small]") {
  Problem p = shape(1, 2, 400, 2, 1, 2);
  p.head_dim = 40;
  p.value_dim = 24;
  p.scale = -0.25f;
  check_decode<Half64>(p, {3, 60});
  p.scale = 0.f;
  p.kv_splits = 1;
  check_decode<Half64>(p, {3, 60});
}

STROBE_TEST_CASE("small decode: a tree of two levels", "[small]") {
  Problem p = shape(1, 1, 17 * 128 + 1, 1, 1, 18);
  p.head_dim = p.value_dim = 8;
  check_decode<Half64>(p, causal);
}

STROBE_TEST_CASE("small decode: pages, the table ends with the last one in use", "[small]") {
  for (const int page_size : {1, 16, 64}) {
    Problem p = shape(3, 1, 150, 2, 1, 2);
    p.kv_lens = {150, 0, 65};
    p.paging.page_size = page_size;
    p.paging.interleaved = page_size == 16;
    p.paging.csr = page_size == 64;
    check_decode<Paged128>(p);
  }
  Problem p = shape(2, 20, 70, 2, 1, 0);
  p.kv_lens = {70, 33};
  check_problem<Paged128>(p);
}

STROBE_TEST_CASE("small decode: fixed reduction, narrow and wide, and prefill", "[small]") {
  Problem p = shape(2, 1, 270, 2, 1, 2);
  p.kv_lens = {270, 64};
  check_decode<Fixed64>(p, causal_window);
  p = shape(1, 2, 200, 9, 1, 3);
  check_decode<Fixed64>(p, causal_window);
  check_problem<Fixed64>(shape(1, 70, 130, 1, 1, 0), causal_window);
  check_decode<Fixed64>(shape(1, 1, 0, 1, 1, 0), causal_window);
  // The window begins inside a chunk: no chunk may be two blocks' work.
  check_decode<Fixed64>(shape(1, 1, 500, 1, 1, 3), {330, 0});
}

STROBE_TEST_CASE("small decode: one workspace, two calls", "[small]") {
  const Prepared<Half64, Decode> first(shape(1, 1, 300, 1, 1, 2), causal);
  Prepared<Half64, Decode> second(shape(2, 1, 200, 1, 1, 2), causal);
  const Scratch scratch(std::max(first.workspace.bytes, second.workspace.bytes));
  for (int round = 0; round < 2; ++round) {
    REQUIRE(Decode::run(first.args, scratch.get(), nullptr).ok());
    second.workspace = scratch.get();
    require_ok(second.launch());
    finish();
    judge(first);
    judge(second);
    CHECK(scratch.damage() == "");
  }
}

#if STROBE_HOST_EXECUTION
STROBE_TEST_CASE("small decode: a tree of two levels, its blocks in any order", "[small]") {
  Problem p = shape(1, 1, 34 * 128, 1, 1, 34);  // 3 nodes: two of 16 parts, one of 2
  p.head_dim = p.value_dim = 8;
  const Result expected = run_decode<Half64>(p, causal);
  for (const uint64_t seed : {1u, 2u, 3u, 4u}) {
    strobe::host::Options options = strobe::host::current_options();
    options.order = seed == 4 ? strobe::host::Order::reverse : strobe::host::Order::random;
    options.seed = seed;
    options.resident_blocks = seed == 1 ? 34 : 8;
    const strobe::host::ScopedOptions scoped(options);
    const Prepared<Half64, Decode> prepared(p, causal);
    for (int call = 0; call < 2; ++call) {
      require_ok(prepared.launch());
      CHECK(same_bits(expected, judge(prepared)));
      prepared.reset_outputs();
    }
  }
}

// Which block arrives last, and which thread runs first, must not show.
STROBE_TEST_CASE("small decode: any order, any timing, any blocks side by side: the same bits",
                 "[small]") {
  using strobe::host::Asynchrony;
  const Problem narrow = shape(1, 1, 520, 2, 1, 4), wide = shape(1, 3, 260, 6, 1, 2);
  const Result expected = check_decode<Half64>(narrow, {5, 300});
  const Result expected_wide = check_decode<Half64>(wide, causal);
  const Result fixed = check_decode<Fixed64>(narrow, causal_window);
  for (const auto order :
       {strobe::host::Order::in_order, strobe::host::Order::reverse, strobe::host::Order::random})
    for (const auto asynchrony : {Asynchrony::lazy, Asynchrony::eager, Asynchrony::mixed})
      for (const int blocks : {2, 3, 8}) {
        strobe::host::Options options = strobe::host::current_options();
        options.order = order;
        options.asynchrony = asynchrony;
        options.seed = uint64_t(blocks) * 7 + 1;
        options.resident_blocks = blocks;
        const strobe::host::ScopedOptions scoped(options);
        INFO("order " << int(order) << ", asynchrony " << int(asynchrony) << ", blocks " << blocks);
        CHECK(same_bits(expected, run_decode<Half64>(narrow, {5, 300})));
        CHECK(same_bits(expected_wide, run_decode<Half64>(wide, causal)));
        CHECK(same_bits(fixed, run_decode<Fixed64>(narrow, causal_window)));
      }
}
#endif
