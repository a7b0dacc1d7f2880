// SPDX-License-Identifier: MIT
// Prefill with mma.sync and cp.async, for compute capability 8.0 and newer. Layer: kernel. Sources:
// FlashAttention-2 (Dao, 2023), section 3; the instruction layouts are in tile/fragment.cuh.
//
// One block owns block_q query rows of one head and walks the key tiles its mask leaves. Each warp
// owns 16 or 32 of the rows and never talks to the other warps except to share K and V through
// shared memory:
//
//   global --cp.async--> shared Q, K, V (swizzled) --ldmatrix--> fragments --mma--> S --softmax-->
//   P --mma--> O --> global
//
// K and V have two buffers: while tile j is multiplied, tile j + 1 is on its way; one barrier a
// tile separates the two.
#pragma once

#include "../attention.hpp"
#include "../ptx/shared.cuh"
#include "../schedule.hpp"
#include "../state.cuh"
#include "../tile/load.cuh"
#include "../warp_sm80.cuh"

namespace strobe {
inline namespace STROBE_ABI {
namespace kernel {

/// What the kernel is given besides the caller's own words.
template <class Attention>
struct PrefillParams {
  Attention attention;
  PrefillSchedule schedule;
  float scale;
};

/// Compile-time numbers of one instance. Shared memory: Q, then two buffers of K, then two of V.
template <class Attention>
struct PrefillSm80 {
  using T = typename Attention::query_type;
  static constexpr int head_dim = Attention::compiled_head_dim;
  static constexpr int value_dim = Attention::compiled_value_dim;
  static constexpr PrefillTile tile =
      Attention::policy_type::prefill(Family::sm80, head_dim, value_dim);
  static constexpr int chunk = Attention::policy_type::reduction.chunk;
  static constexpr int block_q = tile.block_q;
  static constexpr int block_kv = tile.block_kv;
  static constexpr int threads = tile.warps * 32;
  static constexpr int warp_rows = tile.warps > 0 ? block_q / tile.warps : 0;
  static constexpr int row_tiles = warp_rows / 16;
  static constexpr int key_tiles = block_kv / 8;
  static constexpr int value_tiles = value_dim / 8;
  static constexpr int q_bytes = block_q * head_dim * 2;
  static constexpr int k_bytes = block_kv * head_dim * 2;
  static constexpr int v_bytes = block_kv * value_dim * 2;
  static constexpr int shared_bytes = q_bytes + 2 * k_bytes + 2 * v_bytes;

  static_assert(warp_rows == 16 || warp_rows == 32,
                "PrefillTile: block_q is 16 or 32 query rows for each of its warps");
  static_assert(block_kv < 1 || chunk % block_kv == 0,
                "Reduction::fixed(keys): keys is a multiple of the key tile");
  static_assert(block_kv >= 16 && block_kv % 16 == 0,
                "PrefillTile: block_kv, keys a tile, is a multiple of 16");
  static_assert(shared_bytes <= 99 * 1024,
                "PrefillTile: Q, two K and two V tiles fit in the 99 kB of shared memory that a "
                "block has on sm_86, sm_89 and sm_120");
};

/// Grid: schedule.blocks() blocks along x. Dynamic shared memory: PrefillSm80::shared_bytes.
template <class Attention>
static __global__ void __launch_bounds__(PrefillSm80<Attention>::threads,
                                         PrefillSm80<Attention>::tile.blocks_per_sm)
    prefill_sm80(const __grid_constant__ PrefillParams<Attention> params) {
#if STROBE_HAS_SM80
  using C = PrefillSm80<Attention>;
  constexpr bool scores = !detail::is_same<typename Attention::score_type, NoScore>;

  const Attention& a = params.attention;
  const PrefillWork work = params.schedule.work(int(blockIdx.x));
  const Sequence sequence = resolve_sequence(a.bounds, a.lengths, work.batch);
  const int first_row = work.q_tile * C::block_q;
  if (first_row >= sequence.q_len) return;
  const int rows = detail::min_of(sequence.q_len - first_row, C::block_q);
  const int first_position = first_row + sequence.kv_len - sequence.q_len;
  const Block block{work.batch,     work.q_head,
                    work.kv_head,   {first_position, first_position + rows},
                    sequence.q_len, sequence.kv_len};
  const auto mask = a.mask.bind(block);
  const auto score = a.score.bind(block);

  const int thread = int(threadIdx.x), lane = thread % 32, warp_row = thread / 32 * C::warp_rows;
  STROBE_DYNAMIC_SHARED(shared);
  const uint32_t q_smem = ptx::shared_address(shared);
  const uint32_t k_smem = q_smem + C::q_bytes, v_smem = k_smem + 2 * C::k_bytes;

  float o[C::row_tiles][C::value_tiles][4] = {};
  OnlineSoftmax<C::row_tiles> softmax;
  // Reduction::fixed: the chunks folded so far; o and softmax then hold the current chunk alone.
  [[maybe_unused]] float total_o[C::chunk > 0 ? C::row_tiles : 1][C::value_tiles][4] = {};
  [[maybe_unused]] OnlineSoftmax<C::row_tiles> total;
  // Without a score the scale is folded into the exponential, which needs it positive: Q takes the
  // sign, or the zero.
  const float scale_log2 =
      scores ? log2_e : (params.scale == 0.f ? 1.f : fabsf(params.scale)) * log2_e;

  TileStep step = next_tile(mask, 0, sequence.kv_len, C::block_kv);
  if (step.valid) {
    const auto kv = a.kv.bind(sequence, work.kv_head);
    const tile::AsyncLoader<C::block_kv, C::head_dim, C::threads> load_k(thread, a.head_dim);
    const tile::AsyncLoader<C::block_kv, C::value_dim, C::threads> load_v(thread, a.value_dim);
    const auto load_kv = [&](int begin, int buffer) {
      const int keys = sequence.kv_len - begin;
      load_k(k_smem + buffer * C::k_bytes, keys,
             [&](int r) { return kv.k_row(begin + r, kv.page(begin + r)); });
      load_v(v_smem + buffer * C::v_bytes, keys,
             [&](int r) { return kv.v_row(begin + r, kv.page(begin + r)); });
    };
    const tile::AsyncLoader<C::block_q, C::head_dim, C::threads> load_q(thread, a.head_dim);
    load_q(q_smem, rows, [&](int r) {
      return a.q.row(sequence.batch, sequence.q_begin + first_row + r, work.q_head);
    });
    load_kv(step.begin, 0);
    ptx::cp_async_commit();
    if (!scores && params.scale <= 0.f) {
      ptx::cp_async_wait<0>();
      warp::apply_sign<C>(shared, params.scale, thread);
    }

    // Rows past the end stand in for the last one, so that masks and scores only see real
    // positions.
    constexpr bool looks_up = detail::looks_up<typename Attention::mask_type>(0);
    const auto masked = warp::masked_rows<2 * C::row_tiles, looks_up>(mask, [&](int row) {
      const int r = warp_row + 16 * (row / 2) + tile::lane_coordinates(lane).row + 8 * (row % 2);
      return detail::min_of(block.q.begin + r, block.q.end - 1);
    });
    const uint32_t q_cursor = tile::a_cursor<C::head_dim>(q_smem, warp_row, lane);
    const uint32_t k_cursor = tile::k_cursor<C::head_dim>(k_smem, lane);
    const uint32_t v_cursor = tile::v_cursor<C::value_dim>(v_smem, lane);

    for (int buffer = 0; step.valid; buffer ^= 1) {
      const TileStep next = next_tile(mask, step.begin + C::block_kv, sequence.kv_len, C::block_kv);
      ptx::cp_async_wait<0>();
      __syncthreads();  // tile `step` is whole, and nobody still reads the other buffer
      if (next.valid) load_kv(next.begin, buffer ^ 1);
      ptx::cp_async_commit();

      float s[C::row_tiles][C::key_tiles][4] = {};
      warp::multiply_qk<C>(s, q_cursor, k_cursor + buffer * C::k_bytes);
      warp::shape_logits<C, scores>(s, step, sequence.kv_len, params.scale, lane, masked,
                                    [&](int) { return &score; });
      float shrink[C::row_tiles][2];
      if (softmax.raise(s, scale_log2, shrink)) {
        STROBE_UNROLL
        for (int t = 0; t < C::row_tiles; ++t) warp::scale_rows<C::value_tiles>(o[t], shrink[t]);
      }
      warp::multiply_pv<C, Attention::policy_type::precision>(o, s, softmax, scale_log2,
                                                              v_cursor + buffer * C::v_bytes);
      if constexpr (C::chunk > 0) {
        if (!next.valid || next.begin / C::chunk != step.begin / C::chunk) {
          softmax.finish();
          fold_tiles(total_o, total, o, softmax);
          warp::clear<C>(o);
          softmax = OnlineSoftmax<C::row_tiles>();
        }
      }
      step = next;
    }
  }

  if constexpr (C::chunk == 0) {
    softmax.finish();
  } else {
    softmax = total;
    warp::copy<C>(o, total_o);
  }
  STROBE_UNROLL
  for (int t = 0; t < C::row_tiles; ++t)
    warp::store_output(a, o[t], softmax, t, work, sequence, first_row + warp_row + 16 * t, lane);
#else
  __trap();  // never launched: the host entry looks at what was compiled before it launches
#endif
}

}  // namespace kernel
}  // namespace STROBE_ABI
}  // namespace strobe
