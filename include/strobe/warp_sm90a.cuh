// SPDX-License-Identifier: MIT
// What one warpgroup does with one key tile on wgmma: S = Q K^T, P V, the sign of Q, and scores'
// ramps and shortcuts. What is the same for one warp's rows, scores and masks, rounding and
// storing, is warp_sm80.cuh's. Layer: warp.
//
// C, a kernel's compile-time numbers, has T, head_dim, block_q, block_kv, head_panels, key_tiles,
// value_tiles and ramps. Tiles lie in shared memory as tile/load_tma.cuh says. Everything here is
// called by whole warpgroups, but for what says otherwise.
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

/// A ramp (score.hpp) that tensor cores add to S: of one key tile, so that products have
/// per_key / scale * i more for key i, as one more step of 16 summed indices (adding biases in this
/// way: Wu et al., "FlashBias: Fast Computation of Attention with Bias"). A row of the left operand
/// has half of per_key / scale in three parts that add up to it, and i stands in three columns of
/// the right one; both are 8 summed indices wide and count twice.
template <class T>
struct Ramp {
  uint4 row;
  bool exists;

  /// Not where scale is not positive, or where fp16, which reaches 65504, does not hold it.
  STROBE_DEVICE Ramp(float per_key, float scale) {
    const float half = per_key * (0.5f / scale);
    exists = scale > 0.f && fabsf(half) < 3e4f;
    float rest = half - tile::unpack2<T>(ptx::pack2<T>(half, 0.f)).x;
    row.x = ptx::pack2<T>(half, rest);
    rest -= tile::unpack2<T>(ptx::pack2<T>(rest, 0.f)).x;
    row.y = ptx::pack2<T>(rest, 0.f);
    row.z = row.w = 0;
  }
  STROBE_DEVICE static uint4 key_row(int i) {
    const float number = float(i);  // up to 255: no rounding in bf16 either
    return make_uint4(ptx::pack2<T>(number, number), ptx::pack2<T>(number, 0.f), 0, 0);
  }
};

/// One key past the last one that any of these rows sees, where the mask has one span a row; else
/// kv_len. Called by whole warps, with the same result.
template <class Mask>
STROBE_DEVICE int end_of_keys(const Mask& mask, Span rows, int kv_len, int lane) {
  if constexpr (detail::has_keys_of<Mask>(0)) {
    if (detail::mask_one_span(mask)) {
      int end = 0;
      STROBE_UNROLL_BY(1)
      for (int q = rows.begin + lane; q < rows.end; q += 32)
        end = detail::max_of(end, mask.keys_of(q).end);
      return __reduce_max_sync(0xffffffffu, end);
    }
  }
  return kv_len;
}

/// The ramps of one query tile as its producer meets them: one, or two different ones, as left and
/// right of a diagonal. A third is left to the score's ordinary form.
template <class C>
struct RampTable {
  uint4 (*rows)[8];
  int number;  ///< of the first in `rows`; 0 is none
  float first = 0.f, second = 0.f;
  int count = 0;

  STROBE_DEVICE RampTable(uint4 (*all_rows)[8], int q_stage)
      : rows(all_rows), number(1 + 2 * q_stage) {}
  /// A ramp's number, which is 0 where it does not exist or there are two others. Nobody may still
  /// read the rows with this query tile's numbers. Called by whole warps.
  STROBE_DEVICE int find(float per_key, float scale, int lane) {
    if (count > 0 && first == per_key) return number;
    if (count > 1 && second == per_key) return number + 1;
    if (count == 2) return 0;
    const Ramp<typename C::T> ramp(per_key, scale);
    if (!ramp.exists) return 0;
    if (lane < 8) rows[number + count][lane] = ramp.row;
    ptx::fence_proxy_async();
    __syncwarp();
    (count == 0 ? first : second) = per_key;
    return number + count++;
  }
};

