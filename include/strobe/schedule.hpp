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
    const int64_t of_one = int64_t(detail::ceil_div(bounds.q_len, block_q)) * bounds.q_heads;
    const int64_t most = 0x7fffffffffffffff;
    return bounds.batch > 0 && of_one > most / bounds.batch ? most : of_one * bounds.batch;
  }
  STROBE_HOST_DEVICE PrefillWork work(int block) const {
    const int head_and_batch = by_q_tiles(block);
    const int batch = by_q_heads(head_and_batch);
    const int q_head = head_and_batch - batch * q_heads;
    return {q_tiles - 1 - (block - head_and_batch * q_tiles), q_head, by_group(q_head), batch};
  }
};

}  // namespace STROBE_ABI
}  // namespace strobe
