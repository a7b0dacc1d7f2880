// SPDX-License-Identifier: MIT
// Partial results of attention and how they fold: (m, l, O) of a row over some of its keys, m in
// base-2 logits, O not yet divided by l. Layer: softmax. Folding is a left fold in key order with
// every rounding written out, so that two kernels that fold the same partials get the same bits
// (Milakov and Gimelshein, "Online normalizer calculation for softmax", section 3.1).
//
// In memory a state is value_dim floats of O, then m, then l, padded to 16 bytes.
#pragma once

#include "softmax.cuh"

namespace strobe {
inline namespace STROBE_ABI {

STROBE_HOST_DEVICE constexpr int state_floats(int value_dim) { return value_dim + 4; }

/// The factors of one fold: what the state so far and the partial are multiplied by.
struct FoldFactors {
  float m_log2;
  float state;
  float partial;
};
STROBE_DEVICE FoldFactors fold_factors(float m_log2, float partial_m_log2) {
  const float raised = fmaxf(m_log2, partial_m_log2);
  return {raised, ptx::exp2_approx(m_log2 - raised), ptx::exp2_approx(partial_m_log2 - raised)};
}
STROBE_DEVICE float fold(float state, float partial, const FoldFactors& f) {
  return fmaf(state, f.state, multiply(partial, f.partial));
}

/// Folds the accumulators of one chunk (after softmax.finish()) into the totals of the same rows,
/// register by register.
template <int Tiles, int ValueTiles>
STROBE_DEVICE void fold_tiles(float (&total_o)[Tiles][ValueTiles][4], OnlineSoftmax<Tiles>& total,
                              const float (&o)[Tiles][ValueTiles][4],
                              const OnlineSoftmax<Tiles>& chunk) {
  STROBE_UNROLL
  for (int t = 0; t < Tiles; ++t) {
    STROBE_UNROLL
    for (int h = 0; h < 2; ++h) {
      const FoldFactors f = fold_factors(total.m_log2[t][h], chunk.m_log2[t][h]);
      total.m_log2[t][h] = f.m_log2;
      total.l[t][h] = fold(total.l[t][h], chunk.l[t][h], f);
      STROBE_UNROLL
      for (int n = 0; n < ValueTiles; ++n) {
        STROBE_UNROLL
        for (int e = 2 * h; e < 2 * h + 2; ++e)
          total_o[t][n][e] = fold(total_o[t][n][e], o[t][n][e], f);
      }
    }
  }
}

/// Writes the states of one warp's 16 rows, `rows` of them in row order, from its accumulators
/// (after softmax.finish()).
template <int ValueTiles>
STROBE_DEVICE void store_states(float* rows, const float (&o)[ValueTiles][4],
                                const OnlineSoftmax<1>& softmax, int lane) {
  constexpr int value_dim = 8 * ValueTiles;
  STROBE_UNROLL
  for (int h = 0; h < 2; ++h) {
    float* const state = rows + (lane / 4 + 8 * h) * state_floats(value_dim);
    STROBE_UNROLL
    for (int n = 0; n < ValueTiles; ++n)
      *reinterpret_cast<float2*>(state + 8 * n + lane % 4 * 2) =
          make_float2(o[n][2 * h], o[n][2 * h + 1]);
    if (lane % 4 == 0)
      *reinterpret_cast<float2*>(state + value_dim) =
          make_float2(softmax.m_log2[0][h], softmax.l[0][h]);
  }
}

/// Four neighbouring columns of one row, folded by one thread.
struct ColumnState {
  float o[4] = {};
  float m_log2 = least_logit;
  float l = 0.f;

  /// Folds `count` partials in, `stride` floats apart, in order. `first` is the first state of the
  /// row, in shared or global memory. Loads are issued AtOnce at a time; past the end stands a
  /// state without keys, which changes nothing, so that no branch keeps one fold from overlapping
  /// the next.
  template <int ValueDim, int AtOnce>
  STROBE_DEVICE void fold_in(const float* first, int64_t stride, int count, int column) {
    for (int i = 0; i < count; i += AtOnce) {
      float4 partial[AtOnce];
      float2 sums[AtOnce];
      STROBE_UNROLL
      for (int j = 0; j < AtOnce; ++j) {
        const float* const state = first + (i + j) * stride;
        const bool exists = i + j < count;
        partial[j] = exists ? *reinterpret_cast<const float4*>(state + column)
                            : make_float4(0.f, 0.f, 0.f, 0.f);
        sums[j] = exists ? *reinterpret_cast<const float2*>(state + ValueDim)
                         : make_float2(least_logit, 0.f);
      }
      STROBE_UNROLL
      for (int j = 0; j < AtOnce; ++j) {
        const FoldFactors f = fold_factors(m_log2, sums[j].x);
        m_log2 = f.m_log2;
        l = fold(l, sums[j].y, f);
        o[0] = fold(o[0], partial[j].x, f);
        o[1] = fold(o[1], partial[j].y, f);
        o[2] = fold(o[2], partial[j].z, f);
        o[3] = fold(o[3], partial[j].w, f);
      }
    }
  }
  template <int ValueDim>
  STROBE_DEVICE void store_state(float* state, int column) const {
    *reinterpret_cast<float4*>(state + column) = make_float4(o[0], o[1], o[2], o[3]);
    if (column == 0) *reinterpret_cast<float2*>(state + ValueDim) = make_float2(m_log2, l);
  }
  /// The finished columns, rounded to Out, and the row's LSE where `lse` is not null. `row` is
  /// aligned to 16 bytes.
  template <class Out>
  STROBE_DEVICE void store(Out* row, float* lse, int column) const {
    const float normaliser = normaliser_of(l);
    if constexpr (sizeof(Out) == 2) {
      *reinterpret_cast<uint2*>(row + column) =
          make_uint2(ptx::pack2<Out>(o[0] * normaliser, o[1] * normaliser),
                     ptx::pack2<Out>(o[2] * normaliser, o[3] * normaliser));
    } else {
      *reinterpret_cast<float4*>(row + column) =
          make_float4(o[0] * normaliser, o[1] * normaliser, o[2] * normaliser, o[3] * normaliser);
    }
    if (lse != nullptr && column == 0) *lse = log_sum_exp_of(m_log2, l);
  }
};

}  // namespace STROBE_ABI
}  // namespace strobe
