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

/// Work of a decode launch. Rows of a sequence are packed, row = token * group + head of the group,
/// and cut into blocks; the keys are cut into at most `parts` parts. The launch follows the bounds,
/// the parts that do something the real lengths.
struct DecodeSchedule {
  static constexpr int fan =
      16;  ///< partials folded at once: leaves of a node of the tree over the parts

  int group = 1;
  int kv_heads = 0;
  int row_blocks = 0;
  int parts = 1;
  int partials = 0;  ///< states kept in the workspace for each row of a block
  int counters = 1;  ///< arrival counters a row group: the nodes of the tree
  detail::FastDivision by_group, by_kv_heads, by_row_blocks, by_row_groups;

  DecodeSchedule() = default;
  /// key_bytes: of K and V together, a key. pages: found through a table. chunk: keys of
  /// Reduction::fixed, or 0. bounds.kv_splits forces the number of parts.
  DecodeSchedule(const Bounds& bounds, int sm_count, int block_rows, int key_bytes, int chunk,
                 bool pages = false)
      : group(bounds.q_heads / bounds.kv_heads),
        kv_heads(bounds.kv_heads),
        row_blocks(held(row_blocks_of(bounds, block_rows))),
        parts(parts_of(bounds, sm_count, block_rows, key_bytes, pages)),
        partials(chunk > 0   ? detail::max_of(detail::ceil_div(bounds.kv_len, chunk), 1)
                 : parts > 1 ? parts + nodes_of(parts)
                             : 0),
        counters(chunk == 0 ? nodes_of(parts) : 1),
        by_group(group),
        by_kv_heads(kv_heads),
        by_row_blocks(row_blocks),
        by_row_groups(held(row_groups(bounds, block_rows))) {}

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
  /// Parts that take the least time by a small model of an H200 (docs/tuning.md, 2026-11-30): a
  /// streaming multiprocessor reads 31 bytes a nanosecond with one block on it (25 through a page
  /// table), 34 with more; folding up to `fan` parts costs 1.5 microseconds, a second level of the
  /// tree 2 more. No part is shorter than 128 keys. Elsewhere the numbers differ, the shape holds:
  /// fill the machine, then stop.
  static int parts_of(const Bounds& bounds, int sm_count, int block_rows, int key_bytes,
                      bool pages = false) {
    if (bounds.kv_splits > 0) return bounds.kv_splits;
    const int64_t groups = row_groups(bounds, block_rows);
    const int units = detail::max_of(detail::ceil_div(bounds.kv_len, 128), 1);
    int best_parts = 1;
    double best = 0;
    const auto consider = [&](int64_t wanted) {
      if (wanted < 1 || wanted > units) return;
      const int each = detail::ceil_div(units, int(wanted)), parts = detail::ceil_div(units, each);
      const int64_t blocks = detail::saturating_multiply(groups, parts);
      if (parts > 1 && blocks > 3 * int64_t(sm_count)) return;  // rows alone fill the machine
      const int64_t blocks_an_sm = (blocks + sm_count - 1) / sm_count;
      const double bytes = 128.0 * each * key_bytes;
      const double time = double(blocks_an_sm) * bytes /
                              (blocks_an_sm > 1 ? 34.0
                               : pages          ? 25.0
                                                : 31.0) +
                          (parts == 1     ? 0.0
                           : parts <= fan ? 1500.0
                                          : 3500.0);
      if (best == 0 || time < 0.99 * best) {
        best = time;
        best_parts = parts;
      }
    };
    for (int64_t parts = 1; parts <= 2 * int64_t(fan); ++parts) consider(parts);
    for (int blocks_an_sm = 1; blocks_an_sm <= 3; ++blocks_an_sm)
      consider(int64_t(blocks_an_sm) * sm_count / groups);
    return best_parts;
  }
  static int64_t blocks(const Bounds& bounds, int sm_count, int block_rows, int key_bytes,
                        bool pages = false) {
    return detail::saturating_multiply(row_groups(bounds, block_rows),
                                       parts_of(bounds, sm_count, block_rows, key_bytes, pages));
  }

  /// Parts are numbered last: where a bound is loose and only the first parts have work, these
  /// start first.
  STROBE_HOST_DEVICE DecodeWork work(int block) const {
    const int part = by_row_groups(block), row_group = block - part * int(by_row_groups.divisor);
    const int head_and_batch = by_row_blocks(row_group), batch = by_kv_heads(head_and_batch);
    return {part, row_group - head_and_batch * row_blocks, head_and_batch - batch * kv_heads,
            batch};
  }
  /// first_key: where the mask's walk begins, a multiple of the key tile.
  STROBE_HOST_DEVICE DecodeParts cut(int first_key, int kv_len, int block_kv, int chunk) const {
    const int unit = chunk > 0 ? chunk : detail::ceil_div(128, block_kv) * block_kv;
    const int begin = chunk > 0 ? first_key / chunk * chunk : first_key;
    const int units = detail::ceil_div(detail::max_of(kv_len - begin, 0), unit);
    const int each = detail::ceil_div(units, parts);
    return {each > 0 ? detail::ceil_div(units, each) : 1, begin, each * unit, kv_len};
  }
};

}  // namespace STROBE_ABI
}  // namespace strobe
