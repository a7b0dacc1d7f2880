// SPDX-License-Identifier: MIT
// Decode against the oracle: query counts, head ratios, splits, ragged batches, layouts. Its masks
// and scores are in test_decode_masks.cu, its compiled widths in test_decode_widths.cu, its
// workspace and what it refuses in test_decode_calls.cu.
#include "support/case.hpp"

using namespace strobe_test;

namespace {

using Half64 = strobe::Attention<__half, 64, strobe::Window>;
using Bf128 = strobe::Attention<__nv_bfloat16, 128, strobe::Causal, strobe::Strided<__nv_bfloat16>,
                                strobe::NoScore, 128, float>;
constexpr strobe::Window causal{strobe::unlimited, 0}, full{};
// Of report SCH-01.
constexpr int splits_of_report[] = {0, 1, 2, 3, 7, 16, 32, 33, 64, 128};

Problem shape(int q_len, int kv_len, int q_heads = 2, int kv_heads = 1) {
  Problem p;
  p.q_len = q_len;
  p.kv_len = kv_len;
  p.q_heads = q_heads;
  p.kv_heads = kv_heads;
  return p;
}

}  // namespace

STROBE_TEST_CASE("decode: one to sixteen query tokens, causal among themselves", "") {
  for (int q_len = 1; q_len <= 16; ++q_len) {
    check_decode<Half64>(shape(q_len, 150 + 7 * q_len), causal);
    check_decode<Bf128>(shape(q_len, 40 + 9 * q_len, 3, 1));
  }
}

STROBE_TEST_CASE("decode: fewer keys than queries, one key, no key", "") {
  for (const int kv_len : {0, 1, 2, 15, 16, 17, 31, 32, 33, 127, 128, 129})
    for (const int q_len : {1, 16}) {
      check_decode<Half64>(shape(q_len, kv_len), causal);
      check_decode<Half64>(shape(q_len, kv_len, 5, 1), full);
      Problem p = shape(q_len, kv_len);
      p.kv_splits = 3;
      check_decode<Bf128>(p);
    }
}

STROBE_TEST_CASE("GQA-01: every ratio of query heads to KV heads", "") {
  for (const int group : {1, 2, 3, 4, 5, 6, 7, 8, 9, 12, 16, 17, 24, 32, 64})
    for (const int q_len : {1, 3}) {
      const int kv_heads = group % 3 + 1;
      INFO("group " << group);
      check_decode<Half64>(shape(q_len, 85, group * kv_heads, kv_heads), causal);
    }
  check_decode<Half64>(shape(1, 140, 71, 1), causal);
  check_decode<Bf128>(shape(2, 75, 71, 1));
  for (const int group : {1, 2, 3, 4, 5, 6, 7, 8, 16}) check_decode<Bf128>(shape(1, 70, group, 1));
}

// Beyond 64 packed rows a KV head has several blocks of rows, and a block may begin inside a
// token's group.
STROBE_TEST_CASE("decode: several blocks of packed rows a KV head, split", "") {
  for (const int splits : {0, 1, 4, 40}) {
    Problem p = shape(16, 610, 10, 2);  // 80 rows
    p.kv_splits = splits;
    check_decode<Half64>(p, causal);
    p = shape(15, 300, 9, 1);  // 135 rows: token 7's heads lie in two blocks
    p.kv_splits = splits;
    check_decode<Bf128>(p);
  }
}

// LSE was written only for the first query head of each group; fewer queries than heads a group.
STROBE_TEST_CASE("GQA-03, GQA-04: all rows of LSE; fewer queries than the group has heads", "") {
  for (const int q_len : {1, 2})
    for (const int splits : {0, 1, 3}) {
      Problem p = shape(q_len, 300, 8, 2);
      p.kv_splits = splits;
      check_decode<Bf128>(p);
      p.lse = false;
      check_decode<Bf128>(p);
      p.lse_layout = {Order::head_major, 3, 5, 7, 1};
      p.lse = true;
      check_decode<Bf128>(p);
    }
}

// Some splits were wrong, or NaN where there were more splits than tiles.
STROBE_TEST_CASE("SCH-01: every number of splits, few keys and many", "") {
  for (const int splits : splits_of_report) {
    for (const int kv_len : {1, 64, 65, 300}) {
      Problem p = shape(1, kv_len, 4, 2);
      p.kv_splits = splits;
      check_decode<Bf128>(p);
      p.q_len = 3;
      check_decode<Half64>(p, causal);
    }
    Problem p = shape(1, 2600, 2, 1);
    p.kv_splits = splits;
    check_decode<Half64>(p, full);
    p = shape(2, 1500, 9, 1);  // 18 rows: the wide blocks
    p.kv_splits = splits;
    p.rows_checked = 1;
    check_decode<Half64>(p, causal);
  }
}

