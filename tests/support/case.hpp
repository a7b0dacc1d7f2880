// SPDX-License-Identifier: MIT
// Runs a Problem through strobe::prefill and judges everything it wrote: values by the error rule,
// untouched memory bit by bit, guards. One description serves host execution and the GPU.
#pragma once

#include <strobe/strobe.cuh>

#include <catch2/catch_test_macros.hpp>

#include <cmath>
#include <memory>
#include <sstream>
#include <string>
#include <type_traits>
#include <vector>

#include "memory.hpp"
#include "numbers.hpp"
#include "oracle.hpp"
#include "problem.hpp"

namespace strobe_test {

/// Fills in what a problem leaves to the instance.
template <class Attention>
Problem completed(Problem p) {
  if (p.head_dim == 0) p.head_dim = Attention::compiled_head_dim;
  if (p.value_dim == 0) p.value_dim = Attention::compiled_value_dim;
  return p;
}

/// A problem laid out in memory, ready to be launched, as often as wanted.
template <class Attention>
class Prepared {
 public:
  using T = typename Attention::query_type;
  using Out = typename Attention::output_type;
  static constexpr unsigned char marker_byte =
      0xa5;  // finite in every type, and not a likely value

  explicit Prepared(const Problem& given, const typename Attention::mask_type& mask = {},
                    const typename Attention::score_type& score = {})
      : problem(completed<Attention>(given)),
        numbers(make_numbers<T>(problem)),
        mask_(mask),
        score_(score) {
    lay_out();
    fill();
    args = arguments();
  }

  /// Launches on `stream`; does not wait.
  strobe::Status launch(cudaStream_t stream = nullptr) const {
#if STROBE_HOST_EXECUTION
    // Two blocks that write the same row are an error even if they write the same value.
    const strobe::host::ScopedTracking o(o_.data(), o_.host.size() * sizeof(Out));
    const strobe::host::ScopedTracking lse(lse_.data(), lse_.host.size() * sizeof(float));
#endif
    return strobe::prefill(args, test_device(), strobe::Workspace{}, stream);
  }
  /// O and LSE as before the first launch.
  void reset_outputs() const {
    o_.upload();
    lse_.upload();
  }
  /// New device-side lengths in the same memory, for graph replays. The tensors keep their numbers.
  void set_lens(const std::vector<int>& q_lens, const std::vector<int>& kv_lens) {
    if (!q_lens.empty()) q_lens_.host = problem.q_lens = q_lens, q_lens_.upload();
    if (!kv_lens.empty()) kv_lens_.host = problem.kv_lens = kv_lens, kv_lens_.upload();
  }
  std::vector<Out> download_o() const { return o_.download(); }
  std::vector<float> download_lse() const { return lse_.download(); }

  /// Empty, or what is wrong with memory that the kernel had no business in.
  std::string damage(const std::vector<Out>& o, const std::vector<float>& lse) const {
    std::vector<char> live_o(o.size(), 0), live_lse(lse.size(), 0);
    for (int b = 0; b < problem.batch; ++b) {
      const Extent e = extent_of(problem, b);
      for (int t = 0; t < e.q_len; ++t)
        for (int h = 0; h < problem.q_heads; ++h) {
          const auto at = size_t(o_place.at(e.q_batch, e.q_begin + t, h));
          for (int d = 0; d < problem.value_dim; ++d) live_o[at + size_t(d)] = 1;
          if (problem.lse) live_lse[size_t(lse_place.at(e.q_batch, e.q_begin + t, h))] = 1;
        }
    }
    for (size_t i = 0; i < o.size(); ++i)
      if (live_o[i] == 0 && bits_of(o[i]) != bits_of(o_.host[i]))
        return "O's memory was written where no output lives, at element " + std::to_string(i);
    for (size_t i = 0; i < lse.size(); ++i)
      if (live_lse[i] == 0 && bits_of(lse[i]) != bits_of(lse_.host[i]))
        return "LSE's memory was written where none lives, at element " + std::to_string(i);
    const auto same = [](const char* name, const auto& buffer) -> std::string {
      if (const std::string bad = buffer.guard_damage(); !bad.empty()) return name + (": " + bad);
      return {};
    };
    std::string bad;
    if (!(bad = same("O", o_)).empty()) return bad;
    if (!(bad = same("LSE", lse_)).empty()) return bad;
    for (const Buffer<T>& buffer : inputs_) {
      if (!(bad = same("an input", buffer)).empty()) return bad;
      const std::vector<T> now = buffer.download();
      if (!same_bytes(now, buffer.host)) return "an input was overwritten";
    }
    for (const Buffer<int>* lengths : {&q_lens_, &kv_lens_, &q_offsets_, &kv_offsets_})
      if (!lengths->host.empty() && !(bad = same("a length array", *lengths)).empty()) return bad;
    return {};
  }

