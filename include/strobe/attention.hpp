// SPDX-License-Identifier: MIT
/// @file
/// Attention: everything one call says, in one plain aggregate that prefill, decode, their checks
/// and their workspace size all take. Layer: noun, host and device, no kernels.
#pragma once

#include "detail/check_types.hpp"
#include "kv.hpp"
#include "mask.hpp"
#include "policy.hpp"
#include "score.hpp"
#include "types.hpp"

namespace strobe {
inline namespace STROBE_ABI {

/// O = softmax(score(scale * Q K^T) under mask) V for every sequence and head; LSE = log of the sum
/// of exponentials.
///
/// T: element type of Q (`__half`, `__nv_bfloat16`); softmax and all sums are fp32. HeadDim,
/// ValueDim: compiled widths (32, 64, 96, 128, 192, 256); `head_dim` and `value_dim` are the real
/// ones, any multiple of 8 up to them. Out: T or float.
///
///     strobe::Attention<__half, 128, strobe::Causal> a;
///     a.q = strobe::token_major(q, q_len, q_heads, 128);  ...
template <class T, int HeadDim, class Mask = Full, class Kv = Strided<T>, class Score = NoScore,
          int ValueDim = HeadDim, class Out = T, class Policy = DefaultPolicy>
struct Attention {
  static_assert(detail::CheckTypes<T, HeadDim, Mask, Kv, Score, ValueDim, Out, Policy>::passed,
                "see there");

  using query_type = T;
  using output_type = Out;
  using mask_type = Mask;
  using kv_type = Kv;
  using score_type = Score;
  using policy_type = Policy;
  static constexpr int compiled_head_dim = HeadDim;
  static constexpr int compiled_value_dim = ValueDim;

  View<const T> q;  ///< [batch, q_len, q_heads, head_dim]
  Kv kv;            ///< [batch, kv_len, kv_heads, head_dim] and [.., value_dim]
  View<Out> o;      ///< [batch, q_len, q_heads, value_dim]; a row that sees no key becomes 0
  View<float> lse;  ///< [batch, q_len, q_heads], natural logarithm, -infinity where a row sees no
                    ///< key; data may be null
  Mask mask;
  Score score;
  Bounds bounds;
  Lengths lengths;
  Scale scale;
  int head_dim = HeadDim;
  int value_dim = ValueDim;
};

}  // namespace STROBE_ABI
}  // namespace strobe
