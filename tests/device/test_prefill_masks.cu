// SPDX-License-Identifier: MIT
// Masks and scores: the library's own, users' own, combined. The shapes are small but cross tile
// edges in both directions, so that full, partial and skipped tiles and holes all occur.
#include "support/case.hpp"

using namespace strobe_test;

namespace mask_test {  // named: nvcc warns about a flag in an unnamed namespace that nothing reads
                       // yet
// What a user writes, with everything: a prefix that all queries see, behind it a window; the bound
// of the prefix comes from device memory, one a batch entry, and differs by head.
struct PrefixWindow {
  static constexpr bool varies_by_head = true;
  const int* prefix_of;
  int left;
  struct Bound {
    int prefix, left;
    strobe::Span q;
    __host__ __device__ bool visible(int position, int k) const {
      return k < prefix || (k <= position && k >= position - left);
    }
    __host__ __device__ strobe::Tile tile(strobe::Span keys) const {
      if (keys.end <= prefix) return strobe::Tile::full;
      if (keys.begin < prefix) return strobe::Tile::partial;
      if (keys.begin > q.end - 1 || keys.end - 1 < q.begin - left) return strobe::Tile::skip;
      return strobe::Tile::partial;
    }
    __host__ __device__ int next_key(int k) const {
      const int window = q.begin - left;
      return k < prefix || k >= window ? k : window;
    }
  };
  __host__ __device__ Bound bind(const strobe::Block& block) const {
    return {prefix_of[block.batch] + 5 * block.q_head, left, block.q};
  }
};
}  // namespace mask_test

namespace {

template <class Mask, class Score = strobe::NoScore, class T = __half>
using With = strobe::Attention<T, 64, Mask, strobe::Strided<T>, Score>;

Problem shape(int q_len, int kv_len, int q_heads = 2, int kv_heads = 1) {
  Problem p;
  p.q_len = q_len;
  p.kv_len = kv_len;
  p.q_heads = q_heads;
  p.kv_heads = kv_heads;
  return p;
}

// And with as little as possible: no tile(), no next_key(). Query q sees every third key and its
// own.
struct EveryThird {
  int period;
  struct Bound {
    int period;
    __host__ __device__ bool visible(int q, int k) const { return q == k || k % period == 1; }
  };
  __host__ __device__ Bound bind(const strobe::Block&) const { return {period}; }
};

// A bias read from a table by key, as long as the keys are many.
struct KeyBias {
  const float* table;
  struct Bound {
    const float* table;
    __host__ __device__ float operator()(float logit, int, int k) const { return logit + table[k]; }
  };
  __host__ __device__ Bound bind(const strobe::Block&) const { return {table}; }
};

// A bias read from a table by key which climbs evenly, or falls, over every `period` keys: a user's
// score with ramps, many of them.
struct Hills {
  const float* height;  // [kv_len]
  int period;
  struct Bound {
    const float* height;
    int period;
    __host__ __device__ float operator()(float logit, int q, int k) const {
      return logit + height[k] - 0.125f * float(q % 7);
    }
    __host__ __device__ bool ramp(strobe::Span, strobe::Span keys, float* per_key) const {
      const int next = keys.begin + 1 < keys.end ? keys.begin + 1 : keys.begin;
      *per_key = height[next] - height[keys.begin];
      return keys.begin / period == (keys.end - 1) / period;
    }
  };
  __host__ __device__ Bound bind(const strobe::Block&) const { return {height, period}; }
};

// Logits past `at` count half: a user's score with a shortcut, for those within.
struct HalfPast {
  float at;
  struct Bound {
    float at;
    __host__ __device__ float operator()(float logit, int, int) const {
      const float past = logit > at ? logit - at : logit < -at ? logit + at : 0.f;
      return logit - 0.5f * past;
    }
    struct Shortcut {
      float scale_log2, largest;
      __host__ __device__ float operator()(float product, float more) const {
        return fmaf(product, scale_log2, more);
      }
      __host__ __device__ float most(float log2_logit) const {
        return fminf(log2_logit / scale_log2, largest);
      }
      __host__ __device__ float limit() const { return largest; }
    };
    __host__ __device__ Shortcut shortcut(float scale) const {
      return {scale * strobe::log2_e, scale > 0.f ? at / scale : -1.f};
    }
  };
  __host__ __device__ Bound bind(const strobe::Block&) const { return {at}; }
};

// A bias read from a table by distance, as in T5: a user's score.
struct DistanceBias {
  const float* table;  // [entries]
  int entries;
  struct Bound {
    const float* table;
    int entries, head;
    __host__ __device__ float operator()(float logit, int q, int k) const {
      const int distance = q < k ? k - q : q - k;
      return logit + table[distance < entries ? distance : entries - 1] * float(head + 1);
    }
  };
  __host__ __device__ Bound bind(const strobe::Block& block) const {
    return {table, entries, block.q_head};
  }
};

std::vector<int> documents(int batch, int kv_len) {
  std::vector<int> of;
  for (int b = 0; b < batch; ++b)
    for (int k = 0; k < kv_len; ++k) of.push_back(k < 50 + 30 * b ? 7 : k < 100 ? 3 : 7 + k / 64);
  return of;
}

}  // namespace

