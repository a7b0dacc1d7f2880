// SPDX-License-Identifier: MIT
// Masks at their limits: window conventions, positions near 2^30, holes that must cost nothing,
// and what each mask says about its own fields.
#include <catch2/catch_test_macros.hpp>
#include <limits>
#include <string>
#include <vector>

#include "strobe/host/check_mask.hpp"

using strobe::Block;
using strobe::Both;
using strobe::Causal;
using strobe::SinkWindow;
using strobe::Tile;
using strobe::TileStep;
using strobe::unlimited;
using strobe::Window;

namespace {

/// The keys row i sees, as text like "2 3 4".
template <class Mask>
std::string keys_of(const Mask& mask, int i, int q_len, int kv_len) {
  const int q = i + kv_len - q_len;
  const auto bound = mask.bind({0, 0, 0, {q, q + 1}, q_len, kv_len});
  std::string text;
  for (int k = 0; k < kv_len; ++k)
    if (bound.visible(q, k)) text += (text.empty() ? "" : " ") + std::to_string(k);
  return text;
}

template <class Bound>
std::vector<int> tiles_of(const Bound& bound, int kv_len, int block_kv) {
  std::vector<int> begins;
  TileStep step = strobe::next_tile(bound, 0, kv_len, block_kv);
  for (; step.valid; step = strobe::next_tile(bound, step.begin + block_kv, kv_len, block_kv))
    begins.push_back(step.begin);
  return begins;
}

}  // namespace

TEST_CASE("MSK-01: causal is aligned bottom-right", "[cpu][mask]") {
  CHECK(keys_of(Causal{}, 0, 2, 5) == "0 1 2 3");
  CHECK(keys_of(Causal{}, 1, 2, 5) == "0 1 2 3 4");
  CHECK(keys_of(Causal{}, 0, 1, 3) == "0 1 2");
  CHECK(keys_of(Causal{}, 2, 5, 2) == "");  // MSK-02: more queries than keys
  CHECK(keys_of(Causal{}, 3, 5, 2) == "0");
}

TEST_CASE("MSK-04: a window of left L sees exactly L + 1 keys", "[cpu][mask]") {
  for (int i = 0; i < 8; ++i) CHECK(keys_of(Window{0, 0}, i, 8, 8) == std::to_string(i));
  CHECK(keys_of(Window{1, 0}, 5, 8, 8) == "4 5");
  CHECK(keys_of(Window{1, 0}, 0, 8, 8) == "0");
  CHECK(keys_of(Window{3, 0}, 5, 8, 8) == "2 3 4 5");
  CHECK(keys_of(Window{3, 0}, 0, 1, 9) == "5 6 7 8");
  CHECK(keys_of(Window{3, 2}, 3, 8, 8) == "0 1 2 3 4 5");
  CHECK(keys_of(Both<Causal, Window>{{}, {3, unlimited}}, 5, 8, 8) == "2 3 4 5");
}

TEST_CASE("MSK-05: 0 is a bound, unlimited has a name, other negatives are errors", "[cpu][mask]") {
  for (int i = 0; i < 8; ++i) {
    CHECK(keys_of(Window{unlimited, 0}, i, 8, 8) == keys_of(Causal{}, i, 8, 8));
    std::string from_diagonal;
    for (int k = i; k < 8; ++k) from_diagonal += (k > i ? " " : "") + std::to_string(k);
    CHECK(keys_of(Window{0, unlimited}, i, 8, 8) == from_diagonal);
    CHECK(keys_of(Window{}, i, 8, 8) == "0 1 2 3 4 5 6 7");
  }
  struct {
    Window window;
    const char* sentence;
  } const wrong[] = {
      {{-1, 0}, "mask.left is -1; it must be >= 0 or strobe::unlimited"},
      {{0, -1}, "mask.right is -1; it must be >= 0 or strobe::unlimited"},
      {{-1, -3}, "mask.left is -1; it must be >= 0 or strobe::unlimited"},
      {{-256, 0}, "mask.left is -256; it must be >= 0 or strobe::unlimited"},
      {{3, -2147483647 - 1}, "mask.right is -2147483648; it must be >= 0 or strobe::unlimited"},
  };
  for (const auto& w : wrong) {
    const strobe::Status status = w.window.check({});
    CHECK(status.code == strobe::Code::invalid);
    CHECK(std::string(status.text) == w.sentence);
  }
  CHECK(Window{}.check({}).ok());
  CHECK(Window{0, 0}.check({}).ok());
  CHECK(Window{unlimited - 1, unlimited - 1}.check({}).ok());
}

