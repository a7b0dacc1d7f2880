// SPDX-License-Identifier: MIT
// Where tensors live and which part of them is real: GQA ratios, strides, packed and short
// sequences, shared storage, poison. Two instances serve all: a Window is full, causal or banded at
// run time.
#include "support/case.hpp"

using namespace strobe_test;

namespace {

using Half64 = strobe::Attention<__half, 64, strobe::Window>;
using Bfloat128 = strobe::Attention<__nv_bfloat16, 128, strobe::Window>;
constexpr strobe::Window causal{strobe::unlimited, 0};

Problem shape(int q_len, int kv_len, int q_heads = 1, int kv_heads = 1) {
  Problem p;
  p.q_len = q_len;
  p.kv_len = kv_len;
  p.q_heads = q_heads;
  p.kv_heads = kv_heads;
  return p;
}

// A layout must not change a bit of the result.
template <class Attention>
void check_same_as_compact(const Problem& p) {
  Problem compact = p;
  compact.q = compact.k = compact.v = compact.o = compact.lse_layout = Layout{};
  compact.storage = Storage::separate;
  compact.q_rows = compact.kv_rows = 0;
  if (p.storage == Storage::v_in_k) {
    const Numbers n = make_numbers<typename Attention::query_type>(completed<Attention>(p));
    compact.v_values = [n](int b, int t, int h, int d) { return n.v[size_t(n.v_at(b, t, h) + d)]; };
  }
  CHECK(same_bits(check_problem<Attention>(p, causal), run_problem<Attention>(compact, causal)));
}

}  // namespace

STROBE_TEST_CASE("GQA-01: any ratio of query heads to K/V heads", "") {
  for (const auto& [q_heads, kv_heads] :
       {std::pair{1, 1}, {2, 1}, {3, 1}, {5, 1}, {14, 2}, {8, 8}, {12, 4}, {71, 1}, {18, 2}})
    check_problem<Half64>(shape(9, 70, q_heads, kv_heads), causal);
  for (const auto& [q_heads, kv_heads] : {std::pair{6, 1}, {16, 1}, {24, 2}})
    check_problem<Bfloat128>(shape(5, 33, q_heads, kv_heads), causal);
}

STROBE_TEST_CASE("GQA-03: one query row, every head's LSE is written", "") {
  for (const int q_len : {1, 2}) check_problem<Bfloat128>(shape(q_len, 300, 8, 2), causal);
}

STROBE_TEST_CASE("GQA-04: fewer queries than the group has heads", "") {
  check_problem<Half64>(shape(2, 50, 8, 2), causal);
}

STROBE_TEST_CASE("layouts: every tensor in both orders, paddings apart", "") {
  const Layout layouts[] = {{},
                            {Order::head_major},
                            {Order::token_major, 8, 16, 24, 8},
                            {Order::head_major, 16, 8, 40, 16}};
  for (int i = 0; i < 8; ++i) {
    Problem p = shape(65, 100, 4, 2);
    p.batch = 2;
    p.q = layouts[i % 4];
    p.k = layouts[(i + 1) % 4];
    p.v = layouts[(i / 2) % 4];
    p.o = layouts[(i / 2 + 3) % 4];
    p.lse_layout = layouts[(3 * i + 1) % 4];
    check_same_as_compact<Half64>(p);
  }
}

STROBE_TEST_CASE("LAY-01: K's strides are not V's", "") {
  for (const bool k_is_spread : {true, false}) {
    Problem p = shape(40, 90, 4, 2);
    (k_is_spread ? p.k : p.v).outer_pad = 2 * 128;  // every second row of a larger buffer
    p.q.order = Order::head_major;
    check_same_as_compact<Bfloat128>(p);
  }
}

STROBE_TEST_CASE("LAY-03: O by token and by head, guards behind O and LSE", "") {
  for (const int q_len : {1, 3, 64})
    for (const Order order : {Order::token_major, Order::head_major}) {
      Problem p = shape(q_len, 80, 8, 8);
      p.batch = 2;
      p.o.order = order;
      p.lse_layout.order = order == Order::token_major ? Order::head_major : Order::token_major;
      check_problem<Half64>(p, causal);
    }
}

STROBE_TEST_CASE("shared storage: V a view of K, K and V interleaved, QKV in one tensor", "") {
  for (const Storage storage : {Storage::v_in_k, Storage::packed_kv, Storage::packed_qkv}) {
    Problem p = shape(70, 70, 4, 2);
    p.batch = 2;
    p.storage = storage;
    check_same_as_compact<Half64>(p);
  }
  Problem p = shape(20, 70, 2, 1);
  p.storage = Storage::v_in_k;  // as in multi-head latent attention: V narrower than K
  p.value_dim = 64;
  check_same_as_compact<Bfloat128>(p);
}