STROBE_TEST_CASE("SCH-01: the shape of the report, and a tree of three levels", "") {
  for (const int splits : {1, 33, 128}) {
    Problem p = shape(1, 4096, 2, 1);
    p.kv_splits = splits;
    check_decode<Bf128>(p);
  }
  Problem p = shape(1, 260 * 128 + 5, 2, 1);  // 261 parts: 17 nodes, 2 nodes, the root
  p.head_dim = p.value_dim = 8;
  for (const int splits : {261, 1000}) {
    p.kv_splits = splits;
    check_decode<Half64>(p, causal);
  }
}

// Merging two empty parts was -infinity minus -infinity; splits were judged by lengths alone.
STROBE_TEST_CASE("MSK-08: windows and splits that cut off whole parts", "") {
  for (const int splits : {0, 1, 2, 5, 16}) {
    for (const strobe::Window& window : {strobe::Window{333, strobe::unlimited},
                                         {0, 0},
                                         {5, 3},
                                         {130, 0},
                                         {0, strobe::unlimited}}) {
      INFO("window " << window.left << ", " << window.right);
      Problem p = shape(12, 700, 4, 2);
      p.kv_splits = splits;
      p.rows_checked = 4;
      check_decode<Half64>(p, window);
      p.q_len = 1;
      p.kv_lens = {660};
      check_decode<Half64>(p, window);
    }
  }
}

// Lengths of 0 divided 0 by 0, or left what lay there.
STROBE_TEST_CASE("RAG-06: slots without keys in a padded batch", "") {
  for (const int splits : {0, 1, 2, 16}) {
    Problem p = shape(1, 200, 4, 2);
    p.batch = 8;
    p.kv_lens = {17, 130, 1, 64, 0, 0, 0, 0};
    p.kv_splits = splits;
    check_decode<Half64>(p, causal);
    check_decode<Bf128>(p);
  }
}

STROBE_TEST_CASE("decode: ragged batches, lengths 0 to 2000, query counts 0 to 16", "") {
  for (const int splits : {0, 5}) {
    Problem p = shape(16, 2000, 3, 1);
    p.batch = 12;
    p.kv_lens = {2000, 0, 1, 1999, 5, 777, 128, 127, 64, 1025, -3, 5000};
    p.q_lens = {1, 16, 3, 2, 16, 5, 0, 1, 16, 1, 2, 1};
    p.kv_splits = splits;
    p.head_dim = p.value_dim = 32;
    p.rows_checked = 4;
    check_decode<Half64>(p, causal);
  }
  Random random(5);
  Problem p = shape(1, 2000, 2, 1);
  p.batch = 20;
  for (int b = 0; b < p.batch; ++b) p.kv_lens.push_back(random.below(2001) / (b % 3 == 0 ? 1 : 20));
  check_decode<Half64>(p, full);
}

STROBE_TEST_CASE("decode: packed queries, packed keys", "") {
  Problem p = shape(9, 300, 4, 2);
  p.batch = 5;
  p.q_offsets = {0, 9, 9, 10, 14, 16};
  p.q_rows = 18;
  p.kv_offsets = {0, 300, 310, 310, 450, 451};
  p.kv_rows = 460;
  check_decode<Half64>(p, causal);
  p.kv_lens = {250, 4, 0, 200, 1};
  p.kv_splits = 4;
  check_decode<Half64>(p, causal);
}

// The tail of a cache reached results as 0 * NaN.
STROBE_TEST_CASE("PAG-02: a cache longer than its valid length, NaN and infinity behind", "") {
  for (const Poison poison : {Poison::nan, Poison::infinity})
    for (const int splits : {0, 2}) {
      Problem p = shape(1, 3, 2, 1);
      p.batch = 2;
      p.kv_lens = {1, 3};
      p.poison = poison;
      p.kv_splits = splits;
      check_decode<Half64>(p, full);
      p = shape(1, 128, 8, 4);
      p.batch = 4;
      p.kv_lens = {32, 64, 96, 48};
      p.kv_rows = 130;
      p.poison = poison;
      p.kv_splits = splits;
      check_decode<Bf128>(p);
    }
}

