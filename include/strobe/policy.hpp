// SPDX-License-Identifier: MIT
/// @file
/// Policy: tile sizes, how sums are reduced, how P is rounded. Layer: noun, host, constexpr, no
/// kernels. A policy is a type with constexpr functions; users replace it by their own, the tuning
/// benchmarks do just that. It is the last parameter of Attention, so that checks, workspace size
/// and launch can never disagree about it.
#pragma once

#include "detail/integers.hpp"

namespace strobe {
inline namespace STROBE_ABI {

/// The kernel families. A tile is chosen per family at compile time.
enum class Family {
  sm80,  ///< mma.sync and cp.async: compute capability 8.0 and newer, within 99 kB of shared memory
         ///< a block
  sm90a,        ///< wgmma and TMA: compute capability 9.0 only
  sm90a_small,  ///< the same in smaller tiles, several blocks a multiprocessor, for launches that
                ///< would not fill the machine; a policy may give both families one tile
};

/// Tile of a prefill kernel. `block_q` query rows are shared by `warps` warps: 16 or 32 rows each
/// (sm80), or 64 rows a warpgroup of four warps (sm90a, which has a producer warpgroup besides).
struct PrefillTile {
  int block_q = 128;
  int block_kv = 64;
  int warps = 4;
  int blocks_per_sm = 2;  ///< what registers, and on 9.0 shared memory, are limited for
};

/// Tile of a decode kernel: key tiles of `block_kv`, and how many of them each group of warps keeps
/// in shared memory, K and V counted apart.
struct DecodeTile {
  int block_kv = 32;
  int slots = 3;
};

/// In what order the keys of a row are summed up.
struct Reduction {
  /// Keys a chunk: 0 is `fast`, where the sum follows tiles, splits and schedule.
  int chunk = 0;

  static constexpr Reduction fast() { return {0}; }
  /// Every `keys` keys, counted from key 0 of the sequence, are summed on their own and the chunks
  /// then folded in order. A row's bits then depend on that row alone: not on its batch, the split,
  /// the page size or the schedule, and decode equals prefill. `keys` is a multiple of the key
  /// tile, 32.
  static constexpr Reduction fixed(int keys) { return {keys}; }
};

/// How P enters the second product.
enum class Precision {
  standard,  ///< rounded once to the element type, as FlashAttention does
  split_p,   ///< as the sum of two terms of the element type: about fp32 accuracy for twice the
             ///< second product's work
};

/// What Attention takes where nothing is said. Your own policy inherits it and replaces functions.
struct DefaultPolicy {
  static constexpr Precision precision = Precision::standard;
  static constexpr Reduction reduction = Reduction::fast();

  /// Tiles by compiled widths. Why these: docs/tuning.md (H200, 2026-11-30). 32 rows a warp,
  /// because each K and V fragment read from shared memory then serves two products; 128 keys where
  /// registers allow, because what a tile costs once (barrier, maximum, shuffles) is then paid half
  /// as often.
  static constexpr PrefillTile prefill(Family family, int head_dim, int value_dim) {
    if (family != Family::sm80) {
      if (head_dim <= 64 && value_dim <= 64)
        return family == Family::sm90a ? PrefillTile{192, 128, 12, 1} : PrefillTile{64, 128, 4, 2};
      if (head_dim <= 192 && value_dim <= 128) return {128, 128, 8, 1};
      if (head_dim <= 192 && value_dim <= 192) return {128, 112, 8, 1};
      return {128, 64, 8, 1};
    }
    if (head_dim <= 64 && value_dim <= 64) return {128, 128, 4, 2};
    if (head_dim <= 128 && value_dim <= 128) return {128, 64, 4, 2};
    return {64, 32, 4, 2};  // O alone takes 128 registers at value_dim 256, Q 32 kB at head_dim 256
  }

  /// Decode waits for memory: 64 kB a block on their way, three blocks an SM, in tiles as large as
  /// fit, because a warp pays for its tiles by latency, one instruction after the other.
  static constexpr DecodeTile decode(Family, int head_dim, int value_dim) {
    const int width = head_dim > value_dim ? head_dim : value_dim;
    if (width <= 64) return {64, 2};
    if (width <= 128) return {32, 2};
    return {16, 2};
  }
};

/// Batch-invariant results (Reduction::fixed). A chunk needs an accumulator of its own, so rows and
/// keys a tile are fewer, and prefill and decode have the same key tile.
template <int Chunk = 256>
struct FixedPolicy : DefaultPolicy {
  static constexpr Reduction reduction = Reduction::fixed(Chunk);
  static constexpr int key_tile(int head_dim, int value_dim) {
    return head_dim <= 128 && value_dim <= 128 ? 32 : 16;
  }
  static constexpr PrefillTile prefill(Family, int head_dim, int value_dim) {
    return {64, key_tile(head_dim, value_dim), 4, 2};
  }
  static constexpr DecodeTile decode(Family, int head_dim, int value_dim) {
    return {key_tile(head_dim, value_dim), 2};
  }
};

/// The same tiles with P as two terms.
struct SplitPPolicy : DefaultPolicy {
  static constexpr Precision precision = Precision::split_p;
};

}  // namespace STROBE_ABI
}  // namespace strobe
