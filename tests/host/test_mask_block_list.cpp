// SPDX-License-Identifier: MIT
// BlockList: block-sparse attention, against a dense table of which block sees which.
#include <catch2/catch_test_macros.hpp>
#include <random>
#include <string>
#include <vector>

#include "strobe/host/check_mask.hpp"

using strobe::BlockList;
using strobe::MaskReport;
using strobe::MaskShapes;

namespace {

constexpr int longest = 130;  // the longest kv_len of the default shapes

/// A random list for `lists` heads, and the same thing as a dense table.
struct Sparse {
  int q_block, kv_block, rows, columns_per_row;
  std::vector<char> dense;  // [lists, rows, columns_per_row]
  std::vector<int> offsets = {0};
  std::vector<int> columns;

  Sparse(int query_block, int key_block, int lists, int percent, unsigned seed)
      : q_block(query_block),
        kv_block(key_block),
        rows((longest + q_block - 1) / q_block),
        columns_per_row((longest + kv_block - 1) / kv_block) {
    std::mt19937 random(seed);
    for (int row = 0; row < lists * rows; ++row) {
      const bool empty = row % 5 == 3, whole = row % 5 == 1;
      for (int column = 0; column < columns_per_row; ++column) {
        const bool listed = !empty && (whole || int(random() % 100) < percent);
        dense.push_back(listed);
        if (listed) columns.push_back(column);
      }
      offsets.push_back(int(columns.size()));
    }
    columns.push_back(-1);  // so that data() is never null
  }
  bool sees(int list, int position, int k) const {
    if (position < 0) return false;
    const int row = list * rows + position / q_block;
    return dense[size_t(row * columns_per_row + k / kv_block)] != 0;
  }
  BlockList shared() const { return {offsets.data(), columns.data(), q_block, kv_block}; }
  BlockList per_head(int q_heads) const {
    return {offsets.data(), columns.data(), q_block, kv_block, true, q_heads, rows};
  }
};

bool same(const Sparse& sparse, const BlockList& mask, int list, int batch, int q_head, int q_len,
          int kv_len) {
  const auto bound = mask.bind({batch, q_head, 0, {kv_len - q_len, kv_len}, q_len, kv_len});
  for (int q = kv_len - q_len; q < kv_len; ++q)
    for (int k = 0; k < kv_len; ++k)
      if (bound.visible(q, k) != sparse.sees(list, q, k)) return false;
  return true;
}

void check_report(const MaskReport& report) {
  INFO(report.mistake);
  CHECK(report.ok());
  CHECK(report.idle == 0);
  CHECK(report.cautious == 0);
}

}  // namespace

TEST_CASE("BlockList: one list for all, blocks that fit the tiles and blocks that do not",
          "[cpu][mask]") {
  for (int q_block : {1, 16, 20, 64, 100})
    for (int kv_block : {1, 8, 16, 24, 64, 100})
      for (int percent : {10, 50, 90}) {
        CAPTURE(q_block, kv_block, percent);
        const Sparse sparse(q_block, kv_block, 1, percent, unsigned(percent));
        const BlockList mask = sparse.shared();
        for (int q_len : {1, 33, 130, 150})
          for (int kv_len : {1, 33, 130}) CHECK(same(sparse, mask, 0, 0, 0, q_len, kv_len));
        check_report(strobe::check_mask_shapes(mask));
      }
}

TEST_CASE("BlockList: a list of its own for every head of every batch entry", "[cpu][mask]") {
  const int batch = 2, heads = 3;
  const Sparse sparse(16, 24, batch * heads, 40, 7);
  const BlockList mask = sparse.per_head(heads);
  for (int b = 0; b < batch; ++b)
    for (int h = 0; h < heads; ++h) {
      CAPTURE(b, h);
      CHECK(same(sparse, mask, b * heads + h, b, h, 100, 130));
      CHECK(same(sparse, mask, b * heads + h, b, h, 130, 77));
    }
  CHECK_FALSE(same(sparse, mask, 0, 1, 2, 100, 130));  // the lists do differ
  MaskShapes shapes;
  shapes.batches = {0, 1};
  shapes.q_heads = {0, 1, 2};
  check_report(strobe::check_mask_shapes(mask, shapes));
}

TEST_CASE("BlockList: empty rows, an empty list, a full list", "[cpu][mask]") {
  const std::vector<int> no_offsets(9, 0);
  const int nothing = 0;
  const BlockList none{no_offsets.data(), &nothing, 20, 20};
  const MaskReport empty = strobe::check_mask_shapes(none);
  check_report(empty);
  CHECK(empty.visited == 0);

  std::vector<int> offsets, columns;
  for (int row = 0; row <= 7; ++row) offsets.push_back(row * 7);
  for (int i = 0; i < 49; ++i) columns.push_back(i % 7);
  const BlockList all{offsets.data(), columns.data(), 20, 20};
  MaskShapes shapes;
  shapes.q_lens = {1, 64, 130};
  shapes.kv_lens = {130};
  const MaskReport full = strobe::check_mask_shapes(all, shapes);
  check_report(full);
  CHECK(full.visited == full.tiles);
}

TEST_CASE("BlockList: far holes cost nothing", "[cpu][mask]") {
  // Row 0 sees blocks 0 and 1000 of 64 keys each.
  const int offsets[] = {0, 2}, columns[] = {0, 1000};
  const int kv_len = 64 * 1001;
  const BlockList mask{offsets, columns, 1 << 20, 64};
  const auto bound = mask.bind({0, 0, 0, {kv_len - 16, kv_len}, 16, kv_len});
  const strobe::TileStep first = strobe::next_tile(bound, 0, kv_len, 64);
  const strobe::TileStep second = strobe::next_tile(bound, 64, kv_len, 64);
  CHECK((first.valid && first.begin == 0 && !first.partial));
  CHECK((second.valid && second.begin == 64000 && !second.partial));
  CHECK_FALSE(strobe::next_tile(bound, 64064, kv_len, 64).valid);
}

TEST_CASE("BlockList composes", "[cpu][mask]") {
  const Sparse sparse(16, 20, 1, 60, 11);
  const strobe::Both<strobe::Causal, BlockList> causal{{}, sparse.shared()};
  const MaskReport report = strobe::check_mask_shapes(causal);
  INFO(report.mistake);
  CHECK(report.ok());
  const strobe::Both<BlockList, strobe::SinkWindow> window{sparse.shared(), {5, 30}};
  CHECK(strobe::check_mask_shapes(window).ok());
}
