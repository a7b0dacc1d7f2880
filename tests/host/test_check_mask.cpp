// SPDX-License-Identifier: MIT
// check_mask itself: a right user-written mask passes, and every kind of mistake is found and
// named. Without this, the mask tests could not fail.
#include <catch2/catch_test_macros.hpp>
#include <string>

#include "strobe/host/check_mask.hpp"

using strobe::Block;
using strobe::MaskReport;
using strobe::MaskShape;
using strobe::Span;
using strobe::Tile;

namespace {

// The smallest mask a user can write: every third key, up to the query.
struct Minimal {
  struct Bound {
    bool visible(int q, int k) const { return k <= q && k % 3 == 0; }
  };
  Bound bind(const Block&) const { return {}; }
};

// Causal, with one fault.
enum class Fault { none, full_too_soon, skip_too_soon, next_too_far, no_skip, never_full };
template <Fault fault>
struct Faulty {
  struct Bound {
    Span q;
    bool visible(int position, int k) const { return k <= position; }
    Tile tile(Span keys) const {
      if (fault == Fault::skip_too_soon && keys.end > q.end) return Tile::skip;
      if (keys.begin > q.end - 1) return fault == Fault::no_skip ? Tile::partial : Tile::skip;
      const int allowed = fault == Fault::full_too_soon ? q.begin + 1 : q.begin;
      if (fault == Fault::never_full) return Tile::partial;
      return keys.end - 1 <= allowed ? Tile::full : Tile::partial;
    }
    int next_key(int k) const {
      if (fault == Fault::no_skip) return k;
      // A hole that is one key too long.
      if (fault == Fault::next_too_far && k < 21) return k + 1;
      return k > q.end - 1 ? strobe::unlimited : k;
    }
  };
  Bound bind(const Block& block) const { return {block.q}; }
};

bool mentions(const std::string& text, const char* piece) {
  return text.find(piece) != std::string::npos;
}

}  // namespace

TEST_CASE("a mask with `visible` alone is right and visits everything", "[cpu][mask]") {
  const MaskReport report = strobe::check_mask_shapes(Minimal{});
  INFO(report.mistake);
  CHECK(report.ok());
  CHECK(report.mistake.empty());
  CHECK(report.visited == report.tiles);
  CHECK(report.idle > 0);  // the tiles above the diagonal: legal, but slow
}

TEST_CASE("the counts of one shape, by hand", "[cpu][mask]") {
  // 4 query tiles by 4 key tiles under a triangle.
  const MaskReport report = strobe::check_mask(Faulty<Fault::none>{}, {64, 64, 16, 16});
  CHECK(report.ok());
  CHECK(report.tiles == 16);
  CHECK(report.visited == 10);
  CHECK(report.idle == 0);
  CHECK(report.cautious == 0);
}

TEST_CASE("full though something is hidden", "[cpu][mask]") {
  const MaskReport report = strobe::check_mask(Faulty<Fault::full_too_soon>{}, {16, 33, 16, 19});
  CHECK_FALSE(report.ok());
  CHECK(report.wrongly_full == 1);
  CHECK(report.missed == 0);
  INFO(report.mistake);
  CHECK(mentions(report.mistake, "tile([0, 19)) is full"));
  CHECK(mentions(report.mistake, "q = 17, k = 18"));
  CHECK(mentions(report.mistake, "q_len 16, kv_len 33, block_q 16, block_kv 19"));
  CHECK_FALSE(strobe::check_mask_shapes(Faulty<Fault::full_too_soon>{}).ok());
}

TEST_CASE("skip though something is visible", "[cpu][mask]") {
  const MaskReport report = strobe::check_mask(Faulty<Fault::skip_too_soon>{}, {16, 16, 8, 16});
  CHECK_FALSE(report.ok());
  CHECK(report.wrongly_skip == 1);
  CHECK(report.missed == 1);
  INFO(report.mistake);
  CHECK(mentions(report.mistake, "tile([0, 16)) is skip"));
  CHECK(mentions(report.mistake, "q = 0, k = 0"));
}

TEST_CASE("next_key jumps over something visible", "[cpu][mask]") {
  const MaskReport report = strobe::check_mask(Faulty<Fault::next_too_far>{}, {32, 32, 32, 8});
  CHECK_FALSE(report.ok());
  CHECK(report.overshot == 21);
  CHECK(mentions(report.mistake, "next_key(20) is 21"));
  CHECK(mentions(report.mistake, "k = 20"));
  CHECK(report.missed == 0);  // it jumps from a tile's first key into the same tile
  const MaskReport narrow = strobe::check_mask(Faulty<Fault::next_too_far>{}, {32, 32, 32, 1});
  CHECK(narrow.missed > 0);
}

