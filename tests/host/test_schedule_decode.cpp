// SPDX-License-Identifier: MIT
// The decode schedule: every key of every sequence in exactly one part, every block of the launch a
// work of its own, every partial folded once; and the rule that flash-attention-cuda chose splits
// by.
#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <cstdint>
#include <set>
#include <tuple>
#include <vector>

#include "strobe/schedule.hpp"

using strobe::Bounds;
using strobe::choose_decode_split;
using strobe::DecodeParts;
using strobe::DecodeSchedule;
using strobe::DecodeWork;
using strobe::Machine;
using strobe::Span;

namespace {
constexpr int key_bytes = 2 * 2 * 64;  // K and V, 64 elements of 2 bytes each
int ceil_div(int a, int b) { return a / b + (a % b != 0); }
}  // namespace

TEST_CASE("choose_decode_split: the examples, two blocks on each of 82 multiprocessors",
          "[cpu][schedule]") {
  CHECK(choose_decode_split(512, 1, 12, 164) == 128);    // 48 blocks: as fine as it gets
  CHECK(choose_decode_split(1024, 1, 12, 164) == 128);   // 96
  CHECK(choose_decode_split(2048, 1, 12, 164) == 128);   // 192
  CHECK(choose_decode_split(4096, 1, 12, 164) == 256);   // 192
  CHECK(choose_decode_split(2048, 8, 12, 164) == 1024);  // 192
  CHECK(choose_decode_split(512, 1, 1, 164) == 128);
  static_assert(choose_decode_split(4096, 1, 12, 164) == 256, "a constant where its input is");
}

TEST_CASE("choose_decode_split: the largest power of two that still fills the device",
          "[cpu][schedule]") {
  for (const int max_len : {0, 1, 127, 128, 129, 1000, 1024, 2048, 4097, 131072, 1 << 30})
    for (const int batch : {1, 2, 8, 300})
      for (const int heads : {1, 2, 12, 71})
        for (const int min_blocks : {1, 8, 164, 264, 100000}) {
          CAPTURE(max_len, batch, heads, min_blocks);
          const auto blocks = [&](int split) {
            return int64_t(batch) * heads * ceil_div(max_len, split);
          };
          const int split = choose_decode_split(max_len, batch, heads, min_blocks);
          REQUIRE((split == 128 || split == 256 || split == 512 || split == 1024));
          if (split > 128) REQUIRE(blocks(split) >= min_blocks);
          if (split < 1024) REQUIRE(blocks(2 * split) < min_blocks);
        }
  // Products beyond 32 bits.
  CHECK(choose_decode_split(1 << 30, 1 << 20, 1 << 12, 2147483647) == 1024);
}

TEST_CASE("decode: every (part, row block, KV head, batch) exactly once", "[cpu][schedule]") {
  for (const auto& [q_heads, kv_heads] :
       {std::pair{1, 1}, {2, 1}, {12, 12}, {6, 2}, {71, 1}, {64, 4}})
    for (const int batch : {1, 2, 5})
      for (const int q_len : {1, 3, 16})
        for (const int splits : {0, 1, 7, 33})
          for (const int block_rows : {16, 64}) {
            const Bounds bounds{batch, q_len, 3000, q_heads, kv_heads, splits};
            CAPTURE(q_heads, kv_heads, batch, q_len, splits, block_rows);
            const int sms = 12;
            const DecodeSchedule schedule(bounds, {sms, 3}, block_rows, key_bytes, 0);
            const int group = q_heads / kv_heads;
            const int row_blocks = ceil_div(q_len * group, block_rows);
            const int64_t blocks = DecodeSchedule::blocks(bounds, {sms, 3}, block_rows, key_bytes);
            REQUIRE(schedule.group == group);
            REQUIRE(schedule.row_blocks == row_blocks);
            REQUIRE(blocks == int64_t(schedule.parts) * row_blocks * kv_heads * batch);
            REQUIRE(DecodeSchedule::row_groups(bounds, block_rows) ==
                    int64_t(row_blocks) * kv_heads * batch);
            std::set<std::tuple<int, int, int, int>> seen;
            bool in_range = true;
            for (int block = 0; block < int(blocks); ++block) {
              const DecodeWork w = schedule.work(block);
              in_range = in_range && w.part >= 0 && w.part < schedule.parts && w.row_block >= 0 &&
                         w.row_block < row_blocks && w.kv_head >= 0 && w.kv_head < kv_heads &&
                         w.batch >= 0 && w.batch < batch;
              // The last parts, which a loose bound leaves without work, start first.
              in_range = in_range &&
                         w.part == schedule.parts - 1 - block / (row_blocks * kv_heads * batch);
              seen.insert({w.part, w.row_block, w.kv_head, w.batch});
            }
            REQUIRE(in_range);
            REQUIRE(int64_t(seen.size()) == blocks);
          }
}