STROBE_TEST_CASE("Window: edges, one side open, both open", "") {
  using strobe::unlimited;
  const strobe::Window windows[] = {{0, 0},
                                    {1, 0},
                                    {63, 0},
                                    {64, 64},
                                    {200, 3},
                                    {unlimited, 0},
                                    {0, unlimited},
                                    {5, unlimited},
                                    {unlimited, 9},
                                    {unlimited - 1, unlimited - 1},
                                    {}};
  for (const strobe::Window& window : windows) {
    INFO("window " << window.left << ", " << window.right);
    check_problem<With<strobe::Window>>(shape(130, 200), window);
    check_problem<With<strobe::Window>>(shape(140, 70), window);
  }
}

STROBE_TEST_CASE("Window: a narrow one far into many keys visits only its own tiles", "") {
  check_problem<With<strobe::Window>>(shape(65, 1200, 1), {100, 2});
  check_problem<With<strobe::Window>>(shape(1, 1025, 1), {0, 0});
}

STROBE_TEST_CASE("SinkWindow: sinks, hole, window", "") {
  for (const strobe::SinkWindow& mask :
       {strobe::SinkWindow{4, 30}, {0, 30}, {64, 10}, {100, 0}, {1, strobe::unlimited}})
    check_problem<With<strobe::SinkWindow>>(shape(100, 400), mask);
  check_problem<With<strobe::SinkWindow>>(shape(100, 60), {4, 10});  // positions below 0
}

STROBE_TEST_CASE("Both<Causal, Document>", "") {
  using Mask = strobe::Both<strobe::Causal, strobe::Document>;
  const SharedTable<int> of(documents(2, 200));
  Problem p = shape(200, 200);
  p.batch = 2;
  check_problem<With<Mask>>(p, Mask{{}, {of.data(), 200}});
  p.q_len = 90;  // the last rows of a longer cache
  check_problem<With<Mask>>(p, Mask{{}, {of.data(), 200}});
  p.q_len = 230;  // rows before key 0: they belong to no document
  check_problem<With<Mask>>(p, Mask{{}, {of.data(), 200}});
}

STROBE_TEST_CASE("Document: ascending numbers, alone and under Causal", "") {
  std::vector<int> packed;  // documents of 1, 2, .. 40 keys, then one of 500
  for (int document = 1; document <= 40; ++document)
    packed.insert(packed.end(), size_t(document), document);
  packed.insert(packed.end(), 500, 41);
  const SharedTable<int> of(packed);
  const int kv_len = int(packed.size());
  const strobe::Document document{of.data(), 0, /*ascending=*/true};
  for (const int q_len : {kv_len, 300, kv_len + 30}) {
    check_problem<With<strobe::Document>>(shape(q_len, kv_len), document);
    check_problem<With<strobe::Both<strobe::Causal, strobe::Document>>>(shape(q_len, kv_len),
                                                                        {{}, document});
  }
  // A ramp is asked for the keys that rows see.
  const SharedTable<float> slope({0.0625f});
  check_problem<With<strobe::Both<strobe::Causal, strobe::Document>, strobe::Alibi>>(
      shape(kv_len, kv_len), {{}, document}, {slope.data(), 0});
}

