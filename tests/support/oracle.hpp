// SPDX-License-Identifier: MIT
// The judge: attention in fp64 on the CPU, and beside it the plain implementation whose error says
// how much error is fair (DESIGN section 6). Host code; shares nothing with the kernels. For the
// masks and scores everybody has, the formulas are written out again here; for all others the
// oracle asks the user-facing type, element by element, and never its tiles.
#pragma once

#include <strobe/mask.hpp>
#include <strobe/score.hpp>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <limits>
#include <thread>
#include <vector>

#include "numbers.hpp"

namespace strobe_test {

/// One query head of one sequence and the K/V head it uses; rows are dense, values exact.
struct Head {
  const float* q;  // [q_len][head_dim]
  const float* k;  // [kv_len][head_dim]
  const float* v;  // [kv_len][value_dim]
  int batch, q_head, kv_head;
  int q_len, kv_len;
  int head_dim, value_dim;
  float scale;
};

// ---- masks: does row `row` of the head see key k?
// ---------------------------------------------------

/// Any mask, asked element by element through its own bind() and visible().
template <class Mask>
class Visible {
 public:
  Visible(const Mask& mask, const Head& h)
      : first_(h.kv_len - h.q_len),
        bound_(mask.bind(strobe::Block{
            h.batch, h.q_head, h.kv_head, {first_, first_ + h.q_len}, h.q_len, h.kv_len})) {}
  bool operator()(int row, int k) const { return bound_.visible(first_ + row, k); }

 private:
  int first_;
  decltype(std::declval<const Mask&>().bind(strobe::Block{})) bound_;
};
template <>
class Visible<strobe::Full> {
 public:
  Visible(const strobe::Full&, const Head&) {}
  bool operator()(int, int) const { return true; }
};
template <>
class Visible<strobe::Causal> {
 public:
  Visible(const strobe::Causal&, const Head& h) : h_(h) {}
  // Counted from the end: the last query sees all keys, the one before it all but one, ...
  bool operator()(int row, int k) const { return h_.q_len - 1 - row <= h_.kv_len - 1 - k; }

 private:
  Head h_;
};
template <>
class Visible<strobe::Window> {
 public:
  Visible(const strobe::Window& window, const Head& h) : window_(window), h_(h) {}
  bool operator()(int row, int k) const {
    const long long own = static_cast<long long>(h_.kv_len) - h_.q_len + row;
    const long long behind = own - k, ahead = k - own;
    return (window_.left == strobe::unlimited || behind <= window_.left) &&
           (window_.right == strobe::unlimited || ahead <= window_.right);
  }

 private:
  strobe::Window window_;
  Head h_;
};

// ---- scores: logit of (row, k) in fp64
// --------------------------------------------------------------

/// Any score, asked through its own bind() and operator().
template <class Score>
class Shaped {
 public:
  Shaped(const Score& score, const Head& h)
      : first_(h.kv_len - h.q_len),
        bound_(score.bind(strobe::Block{
            h.batch, h.q_head, h.kv_head, {first_, first_ + h.q_len}, h.q_len, h.kv_len})) {}
  double operator()(double logit, int row, int k) const {
    return double(bound_(float(logit), first_ + row, k));
  }

 private:
  int first_;
  decltype(std::declval<const Score&>().bind(strobe::Block{})) bound_;
};
template <>
class Shaped<strobe::NoScore> {
 public:
  Shaped(const strobe::NoScore&, const Head&) {}
  double operator()(double logit, int, int) const { return logit; }
};
template <>
class Shaped<strobe::SoftCap> {
 public:
  Shaped(const strobe::SoftCap& score, const Head&) : cap_(double(score.cap)) {}
  double operator()(double logit, int, int) const { return cap_ * std::tanh(logit / cap_); }

 private:
  double cap_;
};
template <>
class Shaped<strobe::Alibi> {
 public:
  Shaped(const strobe::Alibi& score, const Head& h)
      : slope_(double(score.slopes[h.batch * score.batch_stride + h.q_head])),
        first_(h.kv_len - h.q_len) {}
  double operator()(double logit, int row, int k) const {
    return logit - slope_ * std::abs(first_ + row - k);
  }

 private:
  double slope_;
  int first_;
};
template <class First, class Second>
class Shaped<strobe::Chain<First, Second>> {
 public:
  Shaped(const strobe::Chain<First, Second>& score, const Head& h)
      : first_(score.first, h), second_(score.second, h) {}
  double operator()(double logit, int row, int k) const {
    return second_(first_(logit, row, k), row, k);
  }

