// SPDX-License-Identifier: MIT
// Scores: what happens to a logit between Q K^T and softmax. Layer: noun, host and device, no
// kernels.
//
// A score is a plain struct passed by value and bound once per thread block, like a mask:
//
//   Bound bind(const Block& block) const;                      // hoist loads, e.g. this head's
//   slope float Bound::operator()(float logit, int q, int k) const;  // logit = scale * (q . k) in
//   natural units; returns another
//
// q and k are positions in key coordinates (see Block); the kernel calls it only with q in block.q
// and 0 <= k < block.kv_len, for every element of every visited tile, also for some that the mask
// hides (their result is dropped). A score may also have `Status check(const Bounds&) const`, a
// host-side look at its own fields.
#pragma once

#include "detail/math.hpp"
#include "types.hpp"
#if !defined(__CUDACC_RTC__)
#include "detail/check_view.hpp"
#endif

namespace strobe {
inline namespace STROBE_ABI {

/// Softmax sees the logits as they are. The kernels know this type and fold the scale into the
/// exponential.
struct NoScore {
  STROBE_HOST_DEVICE NoScore bind(const Block&) const { return {}; }
  STROBE_HOST_DEVICE float operator()(float logit, int, int) const { return logit; }
};

/// cap * tanh(logit / cap): keeps logits within (-cap, cap). cap > 0.
struct SoftCap {
  float cap = 50.f;
  static constexpr float two_log2_e = 2.885390081777927f;

  struct Bound {
    float cap, two_log2_e_per_cap;
    STROBE_HOST_DEVICE float operator()(float logit, int, int) const {
      return cap - cap * detail::logistic_of(logit * two_log2_e_per_cap);
    }
  };
  STROBE_HOST_DEVICE Bound bind(const Block&) const { return {cap, two_log2_e / cap}; }

#if !defined(__CUDACC_RTC__)
  Status check(const Bounds&) const noexcept {
    if (!detail::is_finite(cap) || !(cap > 0.f) || !detail::is_finite(two_log2_e / cap))
      return detail::invalid() << "score.cap is " << cap
                               << "; it must be finite, > 0 and not subnormal";
    return {};
  }
#endif
};

/// logit - slope * |q - k| (Press et al., "Train Short, Test Long", section 3; for causal attention
/// this is their -slope * (q - k)). slopes: device memory, fp32, [q_heads], or [batch, q_heads]
/// with `batch_stride` apart.
struct Alibi {
  const float* slopes = nullptr;
  int64_t batch_stride = 0;

  struct Bound {
    float slope;
    int origin;  ///< near the block's rows
    // As floats: the conversions then belong to a row or a column, not to each element. Exact up to
    // distances of 2^24, and beyond as exact as a float is.
    STROBE_HOST_DEVICE float operator()(float logit, int q, int k) const {
      return logit - slope * detail::abs_of(float(q - origin) - float(k - origin));
    }
  };
  STROBE_HOST_DEVICE Bound bind(const Block& block) const {
    return {slopes[block.batch * batch_stride + block.q_head], block.q.begin};
  }

#if !defined(__CUDACC_RTC__)
  Status check(const Bounds&) const noexcept {
    if (slopes == nullptr) return detail::invalid() << "score.slopes is null";
    return detail::check_word_pointer("score.slopes", slopes);
  }
#endif
};

/// One score after another: second(first(logit)). Nested as often as needed.
template <class First, class Second>
struct Chain {
  First first;
  Second second;

  struct Bound {
    detail::BoundOf<First> first;
    detail::BoundOf<Second> second;
    STROBE_HOST_DEVICE float operator()(float logit, int q, int k) const {
      return second(first(logit, q, k), q, k);
    }
  };
  STROBE_HOST_DEVICE Bound bind(const Block& block) const {
    return {first.bind(block), second.bind(block)};
  }

#if !defined(__CUDACC_RTC__)
  Status check(const Bounds& bounds) const noexcept {
    const Status status = detail::check_noun(first, bounds, 0);
    return status.ok() ? detail::check_noun(second, bounds, 0) : status;
  }
#endif
};

}  // namespace STROBE_ABI
}  // namespace strobe
