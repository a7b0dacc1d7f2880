// SPDX-License-Identifier: MIT
// Scores against double precision.
#include <array>
#include <catch2/catch_test_macros.hpp>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "strobe/score.hpp"

using strobe::Alibi;
using strobe::Block;
using strobe::Bounds;
using strobe::Chain;
using strobe::LogitRow;
using strobe::NoScore;
using strobe::SoftCap;

TEST_CASE("NoScore changes nothing", "[cpu][score]") {
  const auto score = NoScore{}.bind(Block{});
  for (float logit : {0.f, -3.5f, 1e30f}) CHECK(score(logit, 3, 9) == logit);
}

TEST_CASE("NUM-06: SoftCap is cap * tanh(logit / cap), and exactly the cap far out",
          "[cpu][score]") {
  for (float cap : {1.f, 5.f, 30.f, 50.f, 1000.f}) {
    const auto score = SoftCap{cap}.bind(Block{});
    double worst = 0;
    for (int i = -20000; i <= 20000; ++i) {
      const float logit = float(i) * cap * 0.001f;  // to 20 times the cap
      const double right = double(cap) * std::tanh(double(logit) / double(cap));
      worst = std::fmax(worst, std::fabs(double(score(logit, 0, 0)) - right) / double(cap));
    }
    CHECK(worst < 4e-7);
    CHECK(score(0.f, 0, 0) == 0.f);
    for (float far : {88.f, 89.f, 4400.f, 5000.f, 10240.f, 1e6f, 3e38f}) {
      const float logit = far < 100.f ? far * cap : far > 20 * cap ? far : 20 * cap;
      CHECK(score(logit, 0, 0) == cap);
      CHECK(score(-logit, 0, 0) == -cap);
    }
    CHECK(score(std::numeric_limits<float>::infinity(), 0, 0) == cap);
    CHECK(score(-std::numeric_limits<float>::infinity(), 0, 0) == -cap);
  }
}

TEST_CASE("SoftCap is odd and never falls", "[cpu][score]") {
  const auto score = SoftCap{50.f}.bind(Block{});
  float last = -50.f;
  for (int i = -4000; i <= 4000; ++i) {
    const float now = score(float(i) * 0.25f, 0, 0);
    REQUIRE(now >= last - 50.f * 2.5e-7f);
    REQUIRE(std::fabs(now + score(float(-i) * 0.25f, 0, 0)) <= 50.f * 5e-7f);
    last = now;
  }
}

TEST_CASE("Alibi: logit - slope * distance, with this head's slope", "[cpu][score]") {
  const std::vector<float> slopes = {0.5f, 0.25f, 0.125f, 4.f, 2.f, 1.f};  // [2 batches, 3 heads]
  for (int batch : {0, 1})
    for (int head : {0, 1, 2})
      for (bool per_batch : {false, true}) {
        Block block;
        block.batch = batch;
        block.q_head = head;
        const auto score = Alibi{slopes.data(), per_batch ? 3 : 0}.bind(block);
        const double slope = double(slopes[size_t(head + (per_batch ? 3 * batch : 0))]);
        for (int q : {-5, 0, 7, 1000000})
          for (int k : {0, 3, 7, 999983}) {
            const double right = 1.5 - slope * std::fabs(double(q) - double(k));
            REQUIRE(std::fabs(double(score(1.5f, q, k)) - right) <= 1e-6 * std::fabs(right));
          }
      }
}

namespace {

struct Plus {  // what a user would write
  float amount = 0.f;
  Plus bind(const Block&) const { return *this; }
  float operator()(float logit, int, int) const { return logit + amount; }
};
struct Times {
  float factor = 1.f;
  Times bind(const Block&) const { return *this; }
  float operator()(float logit, int q, int k) const { return logit * factor * float(q - k); }
};

}  // namespace

// What kernels call: 8 logits of a row at keys k, k + 1, k + 8, k + 9, ..
template <class Bound>
std::vector<float> scored_row(const Bound& bound, const std::vector<float>& logits, int q, int k) {
  LogitRow<8> row;
  for (int i = 0; i < 8; ++i) row.logits[i] = logits[size_t(i)];
  row.q = q;
  row.k = k;
  strobe::detail::score_row(bound, row, 1 << 30, 0);
  return {row.logits, row.logits + 8};
}

