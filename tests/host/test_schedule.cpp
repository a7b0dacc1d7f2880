// SPDX-License-Identifier: MIT
// The prefill schedule covers every query tile exactly once; division by multiplication is exact.
#include <catch2/catch_test_macros.hpp>
#include <cstdint>
#include <random>
#include <set>
#include <tuple>

#include "strobe/schedule.hpp"

using strobe::Bounds;
using strobe::PersistentSchedule;
using strobe::PrefillSchedule;
using strobe::PrefillWork;
using strobe::detail::FastDivision;

namespace {

// Each index has work of its own, all of it in range, and the KV head is that of the query head.
template <class Schedule>
void check_covers(const Schedule& schedule, const Bounds& bounds, int block_q, int64_t blocks) {
  const int tiles = (bounds.q_len + block_q - 1) / block_q;
  REQUIRE(blocks == int64_t(tiles) * bounds.q_heads * bounds.batch);
  std::set<std::tuple<int, int, int>> seen;
  bool in_range = true, kv_right = true;
  for (int block = 0; block < int(blocks); ++block) {
    const PrefillWork work = schedule.work(block);
    in_range = in_range && work.q_tile >= 0 && work.q_tile < tiles && work.q_head >= 0 &&
               work.q_head < bounds.q_heads && work.batch >= 0 && work.batch < bounds.batch;
    kv_right = kv_right && work.kv_head == work.q_head * bounds.kv_heads / bounds.q_heads;
    seen.insert({work.batch, work.q_head, work.q_tile});
  }
  REQUIRE(in_range);
  REQUIRE(kv_right);
  REQUIRE(int64_t(seen.size()) == blocks);
}

}  // namespace

TEST_CASE("every (query tile, head, batch) exactly once, KV head by the group", "[cpu][schedule]") {
  struct Heads {
    int q, kv;
  };
  const Heads all_heads[] = {{1, 1}, {2, 1}, {4, 4},  {5, 1},  {5, 5}, {6, 2},
                             {7, 1}, {7, 7}, {14, 2}, {32, 8}, {71, 1}};
  for (const Heads heads : all_heads)
    for (int batch : {1, 2, 5})
      for (int q_len : {1, 63, 64, 65, 128, 200, 513})
        for (int block_q : {16, 64, 128}) {
          CAPTURE(heads.q, heads.kv, batch, q_len, block_q);
          const Bounds bounds{batch, q_len, q_len, heads.q, heads.kv};
          const int64_t blocks = PrefillSchedule::blocks(bounds, block_q);
          check_covers(PrefillSchedule(bounds, block_q), bounds, block_q, blocks);
          for (int sm_count : {1, 16, 132})
            for (bool even : {false, true})
              check_covers(PersistentSchedule(bounds, block_q, 512, sm_count, even), bounds,
                           block_q, PersistentSchedule::tiles_of(bounds, block_q));
        }
  // Some heads whole, of the others the long tiles and then the short ones.
  const Bounds bounds{3, 4100, 4100, 12, 6};
  const PersistentSchedule schedule(bounds, 64, 2048, 132, false);
  REQUIRE(schedule.last_heads < 36);
  REQUIRE(schedule.short_tiles < 65);
  check_covers(schedule, bounds, 64, PersistentSchedule::tiles_of(bounds, 64));
}

TEST_CASE("persistent order: heads one by one, the last ones together with long tiles first",
          "[cpu][schedule]") {
  const Bounds bounds{8, 2048, 2048, 16, 4};
  // Of 24 MB of K and V, 1 MB a KV head, 24 KV heads or 96 query heads; 8 * 132 / 16 are wanted.
  const PersistentSchedule uneven(bounds, 128, 512, 132, false);
  REQUIRE(uneven.tiles() == 16 * 128);
  REQUIRE(uneven.last_heads == 66);
  REQUIRE(uneven.short_tiles == 16);
  for (int head : {0, 61})
    for (int tile = 0; tile < 16; ++tile) {
      const PrefillWork work = uneven.work(head * 16 + tile);
      CHECK(work.batch * 16 + work.q_head == head);
      CHECK(work.q_tile == 15 - tile);
    }
  for (int tile : {0, 15})
    for (int head : {0, 65}) {
      const PrefillWork work = uneven.work(62 * 16 + tile * 66 + head);
      CHECK(work.batch * 16 + work.q_head == 62 + head);
      CHECK(work.q_tile == 15 - tile);
    }
  // Never more than L2 holds.
  CHECK(PersistentSchedule({64, 512, 512, 16, 16}, 128, 1024, 132, false).last_heads == 48);
  CHECK(PersistentSchedule({1, 1024, 1 << 20, 64, 64}, 128, 1024, 132, false).last_heads == 1);
  // Even tiles need no care for the end.
  const PersistentSchedule even(bounds, 128, 512, 132, true);
  CHECK(even.last_heads == 0);
  CHECK(even.work(0).q_tile == 0);  // the last tile may have fewer rows
  CHECK(even.work(15).q_tile == 15);
}