TEST_CASE("a window that is longer than any sequence equals an unlimited one", "[cpu][mask]") {
  const int most = 1 << 30;  // the longest sequence the checks let through
  for (int first : {-most / 2, -1000, 0, 5, most / 2, most - 128}) {
    CAPTURE(first);
    const Block block{0, 0, 0, {first, first + 128}, 128, most};
    const auto almost = Window{unlimited - 1, unlimited - 1}.bind(block);
    const auto open = Window{unlimited, unlimited}.bind(block);
    for (int q : {first, first + 64, first + 127})
      for (int k : {0, 1, 63, most / 2, most - 1}) {
        // unlimited - 1 is 2^31 - 2: no distance within the limits reaches it.
        CHECK(almost.visible(q, k));
        CHECK(open.visible(q, k));
      }
    for (int k : {0, 64, most - 64}) {
      CHECK(almost.tile({k, k + 64}) == Tile::full);
      CHECK(open.tile({k, k + 64}) == Tile::full);
      CHECK(almost.next_key(k) == k);
      CHECK(open.next_key(k) == k);
    }
  }
}

TEST_CASE("walks near the largest position end and stay in range", "[cpu][mask]") {
  const int most = 1 << 30;
  const Block last{0, 0, 0, {most - 128, most}, 128, most};
  CHECK(tiles_of(Window{100, 0}.bind(last), most, 64) ==
        std::vector<int>{most - 256, most - 192, most - 128, most - 64});
  CHECK(tiles_of(SinkWindow{4, 0}.bind(last), most, 64) ==
        std::vector<int>{0, most - 128, most - 64});
  const Block before{0, 0, 0, {-most, -most + 128}, most, 64};  // rows that see no key
  CHECK(tiles_of(Causal{}.bind(before), 64, 64).empty());
  CHECK(tiles_of(Window{unlimited - 1, 0}.bind(before), 64, 64).empty());
  CHECK(tiles_of(SinkWindow{64, unlimited}.bind(before), 64, 64).empty());
  CHECK(tiles_of(Window{0, unlimited}.bind(before), 64, 64) == std::vector<int>{0});
  CHECK(tiles_of(strobe::Full{}.bind(before), 0, 64).empty());
  // Beyond every limit the checks allow, an int must still not wrap.
  const int top = std::numeric_limits<int>::max();
  const Block far{0, 0, 0, {top - 110, top - 100}, 10, top - 100};
  CHECK(tiles_of(Window{5, 5}.bind(far), top - 100, 64).size() == 1);
}

TEST_CASE("SinkWindow on 4096 keys visits the tiles it needs and no other", "[cpu][mask]") {
  const int length = 4096, block_q = 128, block_kv = 64, sinks = 4, left = 255;
  int64_t needed = 0;
  for (int row = 0; row < length; row += block_q) {
    // The tiles of keys [0, sinks), and those from the first row's oldest key to the last row.
    const int oldest = row - left > 0 ? row - left : 0;
    const int first_tile = oldest / block_kv, last_tile = (row + block_q - 1) / block_kv;
    needed += last_tile - first_tile + 1 + (first_tile > 0 ? 1 : 0);
  }
  CHECK(needed == 2 + 4 + 6 + 29 * 7);
  strobe::MaskShape shape{length, length, block_q, block_kv};
  const strobe::MaskReport report = strobe::check_mask(SinkWindow{sinks, left}, shape);
  INFO(report.mistake);
  CHECK(report.ok());
  CHECK(report.visited == needed);
  CHECK(report.idle == 0);
  CHECK(report.tiles == 32 * 64);
  // The walk of one block, spelled out: the sink, then the window.
  const auto bound = SinkWindow{sinks, left}.bind({0, 0, 0, {3968, 4096}, length, length});
  CHECK(tiles_of(bound, length, block_kv) ==
        std::vector<int>{0, 3712, 3776, 3840, 3904, 3968, 4032});
}