TEST_CASE("decode: work is right near 2^31 blocks", "[cpu][schedule]") {
  const Bounds bounds{8454660, 1, 1, 127, 127, 2};  // 2^30 - 4 row groups in 2 parts
  const DecodeSchedule schedule(bounds, {132, 3}, 16, key_bytes, 0);
  const int64_t blocks = DecodeSchedule::blocks(bounds, {132, 3}, 16, key_bytes);
  REQUIRE(blocks == 2 * int64_t(8454660) * 127);
  REQUIRE(blocks <= 0x7fffffff);
  for (int64_t back : {1, 2, 126, 127, 128, 1000000}) {
    const DecodeWork w = schedule.work(int(blocks - back));
    const int64_t row_group = blocks / 2 - back;
    CHECK((w.part == 0 && w.row_block == 0));
    CHECK(w.kv_head == row_group % 127);
    CHECK(w.batch == row_group / 127);
  }
}

TEST_CASE("decode: parts cover every key once and begin at tiles, or at chunks",
          "[cpu][schedule]") {
  int64_t cases = 0, wrong = 0;
  std::vector<int> lengths = {0, 1, 15, 16, 17, 63, 64, 65, 127, 128, 129, 255, 256, 257};
  for (int i = 1; i <= 8; ++i) lengths.push_back(i * 997);
  for (const int much : {100000, 1 << 20, 1 << 30}) lengths.insert(lengths.end(), {much - 1, much});
  for (const int block_kv : {16, 32, 48, 64, 80, 96, 112, 128, 256})
    for (const int chunk : {0, 2 * block_kv, 8 * block_kv})
      for (const int parts : {1, 2, 3, 7, 16, 17, 33, 64, 128, 1000})
        for (const int length : lengths)
          for (const int skipped : {0, 1, 5, 1000000}) {
            // The mask's first tile, or kv_len where no tile holds anything.
            const int64_t tile = int64_t(skipped) * block_kv;
            const int first_key = tile < length ? int(tile) : length;
            const DecodeSchedule schedule(parts);
            const DecodeParts cut = schedule.cut(first_key, length, block_kv, chunk);
            bool right = cut.count >= 1 && cut.count <= parts && cut.end == length &&
                         cut.begin >= 0 && cut.begin <= first_key &&
                         (chunk == 0 || cut.begin % chunk == 0);
            int at = cut.begin;
            for (int part = 0; part < cut.count; ++part) {
              const Span keys = cut.keys(part);
              // Where the walk begins nothing is at a tile's edge if it is the end.
              right = right && keys.begin == at && (cut.count == 1 || keys.end > keys.begin);
              if (keys.end > keys.begin)
                right = right && keys.begin % (chunk > 0 ? chunk : block_kv) == 0;
              at = keys.end;
            }
            right = right && at == length;
            ++cases;
            wrong += !right;
            if (!right && wrong < 5) {
              CAPTURE(block_kv, chunk, parts, length, first_key, cut.count, cut.begin, cut.length);
              CHECK(right);
            }
          }
  CHECK(wrong == 0);
  CHECK(cases > 10000);
}