  const typename Attention::mask_type& mask() const { return mask_; }
  const typename Attention::score_type& score() const { return score_; }

  Problem problem;
  Numbers numbers;
  Attention args;
  Place q_place, k_place, v_place, o_place, lse_place;

 private:
  void lay_out() {
    Problem& p = problem;
    const bool q_packed = !p.q_offsets.empty(), kv_packed = !p.kv_offsets.empty();
    const int64_t q_batch = q_packed ? 1 : p.batch, kv_batch = kv_packed ? 1 : p.batch;
    const int64_t q_rows = q_rows_of(p), kv_rows = kv_rows_of(p);
    q_place = place(p.q, q_batch, q_rows, p.q_heads, p.head_dim);
    k_place = place(p.k, kv_batch, kv_rows, p.kv_heads, p.head_dim);
    v_place = place(p.v, kv_batch, kv_rows, p.kv_heads, p.value_dim);
    o_place = place(p.o, q_batch, q_rows, p.q_heads, p.value_dim);
    lse_place = place(p.lse_layout, q_batch, q_rows, p.q_heads, 1);
    const int64_t dim = p.head_dim;
    if (p.storage == Storage::v_in_k) v_place = k_place;
    if (p.storage == Storage::packed_kv) {
      REQUIRE(p.head_dim == p.value_dim);
      const int64_t token = 2 * p.kv_heads * dim;
      k_place = Place{0, kv_rows * token, token, dim, kv_batch * kv_rows * token};
      v_place = k_place;
      v_place.offset = p.kv_heads * dim;
    }
    if (p.storage == Storage::packed_qkv) {
      REQUIRE(p.head_dim == p.value_dim);
      REQUIRE(q_batch == kv_batch);
      const int64_t rows = std::max(q_rows, kv_rows), token = (p.q_heads + 2 * p.kv_heads) * dim;
      q_place = Place{0, rows * token, token, dim, q_batch * rows * token};
      k_place = v_place = q_place;
      k_place.offset = p.q_heads * dim;
      v_place.offset = (p.q_heads + p.kv_heads) * dim;
    }
  }

