// SPDX-License-Identifier: MIT
// What one warpgroup does with one key tile on wgmma: S = Q K^T, P V, the sign of Q, and scores'
// shortcuts. What is the same for one warp's rows, scores and masks, rounding and storing, is
// warp_sm80.cuh's. Layer: warp.
//
// C, a kernel's compile-time numbers, has T, head_dim, block_q, block_kv, head_panels, key_tiles
// and value_tiles. Tiles lie in shared memory as tile/load_tma.cuh says. Everything here is called
// by whole warpgroups.
#pragma once

#include "ptx/barrier.cuh"
#include "ptx/wgmma.cuh"
#include "tile/load_tma.cuh"
#include "warp_sm80.cuh"

namespace strobe {
inline namespace STROBE_ABI {
namespace warp {

/// Q of the warpgroup's 64 rows times the sign of a scale that is not positive, in shared memory.
/// `barrier` is a named barrier of its own.
template <class C>
STROBE_DEVICE void apply_sign(uint4* rows, float scale, int thread, int barrier) {
  const uint32_t keep = scale < 0.f ? 0xffffffffu : 0u, flip = scale < 0.f ? 0x80008000u : 0u;
  for (int i = thread; i < C::head_panels * 64 * 8; i += 128) {
    uint4& chunk = rows[i / 512 * C::block_q * 8 + i % 512];
    chunk = make_uint4((chunk.x & keep) ^ flip, (chunk.y & keep) ^ flip, (chunk.z & keep) ^ flip,
                       (chunk.w & keep) ^ flip);
  }
  ptx::fence_proxy_async();
  ptx::barrier_sync(barrier, 128);
}

/// S = Q K^T of the warpgroup's 64 rows: issued, not waited for.
template <class C>
STROBE_DEVICE void issue_qk(float (&s)[C::key_tiles][4], uint32_t q_smem, uint32_t k_smem) {
  const uint64_t q = ptx::wgmma_operand(q_smem), k = ptx::wgmma_operand(k_smem);
  ptx::wgmma_fence();
  STROBE_UNROLL
  for (int d = 0; d < C::head_dim / 16; ++d) {
    const uint32_t in_panel = uint32_t(d % 4 * 32);
    ptx::wgmma<typename C::T, false>(
        s, ptx::wgmma_advance(q, uint32_t(d / 4 * C::block_q * 128) + in_panel),
        ptx::wgmma_advance(k, uint32_t(d / 4 * C::block_kv * 128) + in_panel), d > 0);
  }
  ptx::wgmma_commit();
}
/// O += P V: issued, not waited for.
template <class C>
STROBE_DEVICE void issue_pv(float (&o)[C::value_tiles][4], const uint32_t (&p)[C::key_tiles / 2][4],
                            uint32_t v_smem) {
  const uint64_t v = ptx::wgmma_operand(v_smem, C::block_kv * 128);
  ptx::wgmma_fence();
  STROBE_UNROLL
  for (int k = 0; k < C::key_tiles / 2; ++k)
    ptx::wgmma<typename C::T, true>(o, p[k], ptx::wgmma_advance(v, uint32_t(k * 2048)), true);
  ptx::wgmma_commit();
}

/// A score's shortcut (score.hpp) for the two rows that a lane has of one key tile; nothing where
/// the score has none.
template <class C, class Score, bool = detail::ShortcutOf<Score>::exists>
struct ScoreShortcut {
  static constexpr bool exists = false, limited = false;
  template <class Mask, class Position>
  STROBE_DEVICE void prepare(const Mask&, const Score&, const Block&, const TileStep&, float, int,
                             Position, const float (&)[2]) {}
  STROBE_DEVICE bool is_good_for(const float (&)[C::key_tiles][4]) const { return false; }
  STROBE_DEVICE float logit_log2(float product, int, int, float) const { return product; }
};
template <class C, class Score>
struct ScoreShortcut<C, Score, true> {
  using Shortcut = typename detail::ShortcutOf<Score>::type;
  static constexpr bool exists = true, limited = Shortcut::limited;
  Shortcut of_row[2];
  float most[2];  ///< up to which products logits stay within what was asked for

  /// Before the products are there. limit_log2: what logits times log2_e may be in each row.
  template <class Mask, class Position>
  STROBE_DEVICE void prepare(const Mask& mask, const Score& score, const Block& block,
                             const TileStep& step, float scale, int lane, Position position,
                             const float (&limit_log2)[2]) {
    STROBE_UNROLL
    for (int h = 0; h < 2; ++h) {
      const int q = position(h);
      Span keys{step.begin + tile::lane_coordinates(lane).column, step.begin + C::block_kv};
      if (step.partial) {
        // Keys that a row cannot see are none of its business: often those behind itself.
        const int end = detail::min_of(keys.end, block.kv_len);
        Block row = block;
        row.q = {q, q + 1};
        if (q + 1 >= end || detail::mask_tile(mask.bind(row), Span{q + 1, end}) == Tile::skip)
          keys.end = detail::max_of(detail::min_of(q + 1, end), keys.begin + 1);
      }
      of_row[h] = score.shortcut(q, keys, scale);
      most[h] = of_row[h].most(limit_log2[h]);
    }
  }
  /// Called by whole warps, with the same result.
  STROBE_DEVICE bool is_good_for(const float (&s)[C::key_tiles][4]) const {
    float limit = 0.f;
    if constexpr (limited) limit = of_row[0].limit();
    return all_within<limited>(s, most, limit);
  }
  /// log2_e * (logit of element e of accumulator tile n) + more.
  STROBE_DEVICE float logit_log2(float product, int n, int e, float more) const {
    return of_row[e / 2](product, 8 * n + e % 2, more);
  }
};

}  // namespace warp
}  // namespace STROBE_ABI
}  // namespace strobe
