// SPDX-License-Identifier: MIT
// Scores: what happens to a logit between Q K^T and softmax. Layer: noun, host and device, no
// kernels.
//
// A score is a plain struct passed by value and bound once per thread block, like a mask:
//
//   Bound bind(const Block& block) const;
//   float Bound::operator()(float logit, int q, int k) const;
//
// `bind` is the place to hoist loads, such as this head's slope. logit is scale * (q . k) in
// natural units, and what is returned another.
//
// q and k are positions in key coordinates (see Block); the kernel calls it only with q in block.q
// and 0 <= k < block.kv_len, for every element of every visited tile, also for some that the mask
// hides (their result is dropped). A score may also have `Status check(const Bounds&) const`, a
// host-side look at its own fields, and
//
//   template <int Size> void Bound::operator()(LogitRow<Size>& row) const;
//
// which the kernel then calls instead, where some logits of a row together are cheaper than one by
// one. Logits of keys that are hidden or do not exist are 0 there, and what becomes of them is
// dropped. And it may have
//
//   bool Bound::ramp(Span q, Span keys, float* per_key) const;
//
// Whether all that it does to the logits of these queries and keys (there is one of each at least)
// is to add a number of each query's own and *per_key more, in natural units, for each key than for
// the key before: ramps cost little on Hopper, where tensor cores add them. operator()(0, q,
// keys.begin) is then what it adds for the first key. And a score that depends on the logit alone
// may have
//
//   Shortcut Bound::shortcut(float scale) const;
//
// a few operations without a branch, good for some logits only, which may then run beside the
// exponentials. Shortcut is a type of the score's own, of any name, with
//
//   float operator()(float product, float more) const;
//   float most(float log2_logit) const;
//   float limit() const;
//
// operator() returns log2_e * logit + more, where product = q . k. Up to most(x) no product makes
// log2_e * logit larger than x, nor is one outside of what the shortcut is good for; it is negative
// where there is no such product, or no shortcut. Nor is a product good that is below -limit().
#pragma once

#include "ptx/score_math.hpp"
#include "types.hpp"
#if !defined(__CUDACC_RTC__)
#include "detail/check_view.hpp"
#include "detail/math.hpp"
#endif

