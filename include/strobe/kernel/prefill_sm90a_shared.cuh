// SPDX-License-Identifier: MIT
// What the producer and the consumers of prefill_sm90a.cuh share: the kernel's parameters, its
// compile-time numbers, and what lies where in a block's shared memory. Layer: kernel, a part of
// that one.
//
// Barriers (mbarriers in shared memory, one pair a stage): `full` is completed by the bytes of TMA
// and, where scores have ramps, when the producer has said whether there is one; `empty` by one
// arrival of each consumer warp, which has waited for its own products. What the producer tells the
// consumers, which tile, and whether it is the last, travels in shared memory before the same
// `full`; whichever lane has read it is the one that arrives at `empty`: lane 0 for K and V, all of
// them for Q.
#pragma once

#include "../attention.hpp"
#include "../ptx/shared.cuh"
#include "../schedule.hpp"
#include "../tile/load_tma.cuh"

namespace strobe {
inline namespace STROBE_ABI {
namespace kernel {

/// What the kernel is given besides the caller's own words.
template <class Attention>
struct PrefillSm90aParams {
  tile::TileMaps q, k, v;
  Attention attention;
  PersistentSchedule schedule;
  uint32_t* counter;  ///< query tiles handed out so far, 0 before and after a launch; may be null
  float scale;
};

/// Compile-time numbers of one instance; Size is sm90a or sm90a_small. Shared memory:
/// PrefillControl, Q, the stages of K, those of V. Rows lie in panels of 64 elements (128 bytes),
/// each panel one box of TMA.
template <class Attention, Family Size = Family::sm90a>
struct PrefillSm90a {
  using T = typename Attention::query_type;
  static constexpr int head_dim = Attention::compiled_head_dim;
  static constexpr int value_dim = Attention::compiled_value_dim;
  static constexpr PrefillTile tile_shape =
      Attention::policy_type::prefill(Size, head_dim, value_dim);
  static constexpr int block_q = tile_shape.block_q;
  static constexpr int block_kv = tile_shape.block_kv;
  static constexpr int consumers = tile_shape.warps / 4;  ///< warpgroups
  static constexpr int threads = 128 * (1 + consumers);
  static constexpr int row_tiles = 1;
  static constexpr int key_tiles = block_kv / 8;
  static constexpr int value_tiles = value_dim / 8;
  static constexpr int head_panels = (head_dim + 63) / 64;
  static constexpr int value_panels = (value_dim + 63) / 64;
  static constexpr int q_bytes = block_q * 128 * head_panels;
  static constexpr int k_bytes = block_kv * 128 * head_panels;
  static constexpr int v_bytes = block_kv * 128 * value_panels;
  /// Whether tensor cores add what the score does (score.hpp).
  static constexpr bool ramps =
      detail::has_ramp<detail::BoundOf<typename Attention::score_type>>(0);
  static constexpr int control_bytes = ramps ? (1024 + 16 * block_kv + 1023) / 1024 * 1024 : 1024;
  /// For Q and the stages: of 228 kB a multiprocessor CUDA keeps one a block.
  static constexpr int ring_bytes = 228 * 1024 / tile_shape.blocks_per_sm - 1024 - control_bytes;
  /// With two, the next query tile begins before this one's output is stored.
  static constexpr int q_buffers = ring_bytes >= 2 * q_bytes + 2 * k_bytes + 3 * v_bytes ? 2 : 1;
  /// Whether the last P V of a query tile is waited for behind the next one's first product; with
  /// several consumers one of them may have stages to let go of before.
  static constexpr bool ends_under_next = q_buffers == 2 && consumers == 1;
  /// Two stages of K do, the third is V's: it is asked for later (docs/tuning.md).
  static constexpr int stage_bytes = ring_bytes - q_buffers * q_bytes;
  static constexpr int k_stages = detail::min_of(stage_bytes / (k_bytes + v_bytes), 4);
  static constexpr int v_stages = detail::min_of((stage_bytes - k_stages * k_bytes) / v_bytes, 4);
  /// Whether the kernel does what the policy asks for; otherwise the portable one does, and small
  /// tiles that are no smaller are not compiled twice.
  static constexpr bool exists =
      Attention::policy_type::reduction.chunk == 0 &&
      Attention::policy_type::precision == Precision::standard &&
      detail::is_same<typename Attention::kv_type, Strided<T>> && tile_shape.warps % 4 == 0 &&
      consumers >= 1 && consumers <= 3 && block_q == 64 * consumers && block_kv % 16 == 0 &&
      block_kv >= 16 && block_kv <= 256 && k_stages >= 2 && v_stages >= 2 &&
      (tile_shape.blocks_per_sm == 1 || (tile_shape.blocks_per_sm == 2 && consumers == 1)) &&
      (Size == Family::sm90a ||
       block_q < Attention::policy_type::prefill(Family::sm90a, head_dim, value_dim).block_q);
  static constexpr int shared_bytes =
      control_bytes + q_buffers * q_bytes + k_stages * k_bytes + v_stages * v_bytes;
  /// Registers a thread once warpgroups have handed them over: over all warpgroups of the blocks on
  /// a multiprocessor they come to 512 at most, and the producer needs few.
  static constexpr int producer_registers = consumers == 3 ? 32 : 40;
  static constexpr int consumer_registers = consumers == 3 ? 160 : consumers == 2 ? 232 : 216;
  /// How far a base-2 logit may exceed m before O is rescaled: P is 2^8 at most, far inside fp16's
  /// range.
  static constexpr float slack_log2 = 8.f;
};

/// What the producer says of a query tile.
struct WorkItem {
  PrefillWork work;
  Sequence sequence;
};
/// What it says of a key tile.
struct WorkStep {
  enum Flag : int {
    partial = 1,
    last = 2,  ///< of its query tile
    end = 4    ///< no more query tiles
  };
  int begin;
  int flags;
  STROBE_DEVICE bool is(Flag flag) const { return (flags & flag) != 0; }
  /// Which of PrefillControl's ramps is in a consumer's products: three bits of the flags each.
  STROBE_DEVICE int ramp(int consumer) const { return flags >> ramp_bit(consumer) & 7; }
  STROBE_DEVICE static int ramp_bit(int consumer) { return 3 + 3 * consumer; }
  static constexpr int each_consumer_ramp = (1 + 8 + 64) << 3;
};

/// The query rows of one head that a block has at a time, as masks and scores see them.
STROBE_DEVICE Block block_of(const WorkItem& item, int block_q) {
  const int first_row = item.work.q_tile * block_q, q_len = item.sequence.q_len,
            kv_len = item.sequence.kv_len, first_position = first_row + kv_len - q_len,
            rows = detail::min_of(q_len - first_row, block_q);
  return {item.work.batch,
          item.work.q_head,
          item.work.kv_head,
          {first_position, first_position + rows},
          q_len,
          kv_len};
}

/// Those of them that are one consumer's.
STROBE_DEVICE Span rows_of_consumer(Span rows, int consumer) {
  const int begin = detail::min_of(rows.begin + 64 * consumer, rows.end);
  return {begin, detail::min_of(begin + 64, rows.end)};
}

/// What producer and consumers tell each other, at the start of shared memory.
template <class C>
struct PrefillControl {
  uint64_t q_full[C::q_buffers], q_empty[C::q_buffers];
  uint64_t k_full[C::k_stages], k_empty[C::k_stages], v_full[C::v_stages], v_empty[C::v_stages];
  WorkStep step[C::k_stages];  ///< of the K stage
  WorkItem item[3];  ///< in turn: one is read until its output is stored, with the next begun
  /// Left operands of ramps: of none, and two for each buffer of Q. The right operand.
  alignas(128) uint4 ramp[C::ramps ? 1 + 2 * C::q_buffers : 1][8];
  uint4 ramp_keys[C::ramps ? C::block_kv : 1];
};

/// Where things lie in a block's shared memory.
template <class C>
struct PrefillShared {
  using Control = PrefillControl<C>;
  Control& control;
  unsigned char* q;
  uint32_t q_full, q_empty, k_full, k_empty, v_full, v_empty;  ///< addresses; stages 8 bytes apart
  uint32_t ramp_smem, ramp_keys_smem;
  uint32_t q_smem, k_smem, v_smem;

  STROBE_DEVICE explicit PrefillShared(unsigned char* shared)
      : control(*reinterpret_cast<Control*>(shared)),
        q(shared + C::control_bytes),
        q_full(ptx::shared_address(control.q_full)),
        q_empty(ptx::shared_address(control.q_empty)),
        k_full(ptx::shared_address(control.k_full)),
        k_empty(ptx::shared_address(control.k_empty)),
        v_full(ptx::shared_address(control.v_full)),
        v_empty(ptx::shared_address(control.v_empty)),
        ramp_smem(ptx::shared_address(control.ramp)),
        ramp_keys_smem(ptx::shared_address(control.ramp_keys)),
        q_smem(ptx::shared_address(q)),
        k_smem(q_smem + C::q_buffers * C::q_bytes),
        v_smem(k_smem + C::k_stages * C::k_bytes) {
    static_assert(sizeof(Control) <= C::control_bytes, "");
  }
};

}  // namespace kernel
}  // namespace STROBE_ABI
}  // namespace strobe
