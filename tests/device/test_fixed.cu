// SPDX-License-Identifier: MIT
// Reduction::fixed: the bits of a row depend on that row alone. Everything here compares bits: a
// row alone, in batches, under other splits, pages, bounds, machines and entries.
#include "support/case.hpp"
#include "support/streams.hpp"

using namespace strobe_test;

namespace {

template <class T, int Width, class Mask, class Kv, int Chunk, class Score = strobe::NoScore,
          class Out = T>
using Fixed = strobe::Attention<T, Width, Mask, Kv, Score, Width, Out, strobe::FixedPolicy<Chunk>>;
using Half64 = Fixed<__half, 64, strobe::Window, strobe::Strided<__half>, 64>;
using Paged64 = Fixed<__half, 64, strobe::Window, strobe::Paged<__half>, 64>;
using Bf128 = Fixed<__nv_bfloat16, 128, strobe::Causal, strobe::Paged<__nv_bfloat16>, 256>;
using Scored =
    Fixed<__half, 64, strobe::SinkWindow, strobe::Strided<__half>, 64, strobe::SoftCap, float>;
using Half256 = Fixed<__half, 256, strobe::Window, strobe::Strided<__half>, 64>;  // tiles of 16
constexpr strobe::Window causal{strobe::unlimited, 0};

// Sequences with a number each. A query's values follow from the sequence's number and the token's
// position, so that any problem may ask for any stretch of tokens.
struct Story {
  int number, q_len, kv_len;
};
Problem problem_of(const std::vector<Story>& stories, int q_heads = 6, int kv_heads = 2) {
  Problem p;
  p.batch = int(stories.size());
  p.q_len = p.kv_len = 0;
  p.q_heads = q_heads;
  p.kv_heads = kv_heads;
  std::vector<int> first;
  for (const Story& story : stories) {
    p.q_len = std::max(p.q_len, story.q_len);
    p.kv_len = std::max(p.kv_len, story.kv_len);
    p.q_lens.push_back(story.q_len);
    p.kv_lens.push_back(story.kv_len);
    p.like.push_back(story.number);
    first.resize(std::max(first.size(), size_t(story.number) + 1));
    first[size_t(story.number)] = story.kv_len - story.q_len;
  }
  p.q_values = [first](int number, int t, int h, int d) {
    const int position = t + first[size_t(number)];
    return Random(uint64_t(number) * 7919u + uint64_t(h) * 104729u + uint64_t(d) * 31u +
                  (uint64_t(position + 100000) << 32))
        .normal();
  };
  return p;
}

const std::vector<Story> stories = {{0, 1, 1000}, {1, 4, 70}, {2, 16, 333}, {3, 1, 64},
                                    {4, 2, 0},    {5, 3, 65}, {6, 1, 1603}, {7, 9, 5}};

// Every row of story i in `a` (at batch entry ba) and in `b`.
bool same_rows(const Story& story, const Result& a, int ba, const Result& b, int bb) {
  for (int t = 0; t < story.q_len; ++t)
    if (!same_row(a, ba, t, b, bb, t)) return false;
  return true;
}

template <class Attention, class Entry>
void check_batches(const typename Attention::mask_type& mask = {}) {
  const Problem all = problem_of(stories);
  const Result batch = check_problem<Attention, Entry>(all, mask);
  // Rows of one sequence must not follow from where it stands in the batch, or who else is there.
  std::vector<Story> shuffled = stories;
  Random random(3);
  for (int round = 0; round < 3; ++round) {
    for (size_t i = shuffled.size() - 1; i > 0; --i)
      std::swap(shuffled[i], shuffled[size_t(random.below(int(i) + 1))]);
    const std::vector<Story> some(shuffled.begin(), shuffled.end() - 2 * round);
    const Result other = run_problem<Attention, Entry>(problem_of(some), mask);
    for (size_t i = 0; i < some.size(); ++i) {
      INFO("story " << some[i].number << ", round " << round);
      CHECK(same_rows(some[i], batch, some[i].number, other, int(i)));
    }
  }
  for (const Story& story : stories) {
    INFO("story " << story.number << " alone");
    const Result alone = run_problem<Attention, Entry>(problem_of({story}), mask);
    CHECK(same_rows(story, batch, story.number, alone, 0));
  }
}

template <class Attention, class Entry>
void check_pages(const Problem& given, const Result& expected,
                 const typename Attention::mask_type& mask = {}) {
  for (const int page_size : {1, 8, 16, 32, 64, 128, 256})
    for (const uint64_t shuffle : {0u, 1u, 2u}) {
      INFO("page size " << page_size << ", order " << shuffle);
      Problem p = given;
      p.paging.page_size = page_size;
      p.paging.shuffle = shuffle;
      p.paging.csr = shuffle == 2;
      CHECK(same_bits(expected, run_problem<Attention, Entry>(p, mask)));
    }
}

// Rows of prefill over all tokens against decode at some of them, `q_len` tokens at once.
template <class Attention>
void check_decode_is_prefill(int length, int q_heads, int kv_heads,
                             const typename Attention::mask_type& mask = {},
                             const typename Attention::score_type& score = {}) {
  const Result rows =
      run_problem<Attention>(problem_of({{0, length, length}}, q_heads, kv_heads), mask, score);
  for (const int q_len : {1, 5, 16})
    for (const int end : {1, 17, 63, 64, 65, 200, 256, 257, length}) {
      if (end < q_len || end > length) continue;
      INFO("tokens " << end - q_len << " to " << end - 1 << " of " << length);
      const Story story{0, q_len, end};
      const Result tokens =
          run_decode<Attention>(problem_of({story}, q_heads, kv_heads), mask, score);
      bool same = true;
      for (int t = 0; t < q_len; ++t)
        same = same && same_row(tokens, 0, t, rows, 0, end - q_len + t);
      CHECK(same);
    }
}

}  // namespace

