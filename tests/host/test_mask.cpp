// SPDX-License-Identifier: MIT
// The masks of the library: each one's `visible` against a plain formula written here in terms of
// rows (not of positions), and its tiles against its `visible` by check_mask.
#include <catch2/catch_test_macros.hpp>
#include <random>
#include <vector>

#include "strobe/host/check_mask.hpp"

using strobe::Both;
using strobe::Causal;
using strobe::Document;
using strobe::Full;
using strobe::MaskReport;
using strobe::MaskShape;
using strobe::MaskShapes;
using strobe::SinkWindow;
using strobe::Span;
using strobe::Tile;
using strobe::unlimited;
using strobe::Window;

namespace {

const int lengths[] = {1, 2, 3, 16, 33, 65};

/// `seen(i, j, q_len, kv_len)`: does query row i see key j? Compared with the mask in every (q_len,
/// kv_len) pair; returns the number of pairs (i, j) that differ.
template <class Mask, class Seen>
int differences(const Mask& mask, Seen seen) {
  int count = 0;
  for (int q_len : lengths)
    for (int kv_len : lengths) {
      const int shift = kv_len - q_len;
      const auto bound = mask.bind({0, 0, 0, {shift, kv_len}, q_len, kv_len});
      for (int i = 0; i < q_len; ++i)
        for (int j = 0; j < kv_len; ++j)
          count += bound.visible(i + shift, j) != seen(i, j, q_len, kv_len);
    }
  return count;
}

void check_report(const MaskReport& report) {
  INFO(report.mistake);
  CHECK(report.ok());
  CHECK(report.tiles > 0);
}

}  // namespace

TEST_CASE("Full", "[cpu][mask]") {
  CHECK(differences(Full{}, [](int, int, int, int) { return true; }) == 0);
  const MaskReport report = strobe::check_mask_shapes(Full{});
  check_report(report);
  CHECK(report.visited == report.tiles);
  CHECK(report.cautious == 0);
}

TEST_CASE("Causal: row i sees keys 0 .. i + kv_len - q_len", "[cpu][mask]") {
  CHECK(differences(Causal{}, [](int i, int j, int q_len, int kv_len) {
          return j < i + kv_len - q_len + 1;
        }) == 0);
  const MaskReport report = strobe::check_mask_shapes(Causal{});
  check_report(report);
  CHECK(report.idle == 0);
  CHECK(report.cautious == 0);
  CHECK(report.visited < report.tiles);
}

TEST_CASE("Window: every small left and right, none and unlimited", "[cpu][mask]") {
  for (int left : {0, 1, 2, 3, 15, 16, 17, 40, 64, 200, unlimited - 1, unlimited})
    for (int right : {0, 1, 2, 7, 16, 63, 64, 200, unlimited - 1, unlimited}) {
      CAPTURE(left, right);
      const Window window{left, right};
      CHECK(differences(window, [&](int i, int j, int q_len, int kv_len) {
              // In 64 bits and by distance: how far the key lies behind the query, or ahead of it.
              const int64_t behind = int64_t(i) + kv_len - q_len - j;
              return behind >= 0 ? left == unlimited || behind <= left
                                 : right == unlimited || -behind <= right;
            }) == 0);
      const MaskReport report = strobe::check_mask_shapes(window);
      check_report(report);
      CHECK(report.idle == 0);
      CHECK(report.cautious == 0);
    }
}

TEST_CASE("SinkWindow: causal, the first keys and the last ones", "[cpu][mask]") {
  for (int sinks : {0, 1, 4, 16, 17, 64, 100, 1000})
    for (int left : {0, 1, 5, 16, 33, 64, unlimited}) {
      CAPTURE(sinks, left);
      const SinkWindow mask{sinks, left};
      CHECK(differences(mask, [&](int i, int j, int q_len, int kv_len) {
              const int64_t behind = int64_t(i) + kv_len - q_len - j;
              if (behind < 0) return false;
              return j < sinks || left == unlimited || behind <= left;
            }) == 0);
      const MaskReport report = strobe::check_mask_shapes(mask);
      check_report(report);
      CHECK(report.idle == 0);
    }
}

namespace {

/// Documents of random length up to `longest`, or numbers without any order.
std::vector<int> documents(int count, int longest, bool sorted, unsigned seed) {
  std::mt19937 random(seed);
  std::vector<int> of(static_cast<size_t>(count));
  int document = 5, left = 0;
  for (int& d : of) {
    if (left-- == 0) {
      document += sorted ? 1 : int(random() % 7) - 3;
      left = int(random() % unsigned(longest));
    }
    d = document;
  }
  return of;
}

}  // namespace

TEST_CASE("Document: only keys of the query's own document", "[cpu][mask]") {
  for (int longest : {1, 7, 90})
    for (bool sorted : {true, false}) {
      const std::vector<int> of = documents(3 * 130, longest, sorted, unsigned(longest));
      for (int batch : {0, 1, 2}) {
        CAPTURE(longest, sorted, batch);
        const Document mask{of.data(), 130, sorted};
        MaskShapes shapes;
        shapes.batches = {batch};
        check_report(strobe::check_mask_shapes(mask, shapes));
        const int q_len = 40, kv_len = 77;
        const auto bound = mask.bind({batch, 0, 0, {kv_len - q_len, kv_len}, q_len, kv_len});
        bool same = true;
        for (int i = 0; i < q_len; ++i)
          for (int j = 0; j < kv_len; ++j)
            same = same && bound.visible(i + kv_len - q_len, j) ==
                               (of[size_t(batch * 130 + kv_len - q_len + i)] ==
                                of[size_t(batch * 130 + j)]);
        CHECK(same);
      }
    }
}