TEST_CASE("decode, fixed: every chunk with keys is some team's, once, whatever the parts",
          "[cpu][schedule]") {
  for (const int chunk : {64, 256})
    for (const int parts : {1, 2, 5, 64, 1000})
      for (const int teams : {1, 4})
        for (const int length : {0, 1, 63, 64, 65, 1000, 5000}) {
          CAPTURE(chunk, parts, teams, length);
          const DecodeSchedule schedule(parts);
          const DecodeParts cut = schedule.cut(0, length, 32, chunk);
          std::vector<int> seen(size_t(ceil_div(length, chunk)), 0);
          for (int part = 0; part < cut.count; ++part) {
            const Span keys = cut.keys(part);
            for (int team = 0; team < teams; ++team)  // as in kernel/decode_sm80.cuh
              for (int c = keys.begin / chunk + team; c < ceil_div(keys.end, chunk); c += teams)
                ++seen[size_t(c)];
          }
          REQUIRE(std::all_of(seen.begin(), seen.end(), [](int times) { return times == 1; }));
        }
}

TEST_CASE("decode: the tree over the parts has the nodes it is given", "[cpu][schedule]") {
  constexpr int fan = DecodeSchedule::fan;
  CHECK(DecodeSchedule::nodes_of(1) == 1);
  CHECK(DecodeSchedule::nodes_of(fan) == 1);
  CHECK(DecodeSchedule::nodes_of(fan + 1) == 3);
  CHECK(DecodeSchedule::nodes_of(fan * fan) == fan + 1);
  CHECK(DecodeSchedule::nodes_of(fan * fan + 1) == fan + 1 + 2 + 1);
  CHECK(DecodeSchedule::nodes_of(1 << 30) > 0);
  // The walk of kernel/decode_sm80.cuh, of every block: with any number of parts that turn out to
  // have work, counters and states stay within what was sized for all of them, and no two nodes
  // share one.
  bool right = true;
  for (int parts = 1; parts <= 600; ++parts) {
    const int nodes = DecodeSchedule::nodes_of(parts);
    for (int count = 1; count <= parts; count += count < 40 ? 1 : 37) {
      std::set<int> counters;
      int leaves = count, first_node = 0;
      int64_t folded = 0, expected = 0;
      while (true) {
        const bool root = leaves <= fan;
        const int level = root ? 1 : ceil_div(leaves, fan);
        for (int node = 0; node < level; ++node) {
          right = right && counters.insert(first_node + node).second && first_node + node < nodes;
          folded += root ? leaves : std::min(fan, leaves - node * fan);
        }
        expected += leaves;
        if (root) break;
        first_node += level;
        leaves = level;
      }
      right = right && folded == expected;
    }
  }
  CHECK(right);
}

TEST_CASE("decode: how many parts are chosen", "[cpu][schedule]") {
  for (const Machine machine : {Machine{4, 3}, {46, 1}, {82, 1}, {132, 2}, {132, 3}})
    for (const int batch : {1, 2, 7, 64, 2000})
      for (const int kv_heads : {1, 2, 8})
        for (const int kv_len : {0, 1, 128, 129, 1000, 8192, 131072, 1 << 30}) {
          Bounds bounds{batch, 1, kv_len, 4 * kv_heads, kv_heads};
          CAPTURE(machine.sm_count, machine.blocks_per_sm, batch, kv_heads, kv_len);
          const int64_t groups = int64_t(batch) * kv_heads;
          const int parts = DecodeSchedule::parts_of(bounds, machine, 16, key_bytes);
          REQUIRE(parts >= 1);
          REQUIRE(parts <= std::max(1, ceil_div(kv_len, 128)));
          // Rows alone fill the machine.
          if (parts > 1) REQUIRE(groups * parts <= machine.blocks_per_sm * machine.sm_count);
          // Long sequences use at least two thirds of it.
          if (kv_len >= 131072) REQUIRE(3 * groups * parts >= 2 * machine.sm_count);
          bounds.kv_splits = 33;
          REQUIRE(DecodeSchedule::parts_of(bounds, machine, 16, key_bytes) == 33);
        }
}