STROBE_TEST_CASE("fixed: right by the oracle, split or not, and without keys", "") {
  for (const int splits : {0, 1, 3}) {
    Problem p = problem_of({{0, 3, 700}, {1, 1, 1}, {2, 2, 0}, {3, 3, 64}});
    p.kv_splits = splits;
    check_decode<Half64>(p, causal);
    check_decode<Half64>(p, {40, 0});
    check_decode<Bf128>(p);
    check_decode<Scored>(p, {4, 100}, {5.f});
    p.q_heads = 48;  // wide blocks
    check_decode<Half64>(p, causal);
    check_decode<Bf128>(p);
  }
  Problem p = problem_of({{0, 100, 700}, {1, 130, 130}, {2, 2, 0}, {3, 70, 20}});
  p.rows_checked = 20;
  check_problem<Half64>(p, causal);
  check_problem<Half64>(p, {40, 3});
  check_problem<Bf128>(p);
  check_problem<Scored>(p, {4, 100}, {5.f});
}

STROBE_TEST_CASE("fixed: no sequence has keys, by the bounds", "") {
  Problem p = problem_of({{0, 2, 0}, {1, 1, 0}});
  check_problem<Half64>(p, causal);
  check_decode<Half64>(p, causal);
}

STROBE_TEST_CASE("fixed: alone, in a batch, shuffled, among other lengths", "") {
  check_batches<Half64, Decode>(causal);
  check_batches<Half64, Prefill>(causal);
  check_batches<Bf128, Decode>();
  check_batches<Bf128, Prefill>();
  check_batches<Half64, Decode>({130, 0});
}

STROBE_TEST_CASE("fixed: every forced number of splits", "") {
  const auto check = [](auto tag, const Problem& given, auto mask, auto score) {
    using Attention = typename decltype(tag)::type;
    Problem p = given;
    const Result expected = run_decode<Attention>(p, mask, score);
    for (const int splits : {1, 2, 3, 4, 5, 7, 16, 32, 33, 64, 128}) {
      INFO("splits " << splits);
      p.kv_splits = splits;
      CHECK(same_bits(expected, run_decode<Attention>(p, mask, score)));
    }
  };
  const Problem p = problem_of(stories), wide = problem_of(stories, 10, 1);
  check(std::common_type<Half64>(), p, causal, strobe::NoScore{});
  check(std::common_type<Half64>(), wide, strobe::Window{200, 0}, strobe::NoScore{});
  check(std::common_type<Bf128>(), p, strobe::Causal{}, strobe::NoScore{});
  check(std::common_type<Scored>(), p, strobe::SinkWindow{3, 150}, strobe::SoftCap{4.f});
}