TEST_CASE("Document: a query that stands before the first key sees nothing", "[cpu][mask]") {
  const int of[] = {1, 1};
  const auto bound = Document{of, 0}.bind({0, 0, 0, {-3, 2}, 5, 2});
  for (int q : {-3, -2, -1})
    for (int k : {0, 1}) CHECK_FALSE(bound.visible(q, k));
  CHECK(bound.visible(0, 1));
  const auto before = Document{of, 0, true}.bind({0, 0, 0, {-3, 0}, 5, 2});
  CHECK(before.tile({0, 2}) == Tile::skip);
  CHECK(before.next_key(0) == 2);
}

TEST_CASE("Document: ascending numbers leave out the tiles of other documents", "[cpu][mask]") {
  std::vector<int> of;  // four documents of 100 keys
  for (int key = 0; key < 400; ++key) of.push_back(key / 100 - 2);
  const auto bound = [&](Span rows, bool ascending) {
    return Document{of.data(), 0, ascending}.bind({0, 0, 0, rows, 400, 400});
  };
  const auto one = bound({120, 184}, true), two = bound({180, 220}, true);
  CHECK(one.next_key(0) == 100);
  CHECK(one.next_key(150) == 150);
  CHECK(one.next_key(200) == 400);
  CHECK(one.tile({64, 100}) == Tile::skip);
  CHECK(one.tile({64, 128}) == Tile::partial);
  CHECK(one.tile({128, 192}) == Tile::full);
  CHECK(one.tile({192, 256}) == Tile::partial);
  CHECK(two.next_key(0) == 100);
  CHECK(two.tile({128, 192}) == Tile::partial);
  CHECK(two.tile({256, 320}) == Tile::partial);
  CHECK(two.tile({320, 384}) == Tile::skip);
  CHECK(bound({120, 184}, false).tile({320, 384}) == Tile::partial);
}

TEST_CASE("Both: where both say so, nested either way", "[cpu][mask]") {
  const std::vector<int> of = documents(130, 40, true, 3);
  const Document document{of.data(), 0};
  const Both<Causal, Document> causal_document{{}, document};
  check_report(strobe::check_mask_shapes(causal_document));
  check_report(strobe::check_mask_shapes(Both<Document, Causal>{document, {}}));
  check_report(strobe::check_mask_shapes(Both<Causal, Document>{{}, {of.data(), 0, true}}));
  check_report(strobe::check_mask_shapes(Both<Full, Full>{}));

  // Window and SinkWindow have both holes: the walk must leave out only what both leave out.
  for (int left : {0, 5, 33})
    for (int sinks : {0, 3, 16, 40}) {
      CAPTURE(left, sinks);
      const Both<Window, SinkWindow> mask{{left + 20, 2}, {sinks, left}};
      check_report(strobe::check_mask_shapes(mask));
      CHECK(differences(mask, [&](int i, int j, int q_len, int kv_len) {
              const int at = i + kv_len - q_len;
              return at - j <= left + 20 && j - at <= 2 && j <= at && (j < sinks || at - j <= left);
            }) == 0);
    }
  const Both<Both<Window, Document>, Both<Causal, SinkWindow>> deep{{{50, unlimited}, document},
                                                                    {{}, {8, 30}}};
  check_report(strobe::check_mask_shapes(deep));
  const Both<Window, Both<Causal, Full>> causal_window{{16, unlimited}, {}};
  const MaskReport report = strobe::check_mask_shapes(causal_window);
  check_report(report);
  CHECK(report.cautious == 0);
}

TEST_CASE("Both asks no mask about a key that does not exist", "[cpu][mask]") {
  struct Strict {
    struct Bound {
      int kv_len;
      bool visible(int, int) const { return true; }
      int next_key(int k) const {
        REQUIRE((0 <= k && k < kv_len));
        return k;
      }
      strobe::Tile tile(strobe::Span keys) const {
        REQUIRE((0 <= keys.begin && keys.begin < keys.end && keys.end <= kv_len));
        return strobe::Tile::full;
      }
    };
    Bound bind(const strobe::Block& block) const { return {block.kv_len}; }
  };
  check_report(strobe::check_mask_shapes(Strict{}));
  check_report(strobe::check_mask_shapes(Both<Causal, Strict>{}));
  check_report(strobe::check_mask_shapes(Both<Strict, Window>{{}, {3, 0}}));
}

TEST_CASE("Both varies by head if either does", "[cpu][mask]") {
  STATIC_CHECK(Both<Causal, strobe::BlockList>::varies_by_head);
  STATIC_CHECK(Both<Both<strobe::BlockList, Full>, Causal>::varies_by_head);
  STATIC_CHECK_FALSE(Both<Causal, Document>::varies_by_head);
  STATIC_CHECK(strobe::detail::looks_up<Both<Causal, Document>>(0));
  STATIC_CHECK_FALSE(strobe::detail::looks_up<Both<Causal, strobe::Window>>(0));
}