TEST_CASE("decode: one block fewer on a multiprocessor where the last wave is then fuller",
          "[cpu][schedule]") {
  const auto resident = [](int64_t blocks, Machine machine) {
    return DecodeSchedule::resident_blocks(blocks, machine);
  };
  CHECK(resident(1, {132, 3}) == 3);
  CHECK(resident(396, {132, 3}) == 3);  // one whole wave of three
  CHECK(resident(512, {132, 3}) == 2);  // 396 + 116, or 264 + 248
  CHECK(resident(528, {132, 3}) == 2);  // 396 + 132, or two whole waves of two
  CHECK(resident(768, {132, 3}) == 3);  // 396 + 372, or 264 + 264 + 240
  CHECK(resident(512, {132, 2}) == 2);  // a block alone cannot read as fast as two
  CHECK(resident(512, {132, 1}) == 1);
  CHECK(resident(0x7fffffff, {132, 3}) == 3);  // one wave more or less is nothing
}

// The launch knows the bound alone: a loose one must neither leave the machine idler than a tight
// one nor cut finer, since folding costs time too.
TEST_CASE("decode: 131072 declared, few real: the same parts as with a tight bound",
          "[cpu][schedule]") {
  for (const int sms : {46, 82, 132})
    for (const int batch : {1, 4, 16, 64})
      for (const int length : {128, 512, 2048, 8192}) {
        const Bounds tight{batch, 1, length, 8, 2}, loose{batch, 1, 131072, 8, 2};
        const auto working = [&](const Bounds& bounds) {
          return DecodeSchedule(bounds, {sms, 3}, 16, key_bytes, 0).cut(0, length, 32, 0).count;
        };
        CAPTURE(sms, batch, length);
        CHECK(working(loose) == working(tight));
      }
}

TEST_CASE("decode: states and counters by the documented rule", "[cpu][schedule]") {
  const auto schedule = [](int splits, int kv_len, int chunk) {
    return DecodeSchedule({2, 1, kv_len, 8, 2, splits}, {12, 3}, 16, key_bytes, chunk);
  };
  CHECK(schedule(1, 5000, 0).partials == 0);
  CHECK(schedule(2, 5000, 0).partials == 2 + 1);
  CHECK(schedule(40, 5000, 0).partials == 40 + 3 + 1);
  CHECK(schedule(40, 5000, 0).counters == 3 + 1);
  for (const int splits : {0, 1, 40}) {  // fixed: a state a chunk, whoever computes it
    CHECK(schedule(splits, 5000, 256).partials == 20);
    CHECK(schedule(splits, 5000, 256).counters == 1);
  }
}

TEST_CASE("decode: more blocks than a grid holds are counted, not wrapped", "[cpu][schedule]") {
  const int most = 1 << 30;
  CHECK(DecodeSchedule::blocks({65536, 1, 1, 65536, 65536}, {12, 3}, 16, key_bytes) == int64_t(1)
                                                                                           << 32);
  CHECK(DecodeSchedule::row_groups({most, 16, 1, most, most}, 16) == int64_t(1) << 60);
  // 2^64 blocks and more.
  CHECK(DecodeSchedule::blocks({1 << 20, 1, 1, 1 << 21, 1 << 21, 1 << 23}, {12, 3}, 16, key_bytes) >
        0x7fffffff);
  CHECK(DecodeSchedule::blocks({most, 16, 1, most, most, 144}, {12, 3}, 16, key_bytes) >
        0x7fffffff);
  CHECK(DecodeSchedule::blocks({most, 1, 1, most, most, most}, {12, 3}, 16, key_bytes) >
        0x7fffffff);
}
