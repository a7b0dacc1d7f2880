// SPDX-License-Identifier: MIT
// Schedule: which thread block does which work. Layer: noun, host and device, no kernels; pure
// functions with host tests.
#pragma once

#include "detail/fast_division.hpp"
#include "types.hpp"

namespace strobe {
inline namespace STROBE_ABI {

/// One block's share of a prefill: query rows [q_tile * block_q, ...) of one head of one batch
/// entry.
struct PrefillWork {
  int q_tile;
  int q_head;
  int kv_head;
  int batch;
};

/// Work of a prefill launch, one block per query tile, numbered along grid.x alone so that batch *
/// heads may exceed 65535. Blocks start in index order: neighbours share a K/V head (which then
/// stays in L2), and inside a head the last query tile, under a causal mask the longest, comes
/// first, so that the tail of the launch is made of short blocks.
struct PrefillSchedule {
  int q_tiles = 0;
  int q_heads = 0;
  detail::FastDivision by_q_tiles, by_q_heads, by_group;

  PrefillSchedule() = default;
  PrefillSchedule(const Bounds& bounds, int block_q)
      : q_tiles(detail::ceil_div(bounds.q_len, block_q)),
        q_heads(bounds.q_heads),
        by_q_tiles(q_tiles),
        by_q_heads(bounds.q_heads),
        by_group(bounds.q_heads / bounds.kv_heads) {}

  /// Blocks of the launch; may exceed what a grid can hold (2^31 - 1), which the caller checks.
  /// Held at 2^63 - 1, which bounds of 2^30 each would pass.
  static int64_t blocks(const Bounds& bounds, int block_q) {
    return detail::saturating_multiply(
        int64_t(detail::ceil_div(bounds.q_len, block_q)) * bounds.q_heads, bounds.batch);
  }
  STROBE_HOST_DEVICE PrefillWork work(int block) const {
    const int head_and_batch = by_q_tiles(block);
    const int batch = by_q_heads(head_and_batch);
    const int q_head = head_and_batch - batch * q_heads;
    return {q_tiles - 1 - (block - head_and_batch * q_tiles), q_head, by_group(q_head), batch};
  }
};

/// Work of a prefill launch whose blocks stay and take query tiles one after another, in the order
/// of their index. Heads follow each other, so that few K and V are read at a time and L2 keeps
/// them, each with its long query tiles first: where tiles differ in length, as under a causal
/// mask, from the last one on, else from the first one, since the last may have fewer rows. Where
/// they differ the last heads' short tiles come at the end, the longer of them first, so that the
/// launch ends evenly (docs/tuning.md).
struct PersistentSchedule {
  static constexpr int64_t l2_bytes = 24 << 20;  ///< of K and V, about: an H200's L2 has 50 MB

  int q_tiles = 0;
  int q_heads = 0;
  int heads = 0;           ///< of the whole batch
  int last_heads = 0;      ///< whose short tiles come at the end
  int short_tiles = 0;     ///< of such a head
  bool ascending = false;  ///< the first query tile of a head first
  detail::FastDivision by_q_tiles, by_long_tiles, by_last_heads, by_q_heads, by_group;

  PersistentSchedule() = default;
  /// key_bytes: of K and V together, a key. blocks: of the launch, at most. even: all query tiles
  /// are of about the same length.
  PersistentSchedule(const Bounds& bounds, int block_q, int key_bytes, int blocks, bool even)
      : q_tiles(detail::ceil_div(bounds.q_len, block_q)),
        q_heads(bounds.q_heads),
        heads(bounds.batch * bounds.q_heads),
        ascending(even),
        by_q_tiles(q_tiles),
        by_q_heads(bounds.q_heads),
        by_group(bounds.q_heads / bounds.kv_heads) {
    if (!even) end_evenly(bounds, key_bytes, blocks);
    by_long_tiles = detail::FastDivision(detail::max_of(q_tiles - short_tiles, 1));
    by_last_heads = detail::FastDivision(detail::max_of(last_heads, 1));
  }

  /// Query tiles in all; held at 2^63 - 1. The caller checks that they fit an int.
  static int64_t tiles_of(const Bounds& bounds, int block_q) {
    return PrefillSchedule::blocks(bounds, block_q);
  }
  STROBE_HOST_DEVICE int tiles() const { return q_tiles * heads; }

  STROBE_HOST_DEVICE PrefillWork work(int index) const {
    const int first_heads = heads - last_heads, long_tiles = q_tiles - short_tiles,
              in_last = index - first_heads * q_tiles, in_short = in_last - last_heads * long_tiles;
    int tile, head_and_batch;
    if (in_last < 0) {
      head_and_batch = by_q_tiles(index);
      tile = index - head_and_batch * q_tiles;
    } else if (in_short < 0) {
      head_and_batch = by_long_tiles(in_last);
      tile = in_last - head_and_batch * long_tiles;
      head_and_batch += first_heads;
    } else {
      tile = by_last_heads(in_short);
      head_and_batch = first_heads + in_short - tile * last_heads;
      tile += long_tiles;
    }
    const int batch = by_q_heads(head_and_batch), q_head = head_and_batch - batch * q_heads;
    return {ascending ? tile : q_tiles - 1 - tile, q_head, by_group(q_head), batch};
  }

 private:
  /// The heads that give each block some 8 tiles end together, all of their tiles, if L2 holds
  /// their K and V; or as many as it holds, if that is 3 tiles a block. Otherwise the short half or
  /// so of more heads' tiles does: together as long as a long tile in each block, where n tiles of
  /// 1, 2, .. units a head take n^2 / 2. Their K and V are then read twice, which short sequences
  /// have no time for.
  void end_evenly(const Bounds& bounds, int key_bytes, int blocks) {
    const int group = bounds.q_heads / bounds.kv_heads;
    const int64_t head_bytes = int64_t(detail::max_of(bounds.kv_len, 1)) * key_bytes,
                  held = (l2_bytes + head_bytes - 1) / head_bytes * group,
                  each_8 = (int64_t(8) * blocks + q_tiles - 1) / q_tiles,
                  wanted = each_8 < heads ? each_8 : heads;
    last_heads = int(held < wanted ? held : wanted);
    short_tiles = q_tiles;
    if (last_heads == wanted || int64_t(last_heads) * q_tiles >= int64_t(3) * blocks ||
        int64_t(bounds.q_len) * group < 4096)
      return;
    last_heads = int(wanted);
    short_tiles = 0;
    while (short_tiles < q_tiles &&
           int64_t(short_tiles) * short_tiles * wanted < int64_t(2) * blocks * q_tiles)
      ++short_tiles;
  }
};

/// Keys a split of flash-attention-cuda's rule: the largest power of two from 128 to 1024 for which
/// batch * heads * ceil(max_len / split) still reaches `min_blocks` (two blocks an SM), else 128.
/// Kept as the simple, documented rule; DecodeSchedule's own cuts by parts, which a loose bound on
/// the length does not coarsen.
constexpr int choose_decode_split(int max_len, int batch, int heads, int min_blocks) {
  for (int split = 1024; split > 128; split /= 2)
    if (int64_t(batch) * heads * detail::ceil_div(max_len, split) >= min_blocks) return split;
  return 128;
}

/// One block's share of a decode: a block of packed rows of one KV head, and one part of its keys.
struct DecodeWork {
  int part;
  int row_block;
  int kv_head;
  int batch;
};

/// How the keys of one sequence are cut into parts, worked out on the device from its real length.
struct DecodeParts {
  int count;   ///< parts that have work; at least 1, so that a row without keys is written too
  int begin;   ///< first key of part 0
  int length;  ///< keys a part, a multiple of the key tile, or of the chunk
  int end;     ///< kv_len

  STROBE_HOST_DEVICE Span keys(int part) const {
    const int64_t first = begin + int64_t(part) * length;
    return {int(first < end ? first : end), int(first + length < end ? first + length : end)};
  }
};

/// What a launch has to fill.
struct Machine {
  int sm_count;
  int blocks_per_sm;  ///< of this kernel, at once
};

/// Work of a decode launch. Rows of a sequence are packed, row = token * group + head of the group,
/// and cut into blocks; the keys are cut into at most `parts` parts. The launch follows the bounds,
/// the parts that do something the real lengths.
struct DecodeSchedule {
  static constexpr int fan =
      16;  ///< partials folded at once: leaves of a node of the tree over the parts
  static constexpr int part_unit = 128;  ///< keys; parts are multiples of it

  int group = 1;
  int kv_heads = 0;
  int row_blocks = 0;
  int parts = 1;
  int partials = 0;  ///< states kept in the workspace for each row of a block
  int counters = 1;  ///< arrival counters a row group: the nodes of the tree
  /// Parts for real lengths up to part_unit * 2^i, at most `parts`: a loose bound on the length
  /// must not cut short sequences finer than a tight one would.
  int parts_by_length[24];
  detail::FastDivision by_group, by_kv_heads, by_row_blocks, by_row_groups;

  explicit DecodeSchedule(int part_count = 1) : parts(part_count) {
    for (int& wanted : parts_by_length) wanted = part_count;
  }
  /// key_bytes: of K and V together, a key. chunk: keys of Reduction::fixed, or 0. bounds.kv_splits
  /// forces the number of parts.
  DecodeSchedule(const Bounds& bounds, const Machine& machine, int block_rows, int key_bytes,
                 int chunk)
      : DecodeSchedule(parts_of(bounds, machine, block_rows, key_bytes)) {
    group = bounds.q_heads / bounds.kv_heads;
    kv_heads = bounds.kv_heads;
    row_blocks = held(row_blocks_of(bounds, block_rows));
    partials = chunk > 0   ? detail::max_of(detail::ceil_div(bounds.kv_len, chunk), 1)
               : parts > 1 ? parts + nodes_of(parts)
                           : 0;
    counters = chunk == 0 ? nodes_of(parts) : 1;
    by_group = detail::FastDivision(group);
    by_kv_heads = detail::FastDivision(kv_heads);
    by_row_blocks = detail::FastDivision(row_blocks);
    const int64_t groups = row_groups(bounds, block_rows);
    by_row_groups = detail::FastDivision(held(groups));
    if (bounds.kv_splits > 0 || parts == 1) return;
    for (int i = 0; part_unit << i < bounds.kv_len; ++i)
      parts_by_length[i] =
          detail::min_of(parts, parts_of(part_unit << i, groups, machine, key_bytes));
  }

  /// Counts beyond int belong to launches that are refused.
  static constexpr int held(int64_t count) { return count > 0x7fffffff ? 0x7fffffff : int(count); }
  static constexpr int nodes_of(int parts) {
    int nodes = 0;
    do nodes += parts = detail::ceil_div(parts, fan);
    while (parts > 1);
    return nodes;
  }
  static int64_t row_blocks_of(const Bounds& bounds, int block_rows) {
    const int64_t rows = int64_t(bounds.q_len) * (bounds.q_heads / bounds.kv_heads);
    return (rows + block_rows - 1) / block_rows;
  }
  static int64_t row_groups(const Bounds& bounds, int block_rows) {
    return detail::saturating_multiply(row_blocks_of(bounds, block_rows) * bounds.kv_heads,
                                       bounds.batch);
  }
  /// Parts for sequences of kv_len keys that take the least time by a small model of an H200
  /// (docs/tuning.md, 2026-11-30): a streaming multiprocessor reads 31 bytes a nanosecond with one
  /// block on it, 34 with more; folding up to `fan` parts costs 1.5 microseconds, a second level of
  /// the tree 2 more. No part is shorter than 128 keys, and no second wave of blocks is made.
  /// Elsewhere the numbers differ, the shape holds: fill the machine, then stop.
  static int parts_of(int kv_len, int64_t row_groups, const Machine& machine, int key_bytes) {
    const int units = detail::max_of(detail::ceil_div(kv_len, part_unit), 1);
    const int64_t at_once = int64_t(machine.blocks_per_sm) * machine.sm_count;
    int best_parts = 1;
    float best = 0;
    const auto consider = [&](int64_t wanted) {
      wanted = wanted < units ? wanted : units;
      if (wanted < 1) return;
      const int each = detail::ceil_div(units, int(wanted)), split = detail::ceil_div(units, each);
      if (split > 1 && row_groups > at_once / split) return;
      const int64_t blocks = detail::saturating_multiply(row_groups, split);
      const int64_t blocks_an_sm = (blocks + machine.sm_count - 1) / machine.sm_count;
      const float bytes = float(part_unit) * float(each) * float(key_bytes);
      const float time = float(blocks_an_sm) * bytes / (blocks_an_sm > 1 ? 34.f : 31.f) +
                         (split == 1     ? 0.f
                          : split <= fan ? 1500.f
                                         : 3500.f);
      if (best == 0 || time < 0.99f * best) {
        best = time;
        best_parts = split;
      }
    };
    consider(1);
    for (int blocks_an_sm = 1; blocks_an_sm <= machine.blocks_per_sm; ++blocks_an_sm) {
      const int64_t most = int64_t(blocks_an_sm) * machine.sm_count / row_groups;
      consider(most < fan ? most : fan);
      consider(most);
    }
    return best_parts;
  }
  /// How many blocks a multiprocessor should hold at once, of those that fit: one fewer where the
  /// last wave of blocks then leaves less of the machine idle. In units of a block's time among
  /// others; alone on a multiprocessor it takes 1.12 times its share.
  static int resident_blocks(int64_t blocks, const Machine& machine) {
    const auto time = [&](int resident) {
      const int64_t wave = int64_t(resident) * machine.sm_count, full_waves = (blocks - 1) / wave;
      const int64_t last = (blocks - full_waves * wave + machine.sm_count - 1) / machine.sm_count;
      return double(full_waves) * resident + (last > 1 ? double(last) : 1.12);
    };
    const int fit = machine.blocks_per_sm;
    return fit > 2 && time(fit - 1) < 0.98 * time(fit) ? fit - 1 : fit;
  }
  static int parts_of(const Bounds& bounds, const Machine& machine, int block_rows, int key_bytes) {
    return bounds.kv_splits > 0
               ? bounds.kv_splits
               : parts_of(bounds.kv_len, row_groups(bounds, block_rows), machine, key_bytes);
  }
  static int64_t blocks(const Bounds& bounds, const Machine& machine, int block_rows,
                        int key_bytes) {
    return detail::saturating_multiply(row_groups(bounds, block_rows),
                                       parts_of(bounds, machine, block_rows, key_bytes));
  }

  /// Blocks start in index order, the last parts first: under a loose bound these have no work and
  /// leave at once, and what follows them spreads better (measured: docs/tuning.md).
  STROBE_HOST_DEVICE DecodeWork work(int block) const {
    const int later_parts = by_row_groups(block),
              row_group = block - later_parts * int(by_row_groups.divisor);
    const int head_and_batch = by_row_blocks(row_group), batch = by_kv_heads(head_and_batch);
    return {parts - 1 - later_parts, row_group - head_and_batch * row_blocks,
            head_and_batch - batch * kv_heads, batch};
  }
  /// first_key: where the mask's walk begins, a multiple of the key tile.
  STROBE_HOST_DEVICE DecodeParts cut(int first_key, int kv_len, int block_kv, int chunk) const {
    const int unit = chunk > 0 ? chunk : detail::ceil_div(part_unit, block_kv) * block_kv;
    const int begin = chunk > 0 ? first_key / chunk * chunk : first_key;
    const int keys = detail::max_of(kv_len - begin, 0), units = detail::ceil_div(keys, unit);
    const int wanted =
        parts_by_length[keys > part_unit ? detail::floor_log2((keys - 1) / part_unit) + 1 : 0];
    const int each = detail::ceil_div(units, wanted);
    return {each > 0 ? detail::ceil_div(units, each) : 1, begin, each * unit, kv_len};
  }
};

}  // namespace STROBE_ABI
}  // namespace strobe