TEST_CASE("SoftCap, Alibi and their Chain score a row as they score its logits one by one",
          "[cpu][score]") {
  const float slope = 0.3f, infinity = std::numeric_limits<float>::infinity();
  const auto soft_cap = SoftCap{30.f}.bind(Block{});
  const auto alibi = Alibi{&slope}.bind(Block{});
  const auto chain = Chain<SoftCap, Alibi>{{30.f}, {&slope}}.bind(Block{});
  const auto plus = Plus{2.f}.bind(Block{});
  const std::vector<float> logits{0.f, -1.25f, 700.f, -3e38f, 31.f, 1e-20f, infinity, -infinity};
  for (const int q : {0, 5, 12, 40, 1000000, 1 << 30}) {
    for (int k : {0, 4, 16}) {
      const std::vector<float> capped = scored_row(soft_cap, logits, q, k),
                               biased = scored_row(alibi, logits, q, k),
                               both = scored_row(chain, logits, q, k),
                               moved = scored_row(plus, logits, q, k);
      for (int i = 0; i < 8; ++i) {
        const float logit = logits[size_t(i)];
        const int key = k + LogitRow<8>::offset(i);
        CHECK(std::fabs(capped[size_t(i)] - soft_cap(logit, q, key)) <= 30 * 5e-7f);
        const float bias = slope * std::fabs(float(q) - float(key));
        if (std::isinf(logit))
          CHECK(biased[size_t(i)] == logit);
        else
          CHECK(std::fabs(biased[size_t(i)] - alibi(logit, q, key)) <=
                1e-6f * std::fmax(bias, std::fabs(logit)));
        CHECK(std::fabs(both[size_t(i)] - chain(logit, q, key)) <= 2e-5f + 1e-6f * bias);
        CHECK(moved[size_t(i)] == plus(logit, q, key));
      }
    }
  }
  std::vector<float> with_nan = logits;
  with_nan[0] = NAN;
  CHECK(std::isnan(scored_row(soft_cap, with_nan, 0, 0)[0]));
  CHECK(std::isnan(soft_cap(NAN, 0, 0)));
}

TEST_CASE("Alibi: a row's bits do not depend on which side of it a key lies", "[cpu][score]") {
  const float slope = 0.1f;
  const auto alibi = Alibi{&slope}.bind(Block{});
  const std::vector<float> zeros(8, 0.f);
  // The same distances in the middle of a row's keys and all on one side.
  const std::vector<float> across = scored_row(alibi, zeros, 8, 0),
                           behind = scored_row(alibi, zeros, 100, 92);
  CHECK(across[0] == behind[0]);
  CHECK(across[1] == behind[1]);
}

// What the Hopper kernel may compute instead, for products up to `most`.
TEST_CASE("SoftCap's shortcut is the soft cap as far as it says", "[cpu][score]") {
  using strobe::log2_e;
  for (float cap : {0.5f, 5.f, 30.f, 50.f, 1000.f})
    for (float scale : {0.0883883f, 1.f, 0.002f}) {
      if (scale / cap < 1e-5f) continue;
      const auto score = SoftCap{cap}.bind(Block{});
      const auto shortcut = score.shortcut(scale);
      const float limit = shortcut.limit();
      CHECK(std::fabs(double(limit) * double(scale) / double(cap) - 0.5) < 1e-6);
      CHECK(shortcut.most(1e30f) == limit);
      double worst = 0;
      for (int i = -1000; i <= 1000; ++i) {
        const float product = limit * float(i) * 0.001f;
        const double right = double(cap) * std::tanh(double(product) * double(scale) / double(cap));
        const double short_one = double(shortcut(product, 3.f) - 3.f) / double(log2_e);
        worst = std::fmax(worst, (std::fabs(short_one - right) - 3e-7) / double(cap));
      }
      CHECK(worst < 2.5e-7);
      // Up to `most` no logit is larger than asked for.
      for (float log2_logit : {0.f, 0.25f * cap, cap}) {
        const float most = shortcut.most(log2_logit);
        REQUIRE(most >= 0.f);
        CHECK(shortcut(most, 0.f) <= log2_logit * 1.00001f);
      }
      CHECK(shortcut.most(-1.f) < 0.f);
    }
  const float nan = NAN, infinity = std::numeric_limits<float>::infinity();
  for (float scale : {0.f, -1.f, -0.01f, 1e-12f, 1e9f, 3e38f, infinity, nan})
    CHECK(!(SoftCap{30.f}.bind(Block{}).shortcut(scale).most(100.f) >= 0.f));
  for (float cap : {1e-30f, 1e30f})
    CHECK(!(SoftCap{cap}.bind(Block{}).shortcut(cap * 0.01f).most(100.f) >= 0.f));
}