STROBE_TEST_CASE("BlockList: shared, per head, empty rows", "") {
  {
    // Blocks of 32 by 16, positions up to 160: list rows 0..4; row 2 sees nothing.
    const SharedTable<int> offsets({0, 2, 5, 5, 6, 9}), columns({0, 1, 0, 2, 3, 0, 1, 5, 9});
    const strobe::BlockList mask{offsets.data(), columns.data(), 32, 16, false, 0, 0};
    check_problem<With<strobe::BlockList>>(shape(150, 150), mask);
    check_problem<With<strobe::BlockList>>(shape(70, 160), mask);
    check_problem<With<strobe::BlockList>>(shape(120, 100), mask);
  }
  {
    // A list for each of 2 x 2 heads, 3 rows of 64 each; block size equal to the key tile.
    std::vector<int> offsets{0}, columns;
    Random random(5);
    for (int row = 0; row < 2 * 2 * 3; ++row) {
      for (int block = 0; block < 3; ++block)
        if (random.below(2) == 0) columns.push_back(block);
      offsets.push_back(int(columns.size()));
    }
    const SharedTable<int> offsets_table(offsets), columns_table(columns);
    Problem p = shape(180, 180);
    p.batch = 2;
    check_problem<With<strobe::BlockList>>(
        p, {offsets_table.data(), columns_table.data(), 64, 64, true, 2, 3});
  }
}

STROBE_TEST_CASE("a user's mask with visible() alone", "") {
  check_problem<With<EveryThird>>(shape(70, 140), {3});
  check_problem<With<EveryThird>>(shape(70, 40), {1000});  // rows that see no key, and key 1
}

STROBE_TEST_CASE("a user's mask with tiles and holes, conjoined, under a user's score", "") {
  using Mask = strobe::Both<strobe::Causal, mask_test::PrefixWindow>;
  using Attention = With<Mask, DistanceBias, __nv_bfloat16>;
  const SharedTable<int> prefix({10, 70});
  const SharedTable<float> table({0.5f, -0.25f, 1.f, 0.f, -2.f, -3.f});
  Problem p = shape(90, 300);
  p.batch = 2;
  check_problem<Attention>(p, Mask{{}, {prefix.data(), 20}}, {table.data(), 6});
  p = shape(150, 150);
  p.batch = 2;
  p.scale = -0.25f;
  check_problem<Attention>(p, Mask{{}, {prefix.data(), 1}}, {table.data(), 6});
}

// Query tiles whose last 64 rows are missing, or see less than the tile's other rows.
STROBE_TEST_CASE("ends that differ among the rows of a query tile", "") {
  for (const int rows : {9, 64, 65, 129, 200, 330})
    for (const int keys : {rows, 400}) {
      check_problem<With<strobe::Causal>>(shape(rows, keys), {});
      check_problem<With<strobe::Window>>(shape(rows, keys), {70, 5});
    }
}

STROBE_TEST_CASE("SoftCap", "") {
  using Attention = With<strobe::Causal, strobe::SoftCap>;
  for (const float cap : {0.5f, 5.f, 50.f}) check_problem<Attention>(shape(70, 140), {}, {cap});
  Problem p = shape(70, 70);
  p.input = Input::alternating;
  check_problem<Attention>(p, {}, {20.f});
  for (const float scale : {0.f, -0.3f}) {
    p = shape(40, 70);
    p.scale = scale;
    check_problem<Attention>(p, {}, {3.f});
  }
}

