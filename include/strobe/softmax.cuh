// SPDX-License-Identifier: MIT
// Online softmax: the running maximum m and sum l of each query row, and the factor by which what
// was accumulated so far has to shrink when m grows (Milakov and Gimelshein, "Online normalizer
// calculation for softmax"; FlashAttention-2, section 3.1). Layer: softmax. Base 2 inside: exp(x -
// m) is computed as exp2(x * scale_log2 - m * scale_log2), one FMA and one exponential an element.
#pragma once

#include "detail/integers.hpp"
#include "ptx/math.cuh"

namespace strobe {
inline namespace STROBE_ABI {

/// -infinity without <cmath>, which NVRTC lacks, as it does the builtin.
STROBE_DEVICE float negative_infinity() {
#if STROBE_DEVICE_PASS
  return __int_as_float(int(0xff800000u));
#else
  return -__builtin_huge_valf();
#endif
}

/// a * b, never fused with an addition: two kernels that share this file then round alike.
STROBE_DEVICE float multiply(float a, float b) {
#if STROBE_DEVICE_PASS
  return __fmul_rn(a, b);
#else
  return a * b;
#endif
}

/// m of a row that has seen no key: the least finite number rather than -infinity. Every finite
/// logit raises it, and -infinity - m stays -infinity where -infinity - -infinity would be NaN.
inline constexpr float least_logit = -3.402823466e38f;

/// Base-2 logits times this are natural ones.
inline constexpr float ln_2 = 0.6931471805599453f;

/// What the accumulated output is multiplied by at the end: 1 / l, and 0 for a row that saw no key.
/// NaN stays NaN.
STROBE_DEVICE float normaliser_of(float l) {
  const float inverse = ptx::rcp_approx(l);  // outside of the choice: no branch
  return l == 0.f ? 0.f : inverse;
}
/// Natural logarithm of the sum of exp(logit); -infinity for a row that saw no key.
STROBE_DEVICE float log_sum_exp_of(float m_log2, float l) {
  return l == 0.f ? negative_infinity() : (m_log2 + ptx::log2_approx(l)) * ln_2;
}

/// Whether no element of S exceeds most[h] of its row, which says no where it is negative, and,
/// where Limited, none is below -limit, in any lane. Called by whole warps.
/// Compares bits as integers, of which Hopper takes the maximum of three at once (VIMNMX3): floats
/// that are not negative are in their order, negative ones are no positive integers but, unsigned,
/// the largest.
template <bool Limited, int Columns>
STROBE_DEVICE bool all_within(const float (&s)[Columns][4], const float (&most)[2], float limit) {
  // Four chains, or each maximum would wait for the one before it.
  int largest[4] = {0, 0, 0, 0};
  uint32_t smallest[4] = {0, 0, 0, 0};
  STROBE_UNROLL
  for (int c = 0; c < Columns; ++c) {
    STROBE_UNROLL
    for (int e = 0; e < 4; ++e) {
      const int bits = ptx::bits_of(s[c][e]);
      largest[e] = detail::max_of(largest[e], bits);
      if constexpr (Limited)
        smallest[e] = uint32_t(bits) > smallest[e] ? uint32_t(bits) : smallest[e];
    }
  }
  // No short circuit: branches would cost more than they save.
  int within = int(detail::max_of(largest[0], largest[1]) <= ptx::bits_of(most[0])) &
               int(detail::max_of(largest[2], largest[3]) <= ptx::bits_of(most[1]));
  if constexpr (Limited) {
    const uint32_t bound = uint32_t(ptx::bits_of(limit)) | 0x80000000u;
    STROBE_UNROLL
    for (int e = 0; e < 4; ++e) within &= int(smallest[e] <= bound);
  }
  return __all_sync(0xffffffffu, within != 0);
}

/// State of the rows one thread holds of `Tiles` accumulator tiles of 16 rows (tile/fragment.cuh):
/// [tile][0] is row lane / 4, [tile][1] the row 8 below. m is the same in the four lanes of a quad;
/// l is each lane's own share until finish() adds them.
/// A row that has seen no key has l = 0 and m = least_logit.
template <int Tiles>
struct OnlineSoftmax {
  float m_log2[Tiles][2];  ///< largest logit so far, times scale_log2
  float l[Tiles][2];       ///< sum of exp2(logit * scale_log2 - m_log2)

  STROBE_DEVICE OnlineSoftmax() {
    STROBE_UNROLL
    for (int t = 0; t < Tiles; ++t) {
      STROBE_UNROLL
      for (int h = 0; h < 2; ++h) {
        m_log2[t][h] = least_logit;
        l[t][h] = 0.f;
      }
    }
  }

  /// Of a row's logits in a key tile, the same in the quad's four lanes. Called by whole warps.
  template <int Columns>
  STROBE_DEVICE static float largest_of_row(const float (&s)[Columns][4], int h) {
    float largest = fmaxf(s[0][2 * h], s[0][2 * h + 1]);
    STROBE_UNROLL
    for (int c = 1; c < Columns; ++c) largest = fmaxf(largest, fmaxf(s[c][2 * h], s[c][2 * h + 1]));
    largest = fmaxf(largest, __shfl_xor_sync(0xffffffffu, largest, 1));
    return fmaxf(largest, __shfl_xor_sync(0xffffffffu, largest, 2));
  }

  /// Raises m to cover the logits S of one key tile (-infinity where hidden) and says by how much
  /// what was summed so far has to shrink; l shrinks here, the output is the caller's. Returns
  /// whether m of any row of the warp grew: where none did every factor is exactly 1, so that
  /// leaving the multiplication out changes no bit, whatever the neighbouring rows do. Called by
  /// whole warps. scale_log2 > 0.
  template <int Columns>
  STROBE_DEVICE bool raise(const float (&s)[Tiles][Columns][4], float scale_log2,
                           float (&shrink)[Tiles][2]) {
    bool grew = false;
    STROBE_UNROLL
    for (int t = 0; t < Tiles; ++t) {
      STROBE_UNROLL
      for (int h = 0; h < 2; ++h) {
        const float raised = fmaxf(m_log2[t][h], largest_of_row(s[t], h) * scale_log2);
        grew = grew || raised > m_log2[t][h];
        shrink[t][h] = ptx::exp2_approx(m_log2[t][h] - raised);
        m_log2[t][h] = raised;
        l[t][h] = multiply(l[t][h], shrink[t][h]);
      }
    }
    return __any_sync(0xffffffffu, grew);
  }

  /// The same, but m of a row stays where it is unless a base-2 logit exceeds it by more than
  /// slack_log2: P may then be up to 2^slack_log2, and there is seldom anything to shrink (the
  /// conditional rescaling of FlashAttention-4). Each row decides for itself, so its bits do
  /// not depend on its neighbours; where no row of the warp has to move, which is nearly always,
  /// nothing is exchanged between lanes. `shrink` is set only where true is returned.
  /// per_scale_log2: 1 / scale_log2, finite.
  template <int Columns>
  STROBE_DEVICE bool raise_seldom(const float (&s)[Tiles][Columns][4], float scale_log2,
                                  float per_scale_log2, float slack_log2,
                                  float (&shrink)[Tiles][2]) {
    bool within = true;
    STROBE_UNROLL
    for (int t = 0; t < Tiles; ++t) {
      const float most[2] = {(m_log2[t][0] + slack_log2) * per_scale_log2,
                             (m_log2[t][1] + slack_log2) * per_scale_log2};
      within = all_within<false>(s[t], most, 0.f) && within;
    }
    if (within) return false;
    STROBE_UNROLL
    for (int t = 0; t < Tiles; ++t) {
      STROBE_UNROLL
      for (int h = 0; h < 2; ++h) {
        const float top = largest_of_row(s[t], h);
        const bool moves = fmaf(top, scale_log2, -m_log2[t][h]) > slack_log2;
        const float raised = moves ? top * scale_log2 : m_log2[t][h];
        shrink[t][h] = ptx::exp2_approx(m_log2[t][h] - raised);
        m_log2[t][h] = raised;
        l[t][h] = multiply(l[t][h], shrink[t][h]);
      }
    }
    return true;
  }

  /// Turns the logits of one accumulator tile into P = exp(S - m) and adds them to l. Any thread,
  /// after raise().
  STROBE_DEVICE void exponentiate(float (&s)[4], int t, float scale_log2) {
    exponentiate(s, t, [&](float logit, int, float more) { return fmaf(logit, scale_log2, more); });
  }
  /// The same with base-2 logits computed on the way: logit_plus(s[e], e, more) is more than one of
  /// them.
  template <class LogitPlus>
  STROBE_DEVICE void exponentiate(float (&s)[4], int t, const LogitPlus& logit_plus) {
    STROBE_UNROLL
    for (int e = 0; e < 4; ++e) s[e] = ptx::exp2_approx(logit_plus(s[e], e, -m_log2[t][e / 2]));
    l[t][0] += s[0] + s[1];
    l[t][1] += s[2] + s[3];
  }

  /// Base-2 logits so far lacked what is added here, in each row of an accumulator tile.
  STROBE_DEVICE void shift(int t, const float (&more_log2)[2]) {
    m_log2[t][0] += more_log2[0];
    m_log2[t][1] += more_log2[1];
  }

  /// Adds the quad's shares of l. Afterwards l is whole in every lane. Called by whole warps, once.
  STROBE_DEVICE void finish() {
    STROBE_UNROLL
    for (int t = 0; t < Tiles; ++t) {
      STROBE_UNROLL
      for (int h = 0; h < 2; ++h) {
        l[t][h] += __shfl_xor_sync(0xffffffffu, l[t][h], 1);
        l[t][h] += __shfl_xor_sync(0xffffffffu, l[t][h], 2);
      }
    }
  }
  STROBE_DEVICE float normaliser(int t, int h) const { return normaliser_of(l[t][h]); }
  STROBE_DEVICE float log_sum_exp(int t, int h) const {
    return log_sum_exp_of(m_log2[t][h], l[t][h]);
  }
};

}  // namespace STROBE_ABI
}  // namespace strobe