  void fill() {
    const auto poison =
        from_bits<T>(problem.poison == Poison::nan ? Format<T>::nan : Format<T>::infinity);
    // Which buffer Q, K, V live in.
    const int k_buffer = problem.storage == Storage::packed_qkv ? 0 : 1;
    const int v_buffer = problem.storage == Storage::separate ? 2 : k_buffer;
    const int64_t ends[3] = {q_place.end, k_place.end, v_place.end};
    std::vector<T> memory[3];
    for (int i = 0; i <= v_buffer; ++i) memory[i].assign(size_t(ends[i]), poison);
    for (int b = 0; b < problem.batch; ++b) {
      const Extent e = extent_of(problem, b);
      const auto write = [&](std::vector<T>& to, const Place& place, int batch, int64_t begin,
                             int len, int heads, int dims, const std::vector<float>& from,
                             auto from_at) {
        for (int t = 0; t < len; ++t)
          for (int h = 0; h < heads; ++h)
            for (int d = 0; d < dims; ++d)
              to[size_t(place.at(batch, begin + t, h) + d)] =
                  rounded_to<T>(from[size_t(from_at(b, t, h) + d)]);
      };
      const Numbers& n = numbers;
      write(memory[0], q_place, e.q_batch, e.q_begin, e.q_len, n.q_heads, n.head_dim, n.q,
            [&](int i, int t, int h) { return n.q_at(i, t, h); });
      write(memory[k_buffer], k_place, e.kv_batch, e.kv_begin, e.kv_len, n.kv_heads, n.head_dim,
            n.k, [&](int i, int t, int h) { return n.k_at(i, t, h); });
      write(memory[v_buffer], v_place, e.kv_batch, e.kv_begin, e.kv_len, n.kv_heads, n.value_dim,
            n.v, [&](int i, int t, int h) { return n.v_at(i, t, h); });
    }
    for (int i = 0; i <= v_buffer; ++i) inputs_.emplace_back(std::move(memory[i]));
    q_data_ = inputs_[0].data() + q_place.offset;
    k_data_ = inputs_[size_t(k_buffer)].data() + k_place.offset;
    v_data_ = inputs_[size_t(v_buffer)].data() + v_place.offset;

    const auto marked = [](auto& values) {
      std::memset(static_cast<void*>(values.data()), marker_byte,
                  values.size() * sizeof(values[0]));
    };
    std::vector<Out> o(size_t(o_place.end));
    std::vector<float> lse(size_t(lse_place.end));
    marked(o);
    marked(lse);
    o_ = Buffer<Out>(std::move(o));
    lse_ = Buffer<float>(std::move(lse), 4);
    q_lens_ = Buffer<int>(problem.q_lens, 4);
    kv_lens_ = Buffer<int>(problem.kv_lens, 4);
    q_offsets_ = Buffer<int>(problem.q_offsets, 4);
    kv_offsets_ = Buffer<int>(problem.kv_offsets, 4);
  }

  Attention arguments() const {
    Attention a;
    a.q = {q_data_, q_place.batch, q_place.token, q_place.head};
    a.kv.k = {k_data_, k_place.batch, k_place.token, k_place.head};
    a.kv.v = {v_data_, v_place.batch, v_place.token, v_place.head};
    a.o = {o_.data() + o_place.offset, o_place.batch, o_place.token, o_place.head};
    if (problem.lse)
      a.lse = {lse_.data() + lse_place.offset, lse_place.batch, lse_place.token, lse_place.head};
    a.mask = mask_;
    a.score = score_;
    a.bounds = {problem.batch, problem.q_len, problem.kv_len, problem.q_heads, problem.kv_heads};
    const auto pointer = [](const Buffer<int>& b) { return b.host.empty() ? nullptr : b.data(); };
    a.lengths = {pointer(q_offsets_), pointer(q_lens_), pointer(kv_offsets_), pointer(kv_lens_)};
    a.scale = problem.scale;
    a.head_dim = problem.head_dim;
    a.value_dim = problem.value_dim;
    return a;
  }

  typename Attention::mask_type mask_;
  typename Attention::score_type score_;
  std::vector<Buffer<T>> inputs_;
  Buffer<Out> o_;
  Buffer<float> lse_;
  Buffer<int> q_lens_, kv_lens_, q_offsets_, kv_offsets_;
  const T* q_data_ = nullptr;
  const T* k_data_ = nullptr;
  const T* v_data_ = nullptr;
};

/// O and LSE of the live rows, dense by (batch, head, row), for comparing runs with each other.
struct Result {
  std::vector<float> o, lse;
  int64_t rows = 0;
  int q_heads = 0, value_dim = 0;
  double worst_error = 0.0, mean_error = 0.0;  // |O - oracle| over what was judged
  int64_t lucky_rows = 0;                      // beyond 2x the plain error alone, see verdict()

