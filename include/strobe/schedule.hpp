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
  detail::FastDivision by_group, by_kv_heads, by_row_blocks, by_parts;

  DecodeSchedule() = default;
  /// resident: blocks the device holds at once. chunk: keys of Reduction::fixed, or 0.
  /// bounds.kv_splits forces the number of parts.
  DecodeSchedule(const Bounds& bounds, int resident, int block_rows, int chunk)
      : group(bounds.q_heads / bounds.kv_heads),
        kv_heads(bounds.kv_heads),
        row_blocks(int(row_blocks_of(bounds, block_rows))),
        parts(parts_of(bounds, resident, block_rows)),
        partials(chunk > 0   ? detail::max_of(detail::ceil_div(bounds.kv_len, chunk), 1)
                 : parts > 1 ? parts + nodes_of(parts)
                             : 0),
        counters(chunk == 0 ? nodes_of(parts) : 1),
        by_group(group),
        by_kv_heads(kv_heads),
        by_row_blocks(row_blocks),
        by_parts(parts) {}

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
  /// Blocks come in waves of `resident`. The fewest parts whose last wave is nearly as full as any
  /// choice's (within a tenth, as FlashAttention-2 chooses its splits), none shorter than 128 keys;
  /// one part once there are four waves of whole rows.
  static int parts_of(const Bounds& bounds, int resident, int block_rows) {
    if (bounds.kv_splits > 0) return bounds.kv_splits;
    const int64_t groups = row_groups(bounds, block_rows);
    const int64_t useful = detail::ceil_div(bounds.kv_len, 128);
    if (groups >= 4 * int64_t(resident)) return 1;
    const auto filled = [&](int64_t parts) {
      const int64_t blocks = groups * parts, waves = (blocks + resident - 1) / resident;
      return double(blocks) / double(waves * resident);
    };
    const int64_t most = 4 * int64_t(resident) / groups;
    const int64_t limit = most < useful ? most : useful;
    double best = 0;
    for (int64_t parts = 1; parts <= limit; ++parts)
      best = filled(parts) > best ? filled(parts) : best;
    for (int64_t parts = 1; parts <= limit; ++parts)
      if (filled(parts) >= 0.9 * best) return int(parts);
    return 1;
  }
  static int64_t blocks(const Bounds& bounds, int resident, int block_rows) {
    return detail::saturating_multiply(row_groups(bounds, block_rows),
                                       parts_of(bounds, resident, block_rows));
  }

  STROBE_HOST_DEVICE DecodeWork work(int block) const {
    const int row_group = by_parts(block), head_and_batch = by_row_blocks(row_group),
              batch = by_kv_heads(head_and_batch);
    return {block - row_group * parts, row_group - head_and_batch * row_blocks,
            head_and_batch - batch * kv_heads, batch};
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