namespace strobe {
inline namespace STROBE_ABI {

/// Logits of one row that a thread holds of a key tile, scaled: logits[i] is that of key k +
/// offset(i). Size is a multiple of 4, k a multiple of 2; groups of 4 lie in 16 keys that begin at
/// a multiple of 16.
template <int Size>
struct LogitRow {
  float logits[Size];
  int q, k;
  static constexpr int size = Size;
  STROBE_HOST_DEVICE static constexpr int offset(int i) { return 8 * (i / 2) + i % 2; }
};

namespace detail {
// Looked up by name alone, so that a wrong signature is an error and never a silent default.
template <class Bound>
STROBE_HOST_DEVICE constexpr auto has_shortcut(int) -> decltype(&Bound::shortcut, true) {
  return true;
}
template <class Bound>
STROBE_HOST_DEVICE constexpr bool has_shortcut(...) {
  return false;
}
template <class Shortcut, class = void>
inline constexpr bool is_shortcut = false;
template <class Shortcut>
inline constexpr bool is_shortcut<Shortcut, Void<decltype(float(declare<Shortcut>()(0.f, 0.f))),
                                                 decltype(float(declare<Shortcut>().most(0.f))),
                                                 decltype(float(declare<Shortcut>().limit()))>> =
    true;
template <class Bound>
STROBE_HOST_DEVICE constexpr auto has_ramp(int) -> decltype(&Bound::ramp, true) {
  return true;
}
template <class Bound>
STROBE_HOST_DEVICE constexpr bool has_ramp(...) {
  return false;
}

// To nvcc a call of a score that lacks __device__ is only a warning, and what the kernel would do
// is anybody's guess.
#if defined(__NVCC__)
#pragma nv_diagnostic push
#pragma nv_diag_error 20011, 20014
#endif
/// Scores a row, whole where the score takes rows (the last argument is an int to choose that).
template <class Bound, int Size>
STROBE_HOST_DEVICE auto score_row(const Bound& bound, LogitRow<Size>& row, int, int)
    -> decltype(bound(row)) {
  bound(row);
}
/// Else one by one; past kv_len, which is not 0, the last key is scored once more.
template <class Bound, int Size>
STROBE_HOST_DEVICE void score_row(const Bound& bound, LogitRow<Size>& row, int kv_len, long) {
  STROBE_UNROLL
  for (int i = 0; i < Size; ++i)
    row.logits[i] =
        bound(row.logits[i], row.q, min_of(row.k + LogitRow<Size>::offset(i), kv_len - 1));
}
#if defined(__NVCC__)
#pragma nv_diagnostic pop
#endif
}  // namespace detail

/// Softmax sees the logits as they are. The kernels know this type and fold the scale into the
/// exponential.
struct NoScore {
  STROBE_HOST_DEVICE NoScore bind(const Block&) const { return {}; }
  STROBE_HOST_DEVICE float operator()(float logit, int, int) const { return logit; }
};

/// cap * tanh(logit / cap): keeps logits within (-cap, cap). cap > 0.
struct SoftCap {
  float cap = 50.f;

  /// As cap - cap * 2 / (1 + e^(2 logit / cap)): right at both ends, where a quotient of two
  /// exponentials is inf / inf. Absolute error about 5e-7 * cap; tanh.approx.f32 would be faster
  /// but is only good to 2^-11.
  struct Bound {
    float cap, two_log2_e_per_cap;
    STROBE_HOST_DEVICE float operator()(float logit, int, int) const {
      const float divisor = ptx::half_of_one_plus_exp2(logit * two_log2_e_per_cap);
      return cap - cap * ptx::reciprocal_of(divisor);
    }
    /// One division for four: exponentials and divisions are what a soft cap waits for.
    template <int Size>
    STROBE_HOST_DEVICE void operator()(LogitRow<Size>& row) const {
      STROBE_UNROLL
      for (int i = 0; i < Size; i += 4) {
        float d[4];
        STROBE_UNROLL
        for (int j = 0; j < 4; ++j)
          d[j] = ptx::half_of_one_plus_exp2(row.logits[i + j] * two_log2_e_per_cap);
        const float left = d[0] * d[1], right = d[2] * d[3],
                    inverse = ptx::reciprocal_of(left * right), per_left = inverse * right,
                    per_right = inverse * left;
        const float quotient[4] = {per_left * d[1], per_left * d[0], per_right * d[3],
                                   per_right * d[2]};
        STROBE_UNROLL
        for (int j = 0; j < 4; ++j) row.logits[i + j] = cap - cap * quotient[j];
      }
    }

    /// tanh(x) = x * p(x^2) for |x| <= 0.5, p of degree 3 with an absolute error of 1.3e-7, its
    /// factors multiplied by scale and cap beforehand: no exponential and no division.
    struct Shortcut {
      float largest, per_scale, factor[4];
      STROBE_HOST_DEVICE float operator()(float product, float more) const {
        const float square = product * product;
        float sum = factor[3];
        STROBE_UNROLL
        for (int n = 2; n >= 0; --n) sum = fmaf(sum, square, factor[n]);
        return fmaf(product, sum, more);
      }
      STROBE_HOST_DEVICE float most(float log2_logit) const {
        const float product = log2_logit * per_scale;  // a cap only makes it smaller
        return product < largest ? product : largest;
      }
      STROBE_HOST_DEVICE float limit() const { return largest; }
    };
    STROBE_HOST_DEVICE Shortcut shortcut(float scale) const {
      constexpr float p[4] = {0.99999768f, -0.33320655f, 0.13145146f, -0.043372483f};
      const float x_per_product = scale * (two_log2_e_per_cap / (2 * log2_e)),
                  per_square = x_per_product * x_per_product;
      Shortcut s;
      // Within these bounds no factor overflows, or underflows where it matters.
      const bool exists =
          x_per_product > 1e-5f && x_per_product < 10.f && cap > 1e-2f && cap < 1e20f;
      s.largest = exists ? 0.5f * ptx::reciprocal_of(x_per_product) : -1.f;
      float power = scale * log2_e;
      s.per_scale = ptx::reciprocal_of(power);
      STROBE_UNROLL
      for (int n = 0; n < 4; ++n, power *= per_square) s.factor[n] = power * p[n];
      return s;
    }
  };
  STROBE_HOST_DEVICE Bound bind(const Block&) const { return {cap, 2 * log2_e / cap}; }

#if !defined(__CUDACC_RTC__)
  Status check(const Bounds&) const noexcept {
    if (!detail::is_finite(cap) || !(cap > 0.f) || !detail::is_finite(2 * log2_e / cap))
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
    STROBE_HOST_DEVICE float operator()(float logit, int q, int k) const {
      return logit - slope * float(q < k ? k - q : q - k);
    }
    /// On either side of the diagonal.
    STROBE_HOST_DEVICE bool ramp(Span q, Span keys, float* per_key) const {
      const bool before = keys.end - 1 <= q.begin, after = keys.begin >= q.end - 1;
      *per_key = before ? slope : -slope;
      return before || after;
    }
    /// slope * (q - k) in one operation from that of the first key, its size in the next.
    template <int Size>
    STROBE_HOST_DEVICE void operator()(LogitRow<Size>& row) const {
      const float first = slope * float(row.q - row.k);
      const auto subtract = [&](float sign) {
        STROBE_UNROLL
        for (int i = 0; i < Size; ++i)
          row.logits[i] -= sign * fabsf(fmaf(-float(LogitRow<Size>::offset(i)), slope, first));
      };
      if (slope < 0.f)
        subtract(-1.f);
      else
        subtract(1.f);
    }
  };
  STROBE_HOST_DEVICE Bound bind(const Block& block) const {
    return {slopes[block.batch * batch_stride + block.q_head]};
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
    /// Where both take rows.
    template <int Size>
    STROBE_HOST_DEVICE auto operator()(LogitRow<Size>& row) const
        -> decltype(first(row), second(row)) {
      first(row);
      second(row);
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