STROBE_TEST_CASE("fixed: every page size, pages in any order, and no pages", "") {
  Problem p = problem_of({{0, 2, 530}, {1, 1, 0}, {2, 2, 65}});
  p.kv_splits = 2;
  check_pages<Paged64, Decode>(p, run_decode<Half64>(p, causal), causal);
  check_pages<Bf128, Decode>(p, run_decode<Bf128>(p));
  p = problem_of({{0, 70, 300}, {1, 20, 20}});
  check_pages<Paged64, Prefill>(p, run_problem<Half64>(p, causal), causal);
}

STROBE_TEST_CASE("fixed: one to sixteen tokens at once, or one at a time", "") {
  constexpr int length = 300, most = 16;
  const auto check = [&](auto tag, int q_heads, auto mask) {
    using Attention = typename decltype(tag)::type;
    std::vector<Result> single;
    for (int n = 0; n < most; ++n)
      single.push_back(
          run_decode<Attention>(problem_of({{0, 1, length - most + n + 1}}, q_heads, 1), mask));
    for (int n = 1; n <= most; ++n) {
      const Result together = run_decode<Attention>(problem_of({{0, n, length}}, q_heads, 1), mask);
      for (int t = 0; t < n; ++t) {
        INFO(n << " tokens, token " << t << ", heads " << q_heads);
        CHECK(same_row(together, 0, t, single[size_t(most - n + t)], 0, 0));
      }
    }
  };
  check(std::common_type<Half64>(), 1, causal);  // always narrow blocks
  check(std::common_type<Half64>(), 6, causal);  // narrow, then wide, then two of them
  check(std::common_type<Half64>(), 3, strobe::Window{100, 0});
  check(std::common_type<Bf128>(), 4, strobe::Causal{});
}

STROBE_TEST_CASE("fixed: decode is the row of prefill", "") {
  check_decode_is_prefill<Half64>(330, 6, 2, causal);
  check_decode_is_prefill<Half64>(330, 7, 1, {90, 0});
  check_decode_is_prefill<Half64>(200, 1, 1, {5, 0});
  check_decode_is_prefill<Bf128>(330, 4, 2);
  check_decode_is_prefill<Half256>(140, 3, 1, causal);
  check_decode_is_prefill<Scored>(260, 4, 2, {4, 120}, {5.f});
}

// The number of query heads a KV head serves changes which rows share a block, not a row.
STROBE_TEST_CASE("fixed: grouped heads give the bits of heads that have K and V of their own", "") {
  const auto one_head = [](Problem p) {
    p.k_values = p.v_values = [](int, int t, int, int d) {
      return Random(uint64_t(d) * 31u + (uint64_t(t) << 32)).normal();
    };
    return p;
  };
  const Problem grouped = one_head(problem_of({{0, 3, 500}}, 24, 1));
  const Problem apart = one_head(problem_of({{0, 3, 500}}, 24, 24));
  CHECK(same_bits(run_decode<Half64>(grouped, causal), run_decode<Half64>(apart, causal)));
  CHECK(same_bits(run_problem<Half64>(grouped, causal), run_problem<Half64>(apart, causal)));
}

// A neighbour's length, or the batch, chose tiles and splits.
STROBE_TEST_CASE("DET-02: a neighbour of 9 tokens, then of 10; one sequence, then 33", "") {
  const Story victim{0, 1, 1980};
  const Result alone = run_decode<Bf128>(problem_of({victim}, 14, 2));
  const Result alone64 = run_decode<Paged64>(problem_of({victim}, 14, 2), causal);
  for (const int tokens : {9, 10}) {
    const Problem p = problem_of({victim, {1, tokens, 1980 + tokens}}, 14, 2);
    CHECK(same_row(alone, 0, 0, run_decode<Bf128>(p), 0, 0));
    CHECK(same_row(alone64, 0, 0, run_decode<Paged64>(p, causal), 0, 0));
    CHECK(same_row(alone64, 0, 0, run_problem<Paged64>(p, causal), 0, 0));
  }
  std::vector<Story> many;
  for (int i = 1; i <= 33; ++i) many.push_back({i, 1, 11 * i});
  many[20] = victim;
  CHECK(same_row(alone, 0, 0, run_decode<Bf128>(problem_of(many, 14, 2)), 20, 0));
}

// The size of the cache chose the split.
STROBE_TEST_CASE("DET-04: the bound and the capacity of the cache", "") {
  Problem p = problem_of({{0, 2, 700}});
  const Result decoded = run_decode<Half64>(p, causal), paged = run_decode<Bf128>(p);
  const Result prefilled = run_problem<Half64>(p, causal);
  for (const int capacity : {701, 1500, 6000}) {
    p.kv_len = p.kv_rows = capacity;
    CHECK(same_bits(decoded, run_decode<Half64>(p, causal)));
    CHECK(same_bits(paged, run_decode<Bf128>(p)));
    CHECK(same_bits(prefilled, run_problem<Half64>(p, causal)));
  }
}