STROBE_TEST_CASE("Alibi: slopes by head, slopes by batch and head", "") {
  using Attention = With<strobe::Window, strobe::Alibi>;
  const SharedTable<float> slopes({0.5f, 0.0625f, 0.f, 0.25f});
  check_problem<Attention>(shape(100, 170), {strobe::unlimited, 0}, {slopes.data(), 0});
  Problem p = shape(70, 130);
  p.batch = 2;
  check_problem<Attention>(p, {}, {slopes.data(), 2});
}

// Full key tiles one after another: the Hopper kernel takes its shortcuts and ramps there, and
// leaves them where m has to move, a logit lies beyond the shortcut, or the scale is not positive.
STROBE_TEST_CASE("scores with many key tiles", "") {
  const auto with_scale = [](Problem p, float scale) {
    p.scale = scale;
    return p;
  };
  const Problem p = shape(70, 700);
  using Capped = With<strobe::Full, strobe::SoftCap>;
  for (const float cap : {0.5f, 5.f, 50.f}) check_problem<Capped>(p, {}, {cap});
  check_problem<Capped>(with_scale(p, -0.3f), {}, {30.f});
  Problem large = with_scale(p, 1.f);
  large.input = Input::outliers;
  check_problem<Capped>(large, {}, {30.f});

  const SharedTable<float> slopes({0.1234567f, -0.0345f});  // 16 bits do not hold them
  using Biased = With<strobe::Full, strobe::Alibi>;
  check_problem<Biased>(p, {}, {slopes.data(), 0});
  check_problem<Biased>(shape(700, 200), {}, {slopes.data(), 0});
  check_problem<Biased>(with_scale(p, -0.3f), {}, {slopes.data(), 0});
  check_problem<Biased>(with_scale(p, 0.f), {}, {slopes.data(), 0});
  check_problem<With<strobe::Causal, strobe::Alibi>>(shape(300, 700), {}, {slopes.data(), 0});
  // Too steep for tensor cores near the query, or everywhere, or nearly so: LSE tells.
  for (const std::vector<float>& pair : {std::vector<float>{3.875f, 0.7071068f}, {1.9f, 0.84f}}) {
    const SharedTable<float> steep(pair);
    check_problem<Biased>(p, {}, {steep.data(), 0});
    check_problem<With<strobe::Causal, strobe::Alibi>>(shape(400, 700), {}, {steep.data(), 0});
  }
  // Far keys weigh nothing, and are not looked at closely: but for two here, whose products are as
  // large as the distance takes away.
  const SharedTable<float> one_slope({0.2f});
  Problem heavy = shape(70, 700);
  heavy.q_values = [](int, int t, int, int d) { return 1.f + 0.01f * float((t + d) % 5); };
  heavy.k_values = [](int, int t, int, int d) {
    return t == 3 || t == 60 ? 14.f : 0.1f * float((t * 7 + d * 3) % 9) - 0.4f;
  };
  heavy.scale = 0.125f;
  check_problem<Biased>(heavy, {}, {one_slope.data(), 0});
  check_problem<With<strobe::Causal, strobe::Alibi>>(heavy, {}, {one_slope.data(), 0});
  // Keys hidden on both sides, in spans and otherwise.
  using Windowed = With<strobe::Window, strobe::Alibi, __nv_bfloat16>;
  check_problem<Windowed>(shape(330, 700), {170, 60}, {slopes.data(), 0});
  using Sinks = With<strobe::SinkWindow, strobe::Alibi>;
  check_problem<Sinks>(shape(330, 700), {3, 150}, {slopes.data(), 0});
}