TEST_CASE("persistent order: long sequences' short tiles at the end", "[cpu][schedule]") {
  // L2 holds 3 heads of 64 tiles, less than 3 tiles a block: so 17 heads' short tiles, of which n^2
  // * 17 is 2 * 132 * 64 at least.
  const PersistentSchedule wide({2, 8192, 8192, 24, 24}, 128, 1024, 132, false);
  REQUIRE(wide.last_heads == 17);
  REQUIRE(wide.short_tiles == 32);
  const auto head_of = [](const PrefillWork& work) { return work.batch * 24 + work.q_head; };
  const int first_last = 31 * 64, first_short = first_last + 17 * 32;
  CHECK(head_of(wide.work(first_last - 1)) == 30);
  CHECK(wide.work(first_last - 1).q_tile == 0);
  for (int head : {0, 16})
    for (int tile : {0, 31}) {
      const PrefillWork long_one = wide.work(first_last + head * 32 + tile),
                        short_one = wide.work(first_short + tile * 17 + head);
      CHECK(head_of(long_one) == 31 + head);
      CHECK(long_one.q_tile == 63 - tile);
      CHECK(head_of(short_one) == 31 + head);
      CHECK(short_one.q_tile == 31 - tile);
    }
  // Few heads are not more than there are; short sequences have no time to read K and V twice, a
  // group's heads share them; three tiles a block are enough.
  CHECK(PersistentSchedule({1, 16384, 16384, 8, 8}, 128, 1024, 132, false).last_heads == 8);
  CHECK(PersistentSchedule({1, 16384, 16384, 8, 8}, 128, 1024, 132, false).short_tiles == 65);
  CHECK(PersistentSchedule({8, 2048, 2048, 8, 8}, 128, 1024, 132, false).last_heads == 12);
  CHECK(PersistentSchedule({32, 1024, 8192, 16, 4}, 128, 1024, 132, false).short_tiles < 8);
  CHECK(PersistentSchedule({4, 4096, 4096, 32, 32}, 192, 256, 132, false).last_heads == 24);
}

TEST_CASE("order: the last query tile of a head first, heads of a group beside each other",
          "[cpu][schedule]") {
  const Bounds bounds{2, 300, 300, 6, 2};  // 3 tiles of 128
  const PrefillSchedule schedule(bounds, 128);
  int block = 0;
  for (int batch = 0; batch < 2; ++batch)
    for (int head = 0; head < 6; ++head)
      for (int tile = 2; tile >= 0; --tile, ++block) {
        const PrefillWork work = schedule.work(block);
        REQUIRE(work.batch == batch);
        REQUIRE(work.q_head == head);
        REQUIRE(work.q_tile == tile);
        REQUIRE(work.kv_head == head / 3);
      }
}

TEST_CASE("the largest launches: work is right near 2^31 blocks", "[cpu][schedule]") {
  const Bounds bounds{16909320, 128, 1, 127, 1};  // batch * heads = 2^31 - 8
  const PrefillSchedule schedule(bounds, 128);
  const int64_t blocks = PrefillSchedule::blocks(bounds, 128);
  REQUIRE(blocks == int64_t(16909320) * 127);
  REQUIRE(blocks <= 0x7fffffff);
  for (int64_t back : {1, 2, 126, 127, 128, 1000000}) {
    const int64_t block = blocks - back;
    const PrefillWork work = schedule.work(int(block));
    CHECK(work.batch == block / 127);
    CHECK(work.q_head == block % 127);
    CHECK((work.q_tile == 0 && work.kv_head == 0));
  }
}

TEST_CASE("more blocks than a grid holds are counted, not wrapped", "[cpu][schedule]") {
  const int most = 1 << 30;
  CHECK(PrefillSchedule::blocks({65536, 128, 1, 65536, 1}, 128) == int64_t(1) << 32);
  CHECK(PrefillSchedule::blocks({1, most, 1, most, 1}, 128) == int64_t(1) << 53);
  CHECK(PrefillSchedule::blocks({3, most, 1, 4096, 1}, 16) == int64_t(3) << 38);
  // 2^64 and 2^83: what a product in 64 bits would make 0 of.
  CHECK(PrefillSchedule::blocks({1 << 20, most, 1, 1 << 21, 1}, 128) == INT64_MAX);
  CHECK(PrefillSchedule::blocks({most, most, 1, most, 1}, 128) == INT64_MAX);
  CHECK(PrefillSchedule::blocks({1, 2147483647, 1, 1, 1}, 128) == 1 << 24);
  for (const Bounds& none : {Bounds{0, 5, 5, 1, 1}, Bounds{5, 0, 5, 1, 1}, Bounds{5, 5, 5, 0, 1}})
    CHECK(PrefillSchedule::blocks(none, 128) == 0);
}

TEST_CASE("FastDivision is n / d: every small pair", "[cpu][schedule]") {
  bool right = true;
  for (int d = 1; d <= 1100; ++d) {
    const FastDivision by(d);
    for (int n = 0; n <= 5000; ++n) right = right && by(n) == n / d;
  }
  CHECK(right);
}

TEST_CASE("FastDivision is n / d: large numbers and the edges of every quotient",
          "[cpu][schedule]") {
  std::mt19937_64 random(20240501);
  const int largest = 2147483647;
  int wrong = 0;
  const auto check = [&](int n, int d) { wrong += FastDivision(d)(n) != n / d; };
  for (int i = 0; i < 300000; ++i) {
    const int d = int(random() >> (33 + random() % 31)) | 1;
    const int n = int(random() >> 33);
    check(n, d);
    const int multiple = n / d * d;  // the quotient steps here: the hard places
    check(multiple, d);
    if (multiple > 0) check(multiple - 1, d);
    check(largest / d * d - (d <= largest / 2 ? 1 : 0), d);
    check(largest, d);
  }
  for (int shift = 0; shift < 31; ++shift)
    for (int near : {-1, 0, 1}) {
      const int64_t d = (int64_t(1) << shift) + near;
      if (d < 1 || d > largest) continue;
      for (int n : {0, 1, int(d) - 1, int(d), largest - 1, largest}) check(n, int(d));
    }
  check(largest, largest);
  check(largest - 1, largest);
  CHECK(wrong == 0);
}