  const float* row(int b, int h, int t) const {
    return o.data() + ((int64_t(b) * q_heads + h) * rows + t) * value_dim;
  }
  float lse_at(int b, int h, int t) const {
    return lse[size_t((int64_t(b) * q_heads + h) * rows + t)];
  }
};

/// Whether two results agree in every bit; both from problems with the same live rows.
inline bool same_bits(const Result& a, const Result& b) {
  return same_bytes(a.o, b.o) && same_bytes(a.lse, b.lse);
}

template <class Attention>
Result gather(const Prepared<Attention>& prepared,
              const std::vector<typename Attention::output_type>& o,
              const std::vector<float>& lse) {
  const Problem& p = prepared.problem;
  Result r;
  r.rows = prepared.numbers.q_rows;
  r.q_heads = p.q_heads;
  r.value_dim = p.value_dim;
  r.o.assign(size_t(p.batch * r.rows * p.q_heads * p.value_dim), 0.f);
  r.lse.assign(size_t(p.batch * r.rows * p.q_heads), 0.f);
  for (int b = 0; b < p.batch; ++b) {
    const Extent e = extent_of(p, b);
    for (int h = 0; h < p.q_heads; ++h)
      for (int t = 0; t < e.q_len; ++t) {
        const auto dense = size_t((int64_t(b) * p.q_heads + h) * r.rows + t);
        const auto at = size_t(prepared.o_place.at(e.q_batch, e.q_begin + t, h));
        for (size_t d = 0; d < size_t(p.value_dim); ++d)
          r.o[dense * size_t(p.value_dim) + d] = to_float(o[at + d]);
        if (p.lse) r.lse[dense] = lse[size_t(prepared.lse_place.at(e.q_batch, e.q_begin + t, h))];
      }
  }
  return r;
}

/// -1 for -infinity, 1 for infinity, 2 for NaN, 0 for numbers: compared before values are.
inline int kind_of(double x) { return std::isnan(x) ? 2 : std::isinf(x) ? (x < 0.0 ? -1 : 1) : 0; }

/// Compares O and LSE, as a launch left them in memory, with the oracle by the error rule, and
/// looks at all memory that had to stay as it was. Empty, or what is wrong.
///
/// Luck: the plain implementation rounds P after dividing by its sum, any FlashAttention before.
/// The two errors are alike in size but not the same, and where few keys count, the plain one is
/// now and then (one row in some thousands) so small that twice it is not enough. Such a row must
/// lie within the bound that no rounding of P can exceed, and they must be rare: one row, or 1% of
/// the problem.
///
/// fp32 output with P rounded to 16 bits: one ulp of the output is next to nothing there, and luck
/// decides one row in 200. So the row rule judges that output after rounding it to 16 bits, to what
/// the same call with 16-bit output gives, and the fp32 values are held to twice the plain error
/// over the whole problem, where luck evens out.
template <class Attention>
std::string verdict(const Prepared<Attention>& prepared,
                    const std::vector<typename Attention::output_type>& o,
                    const std::vector<float>& lse, Result& result) {
  using Out = typename Attention::output_type;
  using T = typename Attention::query_type;
  constexpr bool wider_than_p = std::is_same_v<Out, float> &&
                                Attention::policy_type::precision == strobe::Precision::standard;
  using Judged = std::conditional_t<wider_than_p, T, Out>;
  const Problem& p = prepared.problem;
  const Numbers& n = prepared.numbers;
  result = gather(prepared, o, lse);

  struct Row {
    int b, h, t;
    ExpectedRow expected;
  };
  std::vector<Row> rows;
  Random random(p.seed + 77);
  for (int b = 0; b < p.batch; ++b) {
    if (std::find(p.unjudged.begin(), p.unjudged.end(), b) != p.unjudged.end()) continue;
    const int len = extent_of(p, b).q_len;
    for (int h = 0; h < p.q_heads; ++h) {
      if (p.rows_checked == 0 || len <= p.rows_checked) {
        for (int t = 0; t < len; ++t) rows.push_back({b, h, t, {}});
      } else {
        for (int t : {0, 1, len - 2, len - 1}) rows.push_back({b, h, t, {}});
        for (int i = 4; i < p.rows_checked; ++i) rows.push_back({b, h, random.below(len), {}});
      }
    }
  }
  const float scale = p.scale.given ? p.scale.value : float(1.0 / std::sqrt(double(p.head_dim)));
  parallel_for(int64_t(rows.size()), [&](int64_t i) {
    Row& row = rows[size_t(i)];
    const Extent e = extent_of(p, row.b);
    const int kv_head = row.h / (p.q_heads / p.kv_heads);
    const Head head{n.q.data() + n.q_at(row.b, 0, row.h),
                    n.k.data() + n.k_at(row.b, 0, kv_head),
                    n.v.data() + n.v_at(row.b, 0, kv_head),
                    row.b,
                    row.h,
                    kv_head,
                    e.q_len,
                    e.kv_len,
                    p.head_dim,
                    p.value_dim,
                    scale};
    row.expected = expected_row<T, Judged>(
        head, row.t, Visible<typename Attention::mask_type>(prepared.mask(), head),
        Shaped<typename Attention::score_type>(prepared.score(), head));
  });

  int64_t bad = 0, judged = 0, lucky_rows = 0;
  double sum = 0.0, worst_plain_error = 0.0;
  std::ostringstream first;
  first.precision(9);
  for (const Row& row : rows) {
    const ExpectedRow& expected = row.expected;
    const auto complain = [&](const std::string& what, double want, double got, double allowed) {
      if (bad++ == 0)
        first << what << " of batch " << row.b << ", head " << row.h << ", row " << row.t
              << ": expected " << want << ", got " << got << ", |difference| "
              << std::fabs(got - want) << ", allowed " << allowed << " (plain error of the row "
              << expected.plain_error << ")";
    };
    worst_plain_error = std::max(worst_plain_error, expected.unrounded_plain_error);
    bool lucky = false;
    for (int d = 0; d < p.value_dim; ++d) {
      const float value = result.row(row.b, row.h, row.t)[d];
      const double want = expected.o[size_t(d)], got = double(round_through<Judged>(value));
      const double allowed = 2.0 * expected.plain_error + ulp_at<Judged>(want);
      const double error = std::fabs(double(value) - want);
      ++judged;
      if (kind_of(want) != kind_of(got) || !(std::fabs(got - want) <= allowed)) {
        const double at_most = expected.rounding_bound[size_t(d)] + ulp_at<Judged>(want);
        if (kind_of(want) == kind_of(got) && std::fabs(got - want) <= at_most)
          lucky = true;
        else
          complain("O[" + std::to_string(d) + "]", want, got, std::max(allowed, at_most));
      }
      sum += error;
      result.worst_error = std::max(result.worst_error, error);
    }
    lucky_rows += lucky;
    if (!p.lse) continue;
    const double want = expected.lse, got = double(result.lse_at(row.b, row.h, row.t));
    if (kind_of(want) != kind_of(got) ||
        (kind_of(want) == 0 && !(std::fabs(got - want) <= expected.lse_allowed)))
      complain("LSE", want, got, expected.lse_allowed);
  }
  result.lucky_rows = lucky_rows;
  result.mean_error = judged == 0 ? 0.0 : sum / double(judged);

  std::ostringstream wrong;
  if (bad != 0) wrong << first.str() << "; " << bad << " such values, " << judged << " judged; ";
  if (lucky_rows > std::max<int64_t>(1, int64_t(rows.size()) / 100))
    wrong << lucky_rows << " of " << rows.size() << " rows exceed 2x their plain error; ";
  if (wider_than_p && result.worst_error > 2.0 * worst_plain_error + 1e-6)
    wrong << "fp32 output: largest error " << result.worst_error << ", plain implementation "
          << worst_plain_error << "; ";
  if (const std::string damage = prepared.damage(o, lse); !damage.empty()) wrong << damage << "; ";
  return wrong.str().empty() ? std::string() : wrong.str() + describe(p);
}

/// verdict() of what lies in memory now, reported through Catch2.
template <class Attention>
Result judge(const Prepared<Attention>& prepared) {
  Result result;
  const std::string wrong =
      verdict(prepared, prepared.download_o(), prepared.download_lse(), result);
  if (wrong.empty())
    SUCCEED();
  else
    FAIL_CHECK(wrong);
  return result;
}

/// The usual test: lay out, launch once, judge.
template <class Attention>
Result check_problem(const Problem& problem, const typename Attention::mask_type& mask = {},
                     const typename Attention::score_type& score = {}) {
  const Prepared<Attention> prepared(problem, mask, score);
  require_ok(prepared.launch());
  finish();
  return judge(prepared);
}

/// Launches and gathers without judging, for comparisons of runs bit by bit.
template <class Attention>
Result run_problem(const Problem& problem, const typename Attention::mask_type& mask = {},
                   const typename Attention::score_type& score = {}) {
  const Prepared<Attention> prepared(problem, mask, score);
  require_ok(prepared.launch());
  finish();
  return gather(prepared, prepared.download_o(), prepared.download_lse());
}

}  // namespace strobe_test