STROBE_TEST_CASE("OOB-02: few query rows, O at the very end of its memory", "") {
  for (const int q_len : {3, 5, 6, 7, 9})
    for (const int q_heads : {1, 5}) check_problem<Half64>(shape(q_len, 40, q_heads, 1), causal);
}

STROBE_TEST_CASE("RAG-01: entries without keys, entries without queries", "") {
  Problem p = shape(150, 100, 2, 1);
  p.batch = 3;
  p.q_offsets = {0, 150, 150, 300};
  p.kv_offsets = {0, 100, 200, 300};
  check_problem<Half64>(p, {});
  check_problem<Half64>(p, causal);
  p = shape(4, 64);
  p.batch = 2;
  p.q_offsets = {0, 4, 8};
  p.kv_offsets = {0, 0, 64};
  check_problem<Half64>(p, causal);
  p.q_offsets = p.kv_offsets = {0, 0, 0};
  p.q_rows = p.kv_rows = 3;
  check_problem<Half64>(p, causal);
}

STROBE_TEST_CASE("RAG-02: zero extents succeed and launch nothing", "") {
  const auto launch = [](const strobe::Bounds& bounds) {
    Half64 a;  // all pointers null
    a.bounds = bounds;
    require_ok(strobe::prefill(a, test_device(), {}, nullptr));
    finish();
    SUCCEED();
  };
  launch({0, 16, 16, 2, 1});
  launch({2, 0, 16, 2, 1});
  launch({2, 16, 16, 0, 0});
  launch({0, 0, 0, 0, 0});
  Problem p = shape(20, 0, 2, 1);  // no keys at all: rows are written
  p.batch = 2;
  check_problem<Half64>(p, {});
}

STROBE_TEST_CASE("RAG-04: NaN and infinity past the last offset and in the next sequence", "") {
  for (const Poison poison : {Poison::nan, Poison::infinity}) {
    Problem p = shape(21, 21, 16, 1);
    p.q_offsets = p.kv_offsets = {0, 21};
    p.q_rows = p.kv_rows = 24;
    p.poison = poison;
    const Result packed = check_problem<Bfloat128>(p, causal);

    Problem clean = shape(21, 21, 16, 1);
    CHECK(same_bits(packed, run_problem<Bfloat128>(clean, causal)));

    p.batch = 2;
    p.q_offsets = p.kv_offsets = {0, 21, 40};
    const float bad = poison == Poison::nan ? NAN : INFINITY;
    const Numbers n = make_numbers<__nv_bfloat16>(completed<Bfloat128>(clean));
    p.q_values = [=](int b, int t, int h, int d) {
      return b == 1 ? bad : n.q[size_t(n.q_at(0, t, h) + d)];
    };
    p.k_values = [=](int b, int t, int h, int d) {
      return b == 1 ? bad : n.k[size_t(n.k_at(0, t, h) + d)];
    };
    p.v_values = [=](int b, int t, int h, int d) {
      return b == 1 ? bad : n.v[size_t(n.v_at(0, t, h) + d)];
    };
    p.unjudged = {1};
    const Result beside = check_problem<Bfloat128>(p, causal);
    CHECK(std::memcmp(beside.o.data(), packed.o.data(), packed.o.size() * sizeof(float)) == 0);
    CHECK(std::memcmp(beside.lse.data(), packed.lse.data(), packed.lse.size() * 4) == 0);
  }
}

STROBE_TEST_CASE("RAG-05: rows past the last offset stay as they were", "") {
  Problem p = shape(40, 40, 3, 1);
  p.q_offsets = p.kv_offsets = {0, 40};
  p.q_rows = 64;
  check_problem<Half64>(p, causal);
}

STROBE_TEST_CASE("RAG-06: slots of length 0 are written: O is 0, LSE -infinity", "") {
  Problem p = shape(1, 130, 2, 1);
  p.batch = 8;
  p.kv_lens = {17, 130, 1, 64, 0, 0, 0, -3};
  check_problem<Half64>(p, {});
}

STROBE_TEST_CASE("RAG-07: loose bounds change nothing, tight ones cut", "") {
  const std::vector<int> offsets{0, 5, 305, 382};
  Problem p = shape(300, 300, 1, 1);
  p.batch = 3;
  p.q_offsets = p.kv_offsets = offsets;
  const Result exact = check_problem<Half64>(p, causal);
  for (const int bound : {512, STROBE_HOST_EXECUTION ? 3000 : 100000}) {
    p.q_len = p.kv_len = bound;
    CHECK(same_bits(exact, check_problem<Half64>(p, causal)));
  }
  p.q_len = p.kv_len = 256;  // documented: a length above its bound is cut to it
  check_problem<Half64>(p, causal);
}