TEST_CASE("next_key leaves a hole in one step", "[cpu][mask]") {
  const int kv_len = 1 << 20;
  const Block block{0, 0, 0, {kv_len - 128, kv_len}, 128, kv_len};
  CHECK(Window{100, 0}.bind(block).next_key(0) == kv_len - 128 - 100);
  CHECK(Window{100, unlimited}.bind(block).next_key(64) == kv_len - 128 - 100);
  CHECK(SinkWindow{4, 100}.bind(block).next_key(3) == 3);
  CHECK(SinkWindow{4, 100}.bind(block).next_key(4) == kv_len - 128 - 100);
  CHECK(Both<Causal, Window>{{}, {100, unlimited}}.bind(block).next_key(0) == kv_len - 228);
  CHECK(Both<SinkWindow, Window>{{4, 100}, {50, 0}}.bind(block).next_key(0) == kv_len - 178);
  const Block early{0, 0, 0, {1000, 1128}, kv_len, kv_len};  // behind the last row nothing is left
  CHECK(Causal{}.bind(early).next_key(1127) == 1127);
  CHECK(Causal{}.bind(early).next_key(1128) >= kv_len);
  CHECK(Window{5, 7}.bind(early).next_key(1134) == 1134);
  CHECK(Window{5, 7}.bind(early).next_key(1135) >= kv_len);
  CHECK(SinkWindow{2000, 5}.bind(early).next_key(1128) >= kv_len);
}

TEST_CASE("next_tile calls a tile that the sequence cuts partial", "[cpu][mask]") {
  const auto bound = strobe::Full{}.bind(Block{});
  CHECK_FALSE(strobe::next_tile(bound, 0, 100, 64).partial);
  const TileStep tail = strobe::next_tile(bound, 64, 100, 64);
  CHECK((tail.valid && tail.partial && tail.begin == 64));
  CHECK_FALSE(strobe::next_tile(bound, 128, 100, 64).valid);
  CHECK_FALSE(strobe::next_tile(bound, 64, 128, 64).partial);
}

TEST_CASE("masks look at their own fields", "[cpu][mask]") {
  using strobe::BlockList;
  using strobe::Document;
  const strobe::Bounds bounds{2, 64, 128, 4, 2};
  const int offsets[] = {0, 0, 0}, columns[] = {0};
  const auto odd = reinterpret_cast<const int*>(uintptr_t(0x1002));
  const auto text = [&](const auto& mask) {
    const strobe::Status status = strobe::detail::check_noun(mask, bounds, 0);
    CHECK((status.ok() || status.code == strobe::Code::invalid));
    return std::string(status.text);
  };
  CHECK(text(strobe::Full{}) == "");
  CHECK(text(Causal{}) == "");
  CHECK(text(SinkWindow{-1, 5}) == "mask.sinks is -1; it must be >= 0");
  CHECK(text(SinkWindow{1, -5}).find("mask.left is -5") == 0);
  CHECK(text(SinkWindow{0, 0}) == "");
  CHECK(text(Document{}) == "mask.document_of is null");
  CHECK(text(Document{odd, 0}) == "mask.document_of is 0x1002; it must be aligned to 4 bytes");
  CHECK(text(Document{offsets, 0}) == "");
  CHECK(text(BlockList{}) == "mask.offsets is null");
  CHECK(text(BlockList{offsets, nullptr}) == "mask.columns is null");
  CHECK(text(BlockList{odd, columns}).find("mask.offsets is 0x1002") == 0);
  CHECK(text(BlockList{offsets, odd}).find("mask.columns is 0x1002") == 0);
  CHECK(text(BlockList{offsets, columns, 0, 64}) == "mask.q_block is 0; it must be >= 1");
  CHECK(text(BlockList{offsets, columns, 64, -8}) == "mask.kv_block is -8; it must be >= 1");
  CHECK(text(BlockList{offsets, columns, 64, 64, true, 3, 2}) ==
        "mask.q_heads is 3 but bounds.q_heads is 4");
  CHECK(text(BlockList{offsets, columns, 64, 64, true, 4, 1}) ==
        "mask.rows_per_head is 1; with q_block 64 it does not reach bounds.kv_len 128");
  CHECK(text(BlockList{offsets, columns, 64, 64, true, 4, 2}) == "");
  CHECK(text(BlockList{offsets, columns, 64, 64}) == "");
  // Both reports the first that is wrong, on either side and at any depth.
  CHECK(text(Both<Causal, Window>{{}, {3, 0}}) == "");
  CHECK(text(Both<Window, Document>{{-7, 0}, {}}).find("mask.left is -7") == 0);
  CHECK(text(Both<Window, Both<Causal, Document>>{{7, 0}, {}}) == "mask.document_of is null");
}