TEST_CASE("Alibi has a ramp on one side of all queries", "[cpu][score]") {
  for (float slope : {0.5f, 0.f, -0.25f, 0.00390625f}) {
    const auto score = Alibi{&slope}.bind(Block{});
    for (const auto& [q_begin, q_end, begin, end] : {std::array{500, 564, 2, 128},
                                                     {127, 191, 0, 128},
                                                     {40, 41, 40, 100},
                                                     {3, 129, 128, 256},
                                                     {1 << 20, (1 << 20) + 64, 0, 64}}) {
      float per_key = NAN;
      REQUIRE(score.ramp({q_begin, q_end}, {begin, end}, &per_key));
      for (int q = q_begin; q < q_end; ++q)
        for (int k = begin + 1; k < end; ++k)
          REQUIRE(score(1.f, q, k) - score(1.f, q, k - 1) == per_key);
    }
    // A query with keys on both sides.
    float per_key;
    CHECK(!score.ramp({50, 51}, {0, 128}, &per_key));
    CHECK(!score.ramp({126, 190}, {0, 128}, &per_key));
    CHECK(!score.ramp({0, 130}, {128, 256}, &per_key));
  }
}

TEST_CASE("Chain: the first one first, positions handed through", "[cpu][score]") {
  const Block block;
  CHECK(Chain<Plus, Times>{{1.f}, {2.f}}.bind(block)(3.f, 5, 4) == 8.f);
  CHECK(Chain<Times, Plus>{{2.f}, {1.f}}.bind(block)(3.f, 5, 4) == 7.f);
  const Chain<Plus, Chain<Times, Plus>> nested{{1.f}, {{2.f}, {10.f}}};
  CHECK(nested.bind(block)(3.f, 6, 4) == 26.f);
  // A capped bias differs from a biased cap.
  const Chain<Plus, SoftCap> capped{{1000.f}, {5.f}};
  CHECK(capped.bind(block)(0.f, 0, 0) == 5.f);
  const Chain<SoftCap, Plus> biased{{5.f}, {1000.f}};
  CHECK(biased.bind(block)(0.f, 0, 0) == 1000.f);
}

TEST_CASE("scores look at their own fields", "[cpu][score]") {
  const Bounds bounds{1, 1, 1, 1, 1};
  const float infinity = std::numeric_limits<float>::infinity();
  const auto text = [](const strobe::Status& status) { return std::string(status.text); };
  CHECK(SoftCap{50.f}.check(bounds).ok());
  CHECK(SoftCap{1e-3f}.check(bounds).ok());
  for (float cap :
       {0.f, -0.f, -1.f, infinity, -infinity, 1e-40f, std::numeric_limits<float>::quiet_NaN()}) {
    const strobe::Status status = SoftCap{cap}.check(bounds);
    CHECK(status.code == strobe::Code::invalid);
    CHECK(text(status).find("score.cap is ") == 0);
  }
  CHECK(text(SoftCap{-2.5f}.check(bounds)).find("-2.5") != std::string::npos);
  CHECK(text(Alibi{}.check(bounds)).find("score.slopes is null") == 0);

  // A chain reports the first that is wrong, on either side and at any depth.
  const float slope = 1.f;
  using Inner = Chain<SoftCap, Alibi>;
  CHECK(strobe::detail::check_noun(Chain<NoScore, Inner>{{}, {{1.f}, {&slope, 0}}}, bounds, 0));
  CHECK_FALSE(
      strobe::detail::check_noun(Chain<NoScore, Inner>{{}, {{0.f}, {&slope, 0}}}, bounds, 0));
  CHECK_FALSE(strobe::detail::check_noun(Chain<Inner, NoScore>{{{1.f}, {}}, {}}, bounds, 0));
}