/// Whether the score adds a ramp to these rows and keys, of one tile, whose sums in tensor cores
/// are good enough: they end at the last bit of the largest number met, which is what a ramp has
/// climbed to. Gentle ones always are; of steep ones the far side, where nothing weighs much.
template <class Score>
STROBE_DEVICE bool adds_ramp(const Score& score, Span rows, Span keys, int block_kv,
                             float* per_key) {
  if (!score.ramp(rows, keys, per_key)) return false;
  const float climbs = fabsf(*per_key) * float(block_kv);
  if (climbs < 96.f) return true;  // a last bit of which is 8e-6
  const int top = *per_key > 0.f ? keys.end - 1 : keys.begin;
  return climbs < 256.f && score(0.f, rows.begin, top) < -16.f &&
         score(0.f, rows.end - 1, top) < -16.f;
}

/// The same for what rows see of a key tile, from the tile's first key on. Called by whole warps,
/// with the same result.
template <class Score, class Mask>
STROBE_DEVICE bool has_ramp(const Score& score, const Mask& mask, Span rows, bool partial,
                            Span keys, int block_kv, int lane, float* per_key) {
  if (rows.begin == rows.end) return false;
  if (adds_ramp(score, rows, keys, block_kv, per_key)) return true;
  if constexpr (detail::has_keys_of<Mask>(0)) {
    if (!partial || !detail::mask_one_span(mask)) return false;
    // Keys that a row does not see are none of its business: often those behind itself.
    bool all = true, some = false;
    STROBE_UNROLL_BY(1)
    for (int q = rows.begin + lane; q < rows.end; q += 32) {
      const Span seen = mask.keys_of(q);
      const int end = detail::min_of(seen.end, keys.end);
      if (detail::max_of(seen.begin, keys.begin) >= end) continue;
      float of_row = 0.f;
      all = adds_ramp(score, {q, q + 1}, {keys.begin, end}, block_kv, &of_row) &&
            (!some || of_row == *per_key) && all;
      *per_key = of_row;
      some = true;
    }
    const uint32_t lanes = __ballot_sync(0xffffffffu, some);
    const float one = __shfl_sync(0xffffffffu, *per_key, lanes == 0 ? 0 : __ffs(int(lanes)) - 1);
    all = all && (!some || *per_key == one);
    *per_key = one;
    return __all_sync(0xffffffffu, all);
  } else {
    return false;
  }
}