 private:
  Shaped<First> first_;
  Shaped<Second> second_;
};

// ---- one row
// ---------------------------------------------------------------------------------------

struct ExpectedRow {
  std::vector<double> o;               // [value_dim]; 0 where the row sees no key
  double lse = 0.0;                    // natural logarithm; -infinity where it sees none
  double lse_allowed = 0.0;            // 1e-5 + 1e-6 * largest sum over d of |scale q_d k_d|
  double plain_error = 0.0;            // largest |plain implementation - oracle| over the row
  double unrounded_plain_error = 0.0;  // the same before the plain output is rounded
  std::vector<double> rounding_bound;  // [value_dim]; no rounding of P can cost more
};

/// The oracle and the plain implementation of one row. The latter: fp32 Q K^T of the 16-bit inputs,
/// fp32 softmax, P rounded to P's type, fp32 P V, rounded to the output type. P is rounded after
/// the division by its sum, as a framework's softmax does, or before it, as FlashAttention does:
/// the plain error is the larger of the two, because either can be small by luck.
template <class P, class Out, class Mask, class Score>
ExpectedRow expected_row(const Head& h, int row, const Visible<Mask>& visible,
                         const Shaped<Score>& shaped) {
  constexpr double none = -std::numeric_limits<double>::infinity();
  constexpr int lanes = 8;  // independent sums, so that the compiler can use vectors
  std::vector<double> exact(static_cast<size_t>(h.kv_len), none);
  std::vector<double> plain(static_cast<size_t>(h.kv_len), none);
  ExpectedRow expected;
  expected.o.assign(static_cast<size_t>(h.value_dim), 0.0);
  expected.rounding_bound = expected.o;
  double largest = none, plain_largest = none, largest_terms = 0.0;
  const float* const q = h.q + static_cast<int64_t>(row) * h.head_dim;
  for (int key = 0; key < h.kv_len; ++key) {
    if (!visible(row, key)) continue;
    const float* const k = h.k + static_cast<int64_t>(key) * h.head_dim;
    double sums[lanes] = {}, terms[lanes] = {};
    float plain_sums[lanes] = {};
    for (int d = 0; d < h.head_dim; d += lanes) {  // head_dim is a multiple of 8
      for (int i = 0; i < lanes; ++i) {
        const double product = double(q[d + i]) * double(k[d + i]);  // exact
        sums[i] += product;
        terms[i] += std::fabs(product);
        plain_sums[i] += float(product);
      }
    }
    double sum = 0.0, term = 0.0;
    float plain_sum = 0.f;
    for (int i = 0; i < lanes; ++i) {
      sum += sums[i];
      term += terms[i];
      plain_sum += plain_sums[i];
    }
    const auto at = static_cast<size_t>(key);
    exact[at] = shaped(sum * double(h.scale), row, key);
    plain[at] = double(float(shaped(double(plain_sum * h.scale), row, key)));
    largest = std::max(largest, exact[at]);
    plain_largest = std::max(plain_largest, plain[at]);
    largest_terms = std::max(largest_terms, term * std::fabs(double(h.scale)));
  }
  expected.lse_allowed = 1e-5 + 1e-6 * largest_terms;
  if (largest == none) {  // a row that sees no key
    expected.lse = none;
    return expected;
  }

  double l = 0.0;
  float plain_l = 0.f;
  for (size_t key = 0; key < exact.size(); ++key) {
    exact[key] = std::exp(exact[key] - largest);
    plain[key] = double(std::exp(float(plain[key]) - float(plain_largest)));
    l += exact[key];
    plain_l += float(plain[key]);
  }
  std::vector<float> plain_o[2] = {std::vector<float>(expected.o.size(), 0.f),
                                   std::vector<float>(expected.o.size(), 0.f)};
  for (size_t key = 0; key < exact.size(); ++key) {
    if (exact[key] == 0.0 && plain[key] == 0.0) continue;  // also keeps 0 * non-finite V out
    const float* const v = h.v + static_cast<int64_t>(key) * h.value_dim;
    const double p = exact[key] / l;
    const float rounded[2] = {round_through<P>(float(plain[key]) / plain_l),
                              round_through<P>(float(plain[key]))};
    // Half an ulp of a normal p is at most 2^-digits of it; below the normal numbers it is
    // constant.
    const double p_error = std::max(std::ldexp(p, -Format<P>::digits), 0.5 * ulp_at<P>(0.0) / l);
    for (size_t d = 0; d < expected.o.size(); ++d) {
      expected.o[d] += p * double(v[d]);
      plain_o[0][d] += rounded[0] * v[d];
      plain_o[1][d] += rounded[1] * v[d];
      expected.rounding_bound[d] += p_error * std::fabs(double(v[d]));
    }
  }
  expected.lse = largest + std::log(l);
  for (size_t d = 0; d < expected.o.size(); ++d) {
    for (const float o : {plain_o[0][d], plain_o[1][d] / plain_l}) {
      const double rounded = double(round_through<Out>(o));
      expected.plain_error = std::max(expected.plain_error, std::fabs(rounded - expected.o[d]));
      expected.unrounded_plain_error =
          std::max(expected.unrounded_plain_error, std::fabs(double(o) - expected.o[d]));
    }
  }
  return expected;
}

/// body(0) .. body(count - 1), on all cores where the machine is the tests' own (the GPU machine);
/// on one under host execution, where tests already run side by side.
template <class Body>
void parallel_for(int64_t count, const Body& body) {
#if STROBE_HOST_EXECUTION
  const int64_t threads = 1;
#else
  const int64_t threads =
      std::min<int64_t>(std::max(1u, std::thread::hardware_concurrency()), count / 16);
#endif
  if (threads <= 1) {
    for (int64_t i = 0; i < count; ++i) body(i);
    return;
  }
  std::atomic<int64_t> next{0};
  std::vector<std::thread> workers;
  for (int64_t t = 0; t < threads; ++t)
    workers.emplace_back([&] {
      for (int64_t begin; (begin = next.fetch_add(16)) < count;)
        for (int64_t i = begin; i < std::min(begin + 16, count); ++i) body(i);
    });
  for (std::thread& worker : workers) worker.join();
}

}  // namespace strobe_test
