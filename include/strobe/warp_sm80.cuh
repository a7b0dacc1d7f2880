// SPDX-License-Identifier: MIT
// What one warp does with one key tile on mma.sync: S = Q K^T, scores and masks, P V, and storing
// its rows. Prefill and decode share it, so that a row gets the same arithmetic from both. Layer:
// warp, between softmax and the kernels.
//
// C, a kernel's compile-time numbers, has T (the element type), head_dim, value_dim, row_tiles
// (16-row tiles of the warp), key_tiles (key tile / 8) and value_tiles (value_dim / 8). Everything
// here is called by whole warps.
#pragma once

#include "mask.hpp"
#include "policy.hpp"
#include "ptx/mma.cuh"
#include "schedule.hpp"
#include "score.hpp"
#include "softmax.cuh"
#include "tile/convert.cuh"
#include "tile/fragment.cuh"

namespace strobe {
inline namespace STROBE_ABI {
namespace warp {

/// S = Q K^T for one warp's rows and one key tile.
template <class C>
STROBE_DEVICE void multiply_qk(float (&s)[C::row_tiles][C::key_tiles][4], uint32_t q_cursor,
                               uint32_t k_cursor) {
  using Layout = tile::Swizzled<C::head_dim>;
  STROBE_UNROLL
  for (int d = 0; d < C::head_dim / 16; ++d) {
    uint32_t q[C::row_tiles][4];
    STROBE_UNROLL
    for (int t = 0; t < C::row_tiles; ++t)
      ptx::ldmatrix_x4(q[t], Layout::advance(q_cursor, 16 * t, 2 * d));
    STROBE_UNROLL
    for (int n = 0; n < C::key_tiles / 2; ++n) {
      uint32_t k[4];
      ptx::ldmatrix_x4(k, Layout::advance(k_cursor, 16 * n, 2 * d));
      STROBE_UNROLL
      for (int t = 0; t < C::row_tiles; ++t) {
        ptx::mma_m16n8k16<typename C::T>(s[t][2 * n], q[t], k[0], k[1]);
        ptx::mma_m16n8k16<typename C::T>(s[t][2 * n + 1], q[t], k[2], k[3]);
      }
    }
  }
}

/// P for 16 keys as an A fragment: the accumulators of two neighbouring tiles, rounded to the
/// element type.
template <class T>
STROBE_DEVICE void round_p(uint32_t (&p)[4], const float (&left)[4], const float (&right)[4]) {
  STROBE_UNROLL
  for (int h = 0; h < 2; ++h) {
    p[h] = ptx::pack2<T>(left[2 * h], left[2 * h + 1]);
    p[2 + h] = ptx::pack2<T>(right[2 * h], right[2 * h + 1]);
  }
}
/// What round_p lost, rounded in turn: P = round_p + round_p_rest to about 21 bits in fp16, 15 in
/// bf16.
template <class T>
STROBE_DEVICE void round_p_rest(uint32_t (&rest)[4], const uint32_t (&p)[4], const float (&left)[4],
                                const float (&right)[4]) {
  STROBE_UNROLL
  for (int h = 0; h < 2; ++h) {
    const float2 l = tile::unpack2<T>(p[h]), r = tile::unpack2<T>(p[2 + h]);
    rest[h] = ptx::pack2<T>(left[2 * h] - l.x, left[2 * h + 1] - l.y);
    rest[2 + h] = ptx::pack2<T>(right[2 * h] - r.x, right[2 * h + 1] - r.y);
  }
}

template <class C>
STROBE_DEVICE void copy(float (&to)[C::row_tiles][C::value_tiles][4],
                        const float (&from)[C::row_tiles][C::value_tiles][4]) {
  STROBE_UNROLL
  for (int t = 0; t < C::row_tiles; ++t) {
    STROBE_UNROLL
    for (int n = 0; n < C::value_tiles; ++n) {
      STROBE_UNROLL
      for (int e = 0; e < 4; ++e) to[t][n][e] = from[t][n][e];
    }
  }
}
template <class C>
STROBE_DEVICE void clear(float (&o)[C::row_tiles][C::value_tiles][4]) {
  const float zero[C::row_tiles][C::value_tiles][4] = {};
  copy<C>(o, zero);
}

template <int ValueTiles>
STROBE_DEVICE void scale_rows(float (&o)[ValueTiles][4], const float (&factor)[2]) {
  STROBE_UNROLL
  for (int n = 0; n < ValueTiles; ++n) {
    STROBE_UNROLL
    for (int e = 0; e < 4; ++e) o[n][e] *= factor[e / 2];
  }
}

/// P = exp(S - m) and O += P V for one warp's rows and one key tile, 16 keys at a time: the
/// exponentials of the next 16 keys stand before the products of these, so that the tensor cores
/// and the exponential unit work side by side.
template <class C, Precision Rounding, class Softmax>
STROBE_DEVICE void multiply_pv(float (&o)[C::row_tiles][C::value_tiles][4],
                               float (&s)[C::row_tiles][C::key_tiles][4], Softmax& softmax,
                               float scale_log2, uint32_t v_cursor) {
  using T = typename C::T;
  const auto exponentiate = [&](int k) {
    STROBE_UNROLL
    for (int t = 0; t < C::row_tiles; ++t) {
      softmax.exponentiate(s[t][2 * k], t, scale_log2);
      softmax.exponentiate(s[t][2 * k + 1], t, scale_log2);
    }
  };
  exponentiate(0);
  STROBE_UNROLL
  for (int k = 0; k < C::key_tiles / 2; ++k) {
    if (k + 1 < C::key_tiles / 2) exponentiate(k + 1);
    uint32_t high[C::row_tiles][4];
    [[maybe_unused]] uint32_t low[C::row_tiles][4];
    STROBE_UNROLL
    for (int t = 0; t < C::row_tiles; ++t) {
      round_p<T>(high[t], s[t][2 * k], s[t][2 * k + 1]);
      if constexpr (Rounding == Precision::split_p)
        round_p_rest<T>(low[t], high[t], s[t][2 * k], s[t][2 * k + 1]);
    }
    STROBE_UNROLL
    for (int n = 0; n < C::value_tiles / 2; ++n) {
      uint32_t v[4];
      ptx::ldmatrix_x4_trans(v, tile::Swizzled<C::value_dim>::advance(v_cursor, 16 * k, 2 * n));
      STROBE_UNROLL
      for (int t = 0; t < C::row_tiles; ++t) {
        if constexpr (Rounding == Precision::split_p) {
          ptx::mma_m16n8k16<T>(o[t][2 * n], low[t], v[0], v[1]);
          ptx::mma_m16n8k16<T>(o[t][2 * n + 1], low[t], v[2], v[3]);
        }
        ptx::mma_m16n8k16<T>(o[t][2 * n], high[t], v[0], v[1]);
        ptx::mma_m16n8k16<T>(o[t][2 * n + 1], high[t], v[2], v[3]);
      }
    }
  }
}

/// Of a lane's Size elements of a row of a key tile (LogitRow has which keys they are), one bit
/// each: the ones whose keys lie in a span that begins `begin` and ends `end` keys behind the first
/// one's.
template <int Size>
struct RowBits {
  static constexpr int words = (Size + 31) / 32;
  uint32_t bits[words];

  STROBE_DEVICE RowBits(int begin, int end) {
    const int first = count_below(begin), last = count_below(end);
    STROBE_UNROLL
    for (int w = 0; w < words; ++w) bits[w] = below(last - 32 * w) & ~below(first - 32 * w);
  }
  STROBE_DEVICE bool has(int i) const { return (bits[i / 32] >> i % 32 & 1) != 0; }

 private:
  static STROBE_DEVICE int count_below(int keys) {
    const int clamped = detail::max_of(detail::min_of(keys, 4 * Size), 0);
    return clamped / 8 * 2 + detail::min_of(clamped % 8, 2);
  }
  static STROBE_DEVICE uint32_t below(int count) {
    return count >= 32 ? 0xffffffffu : (1u << detail::max_of(count, 0)) - 1;
  }
};

/// A lane's rows, where they stand and what they see: asked once and kept if the mask has to look
/// it up, else each time. Rows are numbered 2 * row tile + half: row lane / 4 + 8 * half of that
/// tile.
template <int Rows, bool LooksUp, class Mask, class Position>
struct MaskedRows {
  static constexpr bool kept = LooksUp && detail::has_keys_of<Mask>(0);
  using MaskBound = Mask;
  const Mask& mask;
  Position position;  ///< of a row
  Span keys[kept ? Rows : 1];

  STROBE_DEVICE MaskedRows(const Mask& bound, Position where) : mask(bound), position(where) {
    if constexpr (kept) {
      if (!detail::mask_one_span(mask)) return;
      STROBE_UNROLL
      for (int row = 0; row < Rows; ++row) keys[row] = mask.keys_of(position(row));
    }
  }
  STROBE_DEVICE Span keys_of(int row) const {
    if constexpr (kept) {
      return keys[row];
    } else {
      return mask.keys_of(position(row));
    }
  }
};
template <int Rows, bool LooksUp, class Mask, class Position>
STROBE_DEVICE MaskedRows<Rows, LooksUp, Mask, Position> masked_rows(const Mask& mask,
                                                                    Position position) {
  return {mask, position};
}

/// Scores the logits of one tile and, where it is partial, hides what the mask hides and keys past
/// kv_len. score_of(row) points to the row's bound score. A mask without keys_of is asked columns
/// outside, rows inside: what it loads for a key then serves all rows and is gone.
template <class C, bool Scores, class Rows, class ScoreOf>
STROBE_DEVICE void shape_logits(float (&s)[C::row_tiles][C::key_tiles][4], const TileStep& step,
                                int kv_len, float scale, int lane, const Rows& rows,
                                ScoreOf score_of) {
  using Mask = typename Rows::MaskBound;
  using Row = LogitRow<2 * C::key_tiles>;
  const int first_key = step.begin + tile::lane_coordinates(lane).column;
  const auto hide = [&](float as) {
    if constexpr (detail::has_keys_of<Mask>(0)) {
      if (detail::mask_one_span(rows.mask)) {
        STROBE_UNROLL
        for (int row = 0; row < 2 * C::row_tiles; ++row) {
          const Span keys = rows.keys_of(row);
          const RowBits<Row::size> seen(detail::max_of(keys.begin, step.begin) - first_key,
                                        detail::min_of(keys.end, kv_len) - first_key);
          STROBE_UNROLL
          for (int i = 0; i < Row::size; ++i)
            if (!seen.has(i)) s[row / 2][i / 2][2 * (row % 2) + i % 2] = as;
        }
        return;
      }
    }
    STROBE_UNROLL
    for (int i = 0; i < Row::size; ++i) {
      const int k = first_key + Row::offset(i);
      STROBE_UNROLL
      for (int row = 0; row < 2 * C::row_tiles; ++row)
        if (!(k < kv_len && rows.mask.visible(rows.position(row), k)))
          s[row / 2][i / 2][2 * (row % 2) + i % 2] = as;
    }
  };
  if constexpr (Scores) {
    if (kv_len > 0) {
      if (step.partial) hide(0.f);  // nothing that lies there spoils its neighbours
      STROBE_UNROLL
      for (int row = 0; row < 2 * C::row_tiles; ++row) {
        Row logits;
        logits.q = rows.position(row);
        logits.k = first_key;
        STROBE_UNROLL
        for (int i = 0; i < Row::size; ++i)
          logits.logits[i] = scale * s[row / 2][i / 2][2 * (row % 2) + i % 2];
        detail::score_row(*score_of(row), logits, kv_len, 0);
        STROBE_UNROLL
        for (int i = 0; i < Row::size; ++i)
          s[row / 2][i / 2][2 * (row % 2) + i % 2] = logits.logits[i];
      }
    }
  }
  if (step.partial) hide(negative_infinity());
}

/// Q times the sign of a scale that is not positive, in shared memory: each thread turns the chunks
/// it copied itself.
template <class C>
STROBE_DEVICE void apply_sign(unsigned char* q, float scale, int thread) {
  const uint32_t keep = scale < 0.f ? 0xffffffffu : 0u, flip = scale < 0.f ? 0x80008000u : 0u;
  for (int copy = thread; copy < C::q_bytes / tile::chunk_bytes; copy += C::threads) {
    constexpr int chunks = tile::Swizzled<C::head_dim>::chunks;
    auto* const chunk = reinterpret_cast<uint4*>(
        q + tile::Swizzled<C::head_dim>::offset(copy / chunks, copy % chunks));
    const uint4 v = *chunk;
    *chunk = make_uint4((v.x & keep) ^ flip, (v.y & keep) ^ flip, (v.z & keep) ^ flip,
                        (v.w & keep) ^ flip);
  }
}

/// Writes one row tile of 16 rows, already normalised: 16 bytes a lane, 64 contiguous bytes a quad.
/// `row_pointer(row)` is null for a row that does not exist. Called by whole warps.
template <int ValueTiles, class T, class RowPointer>
STROBE_DEVICE void store_rows(const float (&o)[ValueTiles][4], int value_dim, int lane, T*,
                              RowPointer row_pointer) {
  STROBE_UNROLL
  for (int h = 0; h < 2; ++h) {
    T* const row = row_pointer(lane / 4 + 8 * h);
    STROBE_UNROLL
    for (int n = 0; n < ValueTiles; n += 4) {
      if constexpr (sizeof(T) == 2) {
        uint32_t chunk[4];
        STROBE_UNROLL
        for (int i = 0; i < 4; ++i) chunk[i] = ptx::pack2<T>(o[n + i][2 * h], o[n + i][2 * h + 1]);
        tile::transpose_quad(chunk, lane);
        const int column = (n + lane % 4) * 8;
        if (row != nullptr && column < value_dim)
          *reinterpret_cast<uint4*>(row + column) =
              make_uint4(chunk[0], chunk[1], chunk[2], chunk[3]);
      } else {
        STROBE_UNROLL
        for (int i = 0; i < 4; ++i) {
          const int column = (n + i) * 8 + lane % 4 * 2;
          if (row != nullptr && column < value_dim)
            *reinterpret_cast<float2*>(row + column) =
                make_float2(o[n + i][2 * h], o[n + i][2 * h + 1]);
        }
      }
    }
  }
}

/// The end of a prefill's row tile: O over the sum, to a.o, and LSE to a.lse where it is wanted.
/// `t`: which of the softmax's row tiles. tile_row: its first query row. Called by whole warps,
/// after softmax.finish().
template <class Attention, int ValueTiles, class Softmax>
STROBE_DEVICE void store_output(const Attention& a, float (&o)[ValueTiles][4],
                                const Softmax& softmax, int t, const PrefillWork& work,
                                const Sequence& sequence, int tile_row, int lane) {
  const float normaliser[2] = {softmax.normaliser(t, 0), softmax.normaliser(t, 1)};
  scale_rows<ValueTiles>(o, normaliser);
  using Out = typename Attention::output_type;
  store_rows(o, a.value_dim, lane, static_cast<Out*>(nullptr), [&](int r) {
    return tile_row + r < sequence.q_len
               ? a.o.row(sequence.batch, sequence.q_begin + tile_row + r, work.q_head)
               : nullptr;
  });
  if (a.lse.data != nullptr && lane % 4 == 0) {
    STROBE_UNROLL
    for (int h = 0; h < 2; ++h) {
      const int row = tile_row + lane / 4 + 8 * h;
      if (row < sequence.q_len)
        *a.lse.row(sequence.batch, sequence.q_begin + row, work.q_head) = softmax.log_sum_exp(t, h);
    }
  }
}

}  // namespace warp
}  // namespace STROBE_ABI
}  // namespace strobe