/// S = Q K^T of the warpgroup's 64 rows: issued, not waited for. Where the kernel has ramps, with
/// one of them: 8 times Ramp::row at ramp_smem, Ramp::key_row of all keys at ramp_keys_smem.
template <class C>
STROBE_DEVICE void issue_qk(float (&s)[C::key_tiles][4], uint32_t q_smem, uint32_t k_smem,
                            [[maybe_unused]] uint32_t ramp_smem,
                            [[maybe_unused]] uint32_t ramp_keys_smem) {
  const uint64_t q = ptx::wgmma_operand(q_smem), k = ptx::wgmma_operand(k_smem);
  ptx::wgmma_fence();
  STROBE_UNROLL
  for (int d = 0; d < C::head_dim / 16; ++d) {
    const uint32_t in_panel = uint32_t(d % 4 * 32);
    ptx::wgmma<typename C::T, false>(
        s, ptx::wgmma_advance(q, uint32_t(d / 4 * C::block_q * 128) + in_panel),
        ptx::wgmma_advance(k, uint32_t(d / 4 * C::block_kv * 128) + in_panel), d > 0);
  }
  if constexpr (C::ramps)
    ptx::wgmma<typename C::T, false>(s, ptx::wgmma_plain_operand(ramp_smem, 0, 0),
                                     ptx::wgmma_plain_operand(ramp_keys_smem, 128, 0), true);
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

/// How a score's logits come from the products of one key tile without what stands between products
/// and exponentials otherwise, for the two rows that a lane has: not at all, by its ramp, or by its
/// shortcut (score.hpp). What is asked of products is called by whole warps, with the same result.
template <class C, class Score, bool = C::ramps, bool = detail::has_shortcut<Score>(0)>
struct ScoreShortcut {
  static constexpr bool limited = false;  ///< to tiles without hidden keys
  STROBE_DEVICE ScoreShortcut(const Score&, float) {}
  /// Before the products are there: for the key tile from first_key on, with logits times log2_e up
  /// to limit_log2 in each row; or, because it has no ramp, not for this key tile.
  template <class Position>
  STROBE_DEVICE void prepare(const Score&, int, Position, const float (&)[2]) {}
  STROBE_DEVICE void refuse() {}
  STROBE_DEVICE bool is_good_for(const float (&)[C::key_tiles][4]) const { return false; }
  /// Whether they only make P that are 0.
  STROBE_DEVICE bool vanishes(const float (&)[C::key_tiles][4]) const { return false; }
  /// log2_e * (logit of element e of an accumulator tile) + more.
  STROBE_DEVICE float logit_log2(float product, int, float) const { return product; }
  /// The factor that makes base-2 logits of products, but for what is added to all of a row.
  STROBE_DEVICE float factor(float (&)[2]) const { return 1.f; }
};

template <class C, class Score, bool Shortcut>
struct ScoreShortcut<C, Score, true, Shortcut> {
  static constexpr bool limited = false;
  float scale, per_scale;  ///< times log2_e
  float at_first[2];       ///< likewise: what is added for the tile's first key
  float most[2];           ///< up to which products logits stay within what was asked for
  float none[2];           ///< up to which products P is 0
  bool far;                ///< whether that is likely, keys being far from their queries

  STROBE_DEVICE ScoreShortcut(const Score&, float natural_scale)
      : scale(natural_scale * log2_e), per_scale(ptx::rcp_approx(scale)) {}
  template <class Position>
  STROBE_DEVICE void prepare(const Score& score, int first_key, Position position,
                             const float (&limit_log2)[2]) {
    constexpr float to_none = C::slack_log2 + 130.f;  // exp2 gives 0 below -126
    STROBE_UNROLL
    for (int h = 0; h < 2; ++h) {
      at_first[h] = score(0.f, position(h), first_key) * log2_e;
      most[h] = (limit_log2[h] - at_first[h]) * per_scale;
      none[h] = (limit_log2[h] - to_none - at_first[h]) * per_scale;
    }
    far = __all_sync(0xffffffffu, int(none[0] > 0.f) & int(none[1] > 0.f));
  }
  STROBE_DEVICE void refuse() {
    most[0] = most[1] = -1.f;
    far = false;
  }
  STROBE_DEVICE bool is_good_for(const float (&s)[C::key_tiles][4]) const {
    return all_within<false>(s, most, 0.f);
  }
  STROBE_DEVICE bool vanishes(const float (&s)[C::key_tiles][4]) const {
    return far && all_within<false>(s, none, 0.f);
  }
  STROBE_DEVICE float logit_log2(float product, int e, float more) const {
    return fmaf(product, scale, at_first[e / 2] + more);
  }
  STROBE_DEVICE float factor(float (&more)[2]) const {
    more[0] = at_first[0];
    more[1] = at_first[1];
    return scale;
  }
};

template <class C, class Score>
struct ScoreShortcut<C, Score, false, true> {
  using Shortcut = decltype(detail::declare<Score>().shortcut(0.f));
  static constexpr bool limited = true;
  Shortcut shortcut;
  float most[2];

  STROBE_DEVICE ScoreShortcut(const Score& score, float scale) : shortcut(score.shortcut(scale)) {}
  template <class Position>
  STROBE_DEVICE void prepare(const Score&, int, Position, const float (&limit_log2)[2]) {
    STROBE_UNROLL
    for (int h = 0; h < 2; ++h) most[h] = shortcut.most(limit_log2[h]);
  }
  STROBE_DEVICE void refuse() {}
  STROBE_DEVICE bool is_good_for(const float (&s)[C::key_tiles][4]) const {
    return all_within<true>(s, most, shortcut.limit());
  }
  STROBE_DEVICE bool vanishes(const float (&)[C::key_tiles][4]) const { return false; }
  STROBE_DEVICE float logit_log2(float product, int, float more) const {
    return shortcut(product, more);
  }
  STROBE_DEVICE float factor(float (&)[2]) const { return 1.f; }
};

}  // namespace warp
}  // namespace STROBE_ABI
}  // namespace strobe