STROBE_TEST_CASE("lengths and offsets together", "") {
  Problem p = shape(60, 90, 2, 2);
  p.batch = 3;
  p.q_offsets = {0, 60, 70, 130};
  p.q_lens = {60, 30, 7};  // the second is cut to its offsets
  p.kv_lens = {33, 90, 0};
  p.kv_rows = 96;
  check_problem<Half64>(p, causal);
  p.kv_offsets = {3, 93, 93, 100};
  p.kv_lens = {80, 5, 7};
  check_problem<Half64>(p, causal);
  check_problem<Half64>(p, {20, 4});
}

STROBE_TEST_CASE("PAG-02: dead tails of a dense cache never reach a result", "") {
  for (const Poison poison : {Poison::nan, Poison::infinity}) {
    Problem p = shape(1, 3, 2, 1);
    p.batch = 2;
    p.kv_lens = {1, 3};
    p.poison = poison;
    check_problem<Half64>(p, {});
    p = shape(3, 128, 8, 2);
    p.batch = 4;
    p.kv_lens = {32, 64, 96, 48};
    p.poison = poison;
    check_problem<Bfloat128>(p, causal);
  }
}

STROBE_TEST_CASE("DET-04: the capacity of the cache does not change a bit", "") {
  Problem p = shape(10, 700, 2, 1);
  p.kv_lens = {333};
  p.kv_len = 333;
  const Result exact = check_problem<Half64>(p, causal);
  for (const int capacity : {400, 700, 1024}) {
    p.kv_rows = p.kv_len = capacity;
    CHECK(same_bits(exact, run_problem<Half64>(p, causal)));
  }
}

STROBE_TEST_CASE("a row's bits do not depend on its batch", "") {
  Problem p = shape(70, 150, 2, 1);
  const Result alone = run_problem<Half64>(p, causal);
  p.batch = 3;
  const Result batched = run_problem<Half64>(p, causal);  // numbers are seeded by (batch, row)
  CHECK(std::memcmp(alone.o.data(), batched.o.data(), alone.o.size() * sizeof(float)) == 0);
}

namespace {
// A problem drawn at random from everything this file varies, and more at once than a person
// writes.
Problem random_problem(Random& random, strobe::Window& window) {
  const auto pick = [&](std::initializer_list<int> values) {
    return values.begin()[random.below(int(values.size()))];
  };
  const auto layout = [&] {
    return Layout{random.below(2) == 0 ? Order::token_major : Order::head_major,
                  pick({0, 0, 8, 24}), pick({0, 0, 16, 40}), pick({0, 8}), pick({0, 0, 8})};
  };
  Problem p;
  p.batch = pick({1, 1, 2, 3});
  p.kv_heads = pick({1, 1, 2, 3});
  p.q_heads = p.kv_heads * pick({1, 1, 2, 3, 5});
  p.q_len = 1 + random.below(random.below(3) == 0 ? 200 : 40);
  p.kv_len = random.below(random.below(2) == 0 ? 300 : 80);
  p.head_dim = pick({0, 0, 0, 8, 24, 48, 56});
  p.value_dim = pick({0, 0, 0, 16, 40, 64});
  p.q = layout(), p.k = layout(), p.v = layout(), p.o = layout(), p.lse_layout = layout();
  p.input = Input(random.below(4));
  p.lse = random.below(4) != 0;
  p.seed = random.next() % 100000;
  if (random.below(3) == 0) p.scale = 0.5f * random.normal();
  p.poison = random.below(2) == 0 ? Poison::nan : Poison::infinity;
  const auto lens = [&](int bound) {
    std::vector<int> values;
    for (int b = 0; b < p.batch; ++b) values.push_back(random.below(bound + 2) - 1);
    return values;
  };
  const auto offsets = [&](int bound) {
    std::vector<int> values{random.below(3)};
    for (int b = 0; b < p.batch; ++b) values.push_back(values.back() + random.below(bound + 1));
    return values;
  };
  if (random.below(3) == 0) p.q_lens = lens(p.q_len);
  if (random.below(2) == 0) p.kv_lens = lens(p.kv_len);
  if (random.below(3) == 0) p.q_offsets = offsets(p.q_len);
  if (random.below(3) == 0) p.kv_offsets = offsets(p.kv_len);
  if (random.below(3) == 0) p.kv_rows = p.kv_len + random.below(20);
  window = {pick({strobe::unlimited, strobe::unlimited, 0, 5, 64, 100}),
            pick({strobe::unlimited, 0, 0, 0, 3, 70})};
  return p;
}

template <class Attention>
void check_random(int count, uint64_t seed) {
  Random random(seed);
  for (int i = 0; i < count; ++i) {
    strobe::Window window;
    const Problem p = random_problem(random, window);
    INFO("random problem " << i << " of seed " << seed << ", window " << window.left << ", "
                           << window.right);
    check_problem<Attention>(p, window);
  }
}
}  // namespace

STROBE_TEST_CASE("random problems, fp16, head dimension up to 64", "") {
  check_random<Half64>(250, 1);
}
STROBE_TEST_CASE("random problems, bf16, head dimension up to 128", "") {
  check_random<Bfloat128>(120, 2);
}