STROBE_TEST_CASE("decode: layouts, paddings, V as a view of K, head dimensions below the width",
                 "") {
  Problem p = shape(3, 150, 6, 2);
  p.batch = 2;
  p.kv_splits = 2;
  p.q = p.k = Layout{Order::head_major, 8, 16, 8, 8};
  p.v = Layout{Order::token_major, 0, 24, 0, 8};
  p.o = Layout{Order::head_major, 16, 8, 24, 0};
  check_decode<Half64>(p, causal);
  p = shape(2, 90, 2, 1);
  p.storage = Storage::v_in_k;
  p.value_dim = 32;
  check_decode<Half64>(p, causal);
  for (const int dim : {8, 24, 40, 56}) {
    p = shape(2, 200, 2, 1);
    p.head_dim = dim;
    p.value_dim = 64 - dim;
    p.kv_splits = 2;
    check_decode<Half64>(p, causal);
    p.head_dim = p.value_dim = 2 * dim;
    check_decode<Bf128>(p);
  }
}

STROBE_TEST_CASE("decode: inputs of every kind, scales of every sign", "") {
  for (const Input input : {Input::normal, Input::outliers, Input::all_equal, Input::alternating})
    for (const int splits : {1, 3}) {
      Problem p = shape(2, 500, 4, 1);
      p.input = input;
      p.kv_splits = splits;
      check_decode<Half64>(p, causal);
      check_decode<Bf128>(p);
    }
  for (const float scale : {-0.125f, 0.f, 2.f, -1e-30f}) {
    Problem p = shape(2, 290, 3, 1);
    p.scale = scale;
    p.kv_splits = 2;
    check_decode<Half64>(p, causal);
    check_decode<Bf128>(shape(2, 40, 9, 1));
  }
}

// Below any constant taken for minus infinity, and parts whose sums vanish beside another's.
STROBE_TEST_CASE("NUM-01: logits far below zero, the largest in any part", "") {
  for (const int splits : {1, 3})
    for (const int largest : {0, 200, 299}) {
      Problem p = shape(1, 300, 4, 1);
      p.q_values = [](int, int, int, int) { return 1.f; };
      p.k_values = [largest](int, int t, int, int) { return t == largest ? -736.f : -768.f; };
      p.kv_splits = splits;
      check_decode<Half64>(p, full);
      // fp32 O shows that the maximum is rounded before it is subtracted; LSE must not.
      CHECK(std::fabs(run_decode<Bf128>(p).lse_at(0, 0, 0) + 8326.889f) < 2e-3f);
    }
}

// Of the seed project: decode of token t is row t of causal prefill.
STROBE_TEST_CASE("decode of token t is row t of causal prefill", "") {
  constexpr int length = 270;
  Problem whole = shape(length, length, 4, 2);
  const Result rows = check_problem<Half64>(whole, causal);
  for (const int t : {1, 17, 63, 64, 127, 128, 269}) {
    Problem p = shape(1, length, 4, 2);
    p.kv_lens = {t + 1};
    const auto row_of_q = [&](int b, int, int h, int d) {
      Random random(whole.seed + uint64_t(b) * 7919u + uint64_t(h) * 104729u + (uint64_t(t) << 32));
      for (int i = 0; i < d; ++i) (void)random.normal();
      return random.normal();
    };
    p.q_values = row_of_q;
    const Result token = check_decode<Half64>(p, causal);
    float largest = 0.f;
    for (int h = 0; h < 4; ++h)
      for (int d = 0; d < 64; ++d)
        largest = std::max(largest, std::fabs(token.row(0, h, 0)[d] - rows.row(0, h, t)[d]));
    INFO("token " << t);
    CHECK(largest <= 1e-3f);
  }
}

// Two parts of 100 keys each cannot begin at tiles of 48 keys: a user's own tile.
namespace {
struct OwnTile : strobe::DefaultPolicy {
  static constexpr strobe::DecodeTile decode(strobe::Family, int, int) { return {48, 3}; }
};
}  // namespace
STROBE_TEST_CASE("decode: a user's policy with key tiles of 48", "") {
  using Own = strobe::Attention<__half, 64, strobe::Window, strobe::Strided<__half>,
                                strobe::NoScore, 64, __half, OwnTile>;
  for (const int splits : {1, 2, 3, 7}) {
    Problem p = shape(1, 1000, 2, 1);
    p.kv_splits = splits;
    check_decode<Own>(p, causal);
  }
}
