// SPDX-License-Identifier: MIT
// A Problem laid out in memory with its guards and poison, ready to be launched through
// strobe::prefill, and the look at all memory that a launch had no business in.
#pragma once

#include <strobe/strobe.cuh>

#include <catch2/catch_test_macros.hpp>

#include <string>
#include <vector>

#include "memory.hpp"
#include "numbers.hpp"
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

}  // namespace strobe_test