STROBE_TEST_CASE("fixed: machines of any size, and any number of runs", "") {
  const Prepared<Half64, Decode> prepared(problem_of(stories), causal);
  require_ok(prepared.launch());
  finish();
  const Result expected = judge(prepared);
  for (int run = 0; run < 10; ++run) {
    strobe::Device device = test_device();
    device.sm_count = std::vector<int>{1, 2, 3, 7, 20, 46, 82, 108, 132, 1000}[size_t(run)];
    prepared.reset_outputs();
    require_ok(strobe::decode(prepared.args, device, prepared.workspace, nullptr));
    finish();
    INFO("multiprocessors " << device.sm_count);
    CHECK(same_bits(expected, gather(prepared, prepared.download_o(), prepared.download_lse())));
  }
}

#if STROBE_HOST_EXECUTION
STROBE_TEST_CASE("fixed: any order of threads and blocks, any timing of copies", "") {
  using strobe::host::Asynchrony;
  Problem p = problem_of({{0, 1, 500}, {1, 3, 130}}, 2, 1);
  p.kv_splits = 3;
  const Result expected = run_decode<Half64>(p, causal);
  const Result prefilled = run_problem<Half64>(p, causal);
  for (const auto order :
       {strobe::host::Order::in_order, strobe::host::Order::reverse, strobe::host::Order::random})
    for (const auto asynchrony : {Asynchrony::lazy, Asynchrony::eager, Asynchrony::mixed})
      for (const int blocks : {1, 3, 8}) {
        strobe::host::Options options = strobe::host::current_options();
        options.order = order;
        options.asynchrony = asynchrony;
        options.seed = uint64_t(blocks) + 10;
        options.resident_blocks = blocks;
        const strobe::host::ScopedOptions scoped(options);
        INFO("order " << int(order) << ", asynchrony " << int(asynchrony) << ", blocks " << blocks);
        CHECK(same_bits(expected, run_decode<Half64>(p, causal)));
        CHECK(same_bits(prefilled, run_problem<Half64>(p, causal)));
      }
}
#else
STROBE_TEST_CASE("fixed: eager, in a graph, 100 times, beside other work", "") {
  const Prepared<Bf128, Decode> prepared(problem_of(stories));
  require_ok(prepared.launch());
  finish();
  const Result expected = judge(prepared);
  const auto check = [&] {
    finish();
    CHECK(same_bits(expected, gather(prepared, prepared.download_o(), prepared.download_lse())));
    prepared.reset_outputs();
  };
  const Stream stream, beside;
  const Graph graph(stream, [&](cudaStream_t s) { return prepared.launch(s); });
  Problem other = problem_of(stories);
  const Prepared<Bf128, Decode> noise(other);  // a workspace of its own
  for (int run = 0; run < 100; ++run) {
    STROBE_REQUIRE_CUDA(cudaDeviceSynchronize());
    if (run % 2 == 0) require_ok(noise.launch(beside));
    graph.launch(stream);
    STROBE_REQUIRE_CUDA(cudaStreamSynchronize(stream));
    check();
    require_ok(prepared.launch());
    check();
  }
  STROBE_REQUIRE_CUDA(cudaStreamSynchronize(beside));
}

STROBE_TEST_CASE("DET-02, DET-04: the sizes of the reports", "") {
  const Story victim{0, 1, 19802};
  Problem p = problem_of({victim}, 14, 2);
  p.rows_checked = 1;
  const Result alone = check_decode<Bf128>(p);
  for (const int tokens : {9, 10})
    CHECK(same_row(alone, 0, 0, run_decode<Bf128>(problem_of({victim, {1, tokens, 20000}}, 14, 2)),
                   0, 0));
  p = problem_of({{0, 1, 40960}}, 2, 1);
  const Result exact = run_decode<Half64>(p, causal);
  const Result prefilled = run_problem<Half64>(p, causal);
  CHECK(same_bits(exact, prefilled));
  for (const int capacity : {106496, 262144}) {
    p.kv_len = p.kv_rows = capacity;
    CHECK(same_bits(exact, run_decode<Half64>(p, causal)));
  }
}
#endif