STROBE_TEST_CASE("users' scores with ramps and shortcuts", "") {
  // Five ramps, of which a query tile's first two are in its products; tiles with two ramps within.
  std::vector<float> heights{0.f};
  const float per_key[] = {0.03125f, -0.0625f, 0.03125f, -0.015625f, 0.25f, 0.f};
  while (heights.size() < 1200) heights.push_back(heights.back() + per_key[heights.size() / 256]);
  const SharedTable<float> height(heights);
  for (const float scale : {0.125f, -0.3f}) {
    Problem p = shape(70, 1200);
    p.scale = scale;
    check_problem<With<strobe::Full, Hills>>(p, {}, {height.data(), 256});
    check_problem<With<strobe::Causal, Hills>>(p, {}, {height.data(), 100});
    for (const float at : {0.1f, 2.f, 20.f})
      check_problem<With<strobe::Full, HalfPast>>(p, {}, {at});
  }
  check_problem<With<strobe::Window, Hills>>(shape(130, 64), {0, 3}, {height.data(), 256});
  check_problem<With<strobe::Full, Hills>>(shape(5, 0), {}, {height.data(), 256});
}

// A soft cap divides once for four keys; NaN behind a sequence's end and in keys that the mask
// hides must not reach their neighbours.
STROBE_TEST_CASE("SoftCap: NaN in keys that are hidden, or behind the end, stays there", "") {
  using Attention = With<strobe::Window, strobe::SoftCap>;
  for (const float scale : {1.f, 0.f, -0.5f}) {
    Problem p = shape(21, 21);
    p.scale = scale;
    p.q_offsets = p.kv_offsets = {0, 21};
    p.q_rows = p.kv_rows = 24;
    check_problem<Attention>(p, {strobe::unlimited, 0}, {5.f});
  }
  Problem p = shape(60, 130);
  const Numbers n = make_numbers<__half>(completed<Attention>(p));
  // The first query stands at 70: keys up to 59 are hidden from all, 1 mod 4 from the walk's tiles.
  p.k_values = [=](int, int t, int h, int d) {
    return t < 60 ? NAN : n.k[size_t(n.k_at(0, t, h) + d)];
  };
  p.v_values = [=](int, int t, int h, int d) {
    return t < 60 ? 0.f : n.v[size_t(n.v_at(0, t, h) + d)];
  };
  const Result spoilt = check_problem<Attention>(p, {10, 0}, {5.f});
  p.k_values = [=](int, int t, int h, int d) {
    return t < 60 ? 0.f : n.k[size_t(n.k_at(0, t, h) + d)];
  };
  CHECK(same_bits(spoilt, check_problem<Attention>(p, {10, 0}, {5.f})));
}

STROBE_TEST_CASE("Chain<SoftCap, Alibi> under SinkWindow", "") {
  using Score = strobe::Chain<strobe::SoftCap, strobe::Alibi>;
  using Attention = With<strobe::SinkWindow, Score, __nv_bfloat16>;
  const SharedTable<float> slopes({0.125f, 0.0625f});
  check_problem<Attention>(shape(80, 260), {4, 60}, Score{{10.f}, {slopes.data(), 0}});
}

STROBE_TEST_CASE("rows that see no key: O is 0, LSE -infinity, neighbours are right", "") {
  // Ahead-only windows: the last rows look past the last key.
  check_problem<With<strobe::Window>>(shape(130, 64), {0, 3});
  check_problem<With<strobe::SinkWindow>>(shape(140, 9), {2, 3});
  // Scores too, one that reads a table by key among them: keys that do not exist are not asked for.
  check_problem<With<strobe::Window, strobe::SoftCap>>(shape(130, 64), {0, 3}, {5.f});
  using Biased = With<strobe::Window, KeyBias>;
  const SharedTable<float> bias(std::vector<float>(64, 0.25f));
  check_problem<Biased>(shape(130, 64), {0, 3}, {bias.data()});
  Problem none = shape(5, 0);
  check_problem<Biased>(none, {0, 3}, {nullptr});
  // A list with nothing in it: no tile is ever visited.
  const SharedTable<int> offsets({0, 0, 0}), columns(std::vector<int>{});
  check_problem<With<strobe::BlockList>>(shape(100, 100), {offsets.data(), columns.data()});
}