namespace {
// Causal, but the last row's span begins `late` keys too late and ends `more` keys too far.
struct FaultySpan {
  int late, more;
  bool asked = true;
  struct Bound {
    Span q;
    int late, more;
    bool asked;
    bool visible(int position, int k) const { return k <= position; }
    bool one_span() const { return asked; }
    Span keys_of(int position) const {
      return position == q.end - 1 ? Span{late, position + 1 + more} : Span{-3, position + 1};
    }
  };
  Bound bind(const Block& block) const { return {block.q, late, more, asked}; }
};
}  // namespace

TEST_CASE("keys_of is not what is visible", "[cpu][mask]") {
  const MaskShape shape{8, 20, 8, 16};
  CHECK(strobe::check_mask(FaultySpan{0, 0}, shape).ok());
  const MaskReport late = strobe::check_mask(FaultySpan{2, 0}, shape);
  CHECK_FALSE(late.ok());
  CHECK(late.wrong_span == 1);
  INFO(late.mistake);
  CHECK(mentions(late.mistake, "keys_of(19) is [2, 20), but another key is visible"));
  CHECK(mentions(late.mistake, "q = 19, k = 0"));
  // Past the last key there is nothing to see.
  CHECK(strobe::check_mask(FaultySpan{0, 5}, shape).ok());
  const MaskReport far = strobe::check_mask(FaultySpan{0, 1}, {8, 20, 4, 16});
  CHECK(far.wrong_span == 1);
  CHECK(mentions(far.mistake, "keys_of(15) is [0, 17), but a key in it is hidden"));
  CHECK(mentions(far.mistake, "q = 15, k = 16"));
  // Nobody asks.
  CHECK(strobe::check_mask(FaultySpan{2, 1, false}, {8, 20, 4, 16}).ok());
}

TEST_CASE("cautious masks are right, and the cost is counted", "[cpu][mask]") {
  const MaskShape shape{64, 64, 16, 16};
  const MaskReport no_skip = strobe::check_mask(Faulty<Fault::no_skip>{}, shape);
  CHECK(no_skip.ok());
  CHECK(no_skip.visited == 16);
  CHECK(no_skip.idle == 6);
  const MaskReport never_full = strobe::check_mask(Faulty<Fault::never_full>{}, shape);
  CHECK(never_full.ok());
  CHECK(never_full.visited == 10);
  CHECK(never_full.cautious == 6);
}

TEST_CASE("check_mask asks only what a kernel asks", "[cpu][mask]") {
  struct Strict {
    struct Bound {
      Block block;
      bool visible(int q, int k) const {
        REQUIRE((block.q.begin <= q && q < block.q.end));
        REQUIRE((0 <= k && k < block.kv_len));
        return true;
      }
    };
    Bound bind(const Block& block) const {
      REQUIRE(block.q.end <= block.kv_len);
      REQUIRE(block.q.begin < block.q.end);
      REQUIRE((block.batch == 3 && block.q_head == 5 && block.kv_head == 2));
      return {block};
    }
  };
  for (int q_len : {1, 20, 40})
    for (int kv_len : {1, 20, 40}) {
      const MaskReport report = strobe::check_mask(Strict{}, {q_len, kv_len, 16, 16, 3, 5, 2});
      CHECK(report.ok());
    }
  CHECK(strobe::check_mask(Strict{}, {0, 5, 16, 16, 3, 5, 2}).tiles == 0);
  CHECK(strobe::check_mask(Strict{}, {5, 0, 16, 16, 3, 5, 2}).tiles == 0);
}

TEST_CASE("check_mask_shapes goes through every shape, also with a mask made for each",
          "[cpu][mask]") {
  strobe::MaskShapes shapes;
  shapes.q_lens = {1, 2, 3};
  shapes.kv_lens = {4, 5};
  shapes.blocks_q = {2};
  shapes.blocks_kv = {2, 8};
  shapes.batches = {0, 7};
  shapes.q_heads = {1};
  int made = 0;
  const auto make = [&](const MaskShape& shape) {
    ++made;
    return strobe::Window{shape.kv_len, shape.batch};
  };
  const MaskReport report = strobe::check_mask_shapes(make, shapes);
  CHECK(report.ok());
  CHECK(made == 3 * 2 * 1 * 2 * 2);
  // Query tiles 1, 1, 2; key tiles of 2 keys: 2 or 3, of 8 keys: 1 each.
  CHECK(report.tiles == 4 * (2 + 3 + 1 + 1) * 2);
}

TEST_CASE("reports add up and keep the first mistake", "[cpu][mask]") {
  MaskReport first, second;
  first.tiles = 3;
  second.tiles = 4;
  second.missed = 1;
  second.mistake = "second";
  first += second;
  CHECK((first.tiles == 7 && first.missed == 1 && first.mistake == "second"));
  MaskReport third = second;
  third.mistake = "third";
  first += third;
  CHECK((first.missed == 2 && first.mistake == "second" && !first.ok()));
}
