// SPDX-License-Identifier: MIT
// A problem: what a test wants computed, on which numbers and in which memory layout. Host code.
#pragma once

#include <strobe/types.hpp>

#include <algorithm>
#include <cstdint>
#include <functional>
#include <sstream>
#include <string>
#include <vector>

#include "numbers.hpp"

namespace strobe_test {

enum class Input {
  normal,       ///< standard normal
  outliers,     ///< normal, and a few channels and keys many times larger, as in real models
  all_equal,    ///< every element the same: every key has the same weight
  alternating,  ///< +big, -big by token: the largest and the smallest logits side by side
};

enum class Order { token_major, head_major };

/// How one tensor lies in memory. Paddings are elements and hold poison.
struct Layout {
  Order order = Order::token_major;
  int row_pad = 0;    ///< after every row of head_dim elements
  int outer_pad = 0;  ///< after every token (token-major) or head (head-major)
  int batch_pad = 0;  ///< after every batch entry
  int offset = 0;     ///< before the first element
};

/// Tensors that share memory.
enum class Storage {
  separate,
  v_in_k,      ///< V's rows are the first value_dim elements of K's rows
  packed_kv,   ///< [token][K or V][head][dim]
  packed_qkv,  ///< [token][q_heads + 2 kv_heads][dim]
};

enum class Poison { nan, infinity };

/// Pages of a problem whose instance has a Paged source; not looked at otherwise. Paddings are
/// elements and hold poison, as do free pages and slots.
struct Paging {
  int page_size = 16;
  uint64_t shuffle = 1;  ///< order of the pages; 0: ascending
  bool csr = false;
  bool interleaved = false;          ///< one pool [page][K or V][..]
  Order order = Order::token_major;  ///< inside a page
  int page_pad = 0;                  ///< after every page of K; V's is three times that
  int pool_pages = 0;                ///< 0: as many as needed and 3 more
};

using Values = std::function<float(int batch, int token, int head, int dim)>;

struct Problem {
  int batch = 1;
  int q_len = 64;   ///< the host's bound, and every length that nothing below says otherwise
  int kv_len = 64;  ///< likewise
  int q_heads = 1;
  int kv_heads = 1;
  int head_dim = 0;   ///< 0: the compiled width
  int value_dim = 0;  ///< 0: the compiled width
  int kv_splits = 0;  ///< of decode; 0: its own choice
  strobe::Scale scale;

  std::vector<int> q_lens, kv_lens;        ///< device lengths; empty: null
  std::vector<int> q_offsets, kv_offsets;  ///< packed tokens; empty: null
  int q_rows = 0;   ///< tokens the Q, O and LSE tensors have a batch entry; 0: as many as needed
  int kv_rows = 0;  ///< tokens of the K/V tensors ("capacity"); 0: as many as needed

  Input input = Input::normal;
  Values q_values, k_values, v_values;  ///< where set, instead of `input`
  uint64_t seed = 1;
  std::vector<int> like;  ///< sequence b gets the numbers of sequence like[b]; empty: of b
  bool lse = true;

  Layout q, k, v, o, lse_layout;
  Storage storage = Storage::separate;
  Paging paging;
  Poison poison = Poison::nan;  ///< what lies where nothing valid lives

  int rows_checked = 0;  ///< a head: the first 2, the last 2 and random ones up to this; 0: all
  std::vector<int> unjudged;  ///< sequences whose values are not finite by intent: nothing compared
};

/// What is real in sequence b, written out from the contract in types.hpp rather than called.
struct Extent {
  int q_len, kv_len;
  int64_t q_begin, kv_begin;  // first token
  int q_batch, kv_batch;      // index into batch strides
};

inline Extent extent_of(const Problem& p, int b) {
  const auto i = static_cast<size_t>(b);
  Extent e{p.q_len, p.kv_len, 0, 0, b, b};
  if (!p.q_offsets.empty()) {
    e.q_begin = p.q_offsets[i];
    e.q_batch = 0;
    e.q_len = std::min(e.q_len, p.q_offsets[i + 1] - p.q_offsets[i]);
  }
  if (!p.kv_offsets.empty()) {
    e.kv_begin = p.kv_offsets[i];
    e.kv_batch = 0;
    e.kv_len = std::min(e.kv_len, p.kv_offsets[i + 1] - p.kv_offsets[i]);
  }
  if (!p.q_lens.empty()) e.q_len = std::min(e.q_len, p.q_lens[i]);
  if (!p.kv_lens.empty()) e.kv_len = std::min(e.kv_len, p.kv_lens[i]);
  e.q_len = std::max(e.q_len, 0);
  e.kv_len = std::max(e.kv_len, 0);
  return e;
}

inline int64_t q_rows_of(const Problem& p) {
  return std::max(p.q_rows, p.q_offsets.empty() ? p.q_len : p.q_offsets.back());
}
inline int64_t kv_rows_of(const Problem& p) {
  return std::max(p.kv_rows, p.kv_offsets.empty() ? p.kv_len : p.kv_offsets.back());
}

/// Where element (0, 0, 0, 0) is and how far apart neighbours are; `end` is one past the last.
struct Place {
  int64_t offset = 0, batch = 0, token = 0, head = 0, end = 0;
  int64_t at(int64_t b, int64_t t, int64_t h) const {
    return offset + b * batch + t * token + h * head;
  }
};

inline Place place(const Layout& layout, int64_t batch, int64_t tokens, int64_t heads,
                   int64_t dim) {
  Place p;
  p.offset = layout.offset;
  if (layout.order == Order::token_major) {
    p.head = dim + layout.row_pad;
    p.token = heads * p.head + layout.outer_pad;
    p.batch = tokens * p.token + layout.batch_pad;
  } else {
    p.token = dim + layout.row_pad;
    p.head = tokens * p.token + layout.outer_pad;
    p.batch = heads * p.head + layout.batch_pad;
  }
  p.end = p.offset + batch * p.batch;
  return p;
}

/// Q, K, V of one problem as exact floats, dense: [batch][token][head][dim], only live tokens
/// filled. `T` is the type they are rounded to.
struct Numbers {
  std::vector<float> q, k, v;
  int64_t q_rows = 0, kv_rows = 0;  // a sequence's, not the tensor's
  int q_heads = 0, kv_heads = 0, head_dim = 0, value_dim = 0;

  // Dense by (batch, head) first, so that a head's rows are one block for the oracle.
  int64_t q_at(int b, int t, int h) const {
    return ((int64_t(b) * q_heads + h) * q_rows + t) * head_dim;
  }
  int64_t k_at(int b, int t, int h) const {
    return ((int64_t(b) * kv_heads + h) * kv_rows + t) * head_dim;
  }
  int64_t v_at(int b, int t, int h) const {
    return ((int64_t(b) * kv_heads + h) * kv_rows + t) * value_dim;
  }
};

namespace detail {
// which: 0 = Q, 1 = K, 2 = V.
inline float input_value(Input input, int which, Random& random, int token, int head, int dim) {
  const float normal = random.normal();
  switch (input) {
    case Input::normal:
      return normal;
    case Input::outliers:
      // A few channels of Q and K carry most of the length, and the first key draws attention with
      // a short V, as sinks of trained models do (tests/data/README.md).
      if (which == 2) return token == 0 ? 0.1f * normal : normal * (dim % 31 == 3 ? 12.f : 1.f);
      if (dim % 16 == 5) return (which == 1 && token == 0 ? 14.f : 7.f) + normal;
      return normal;
    case Input::all_equal:
      return which == 2 ? 0.5f + 0.25f * float(head % 3) : 0.75f;
    case Input::alternating:
      if (which == 2) return token % 2 == 0 ? 3.f + normal : -3.f + normal;
      if (which == 1) return token % 2 == 0 ? 6.f : -6.f;
      return (token % 3 == 0 ? -6.f : 6.f) + 0.125f * float(dim % 4);
  }
  return 0.f;
}
}  // namespace detail

/// `head_dim` and `value_dim` of the problem must be filled in.
template <class T>
Numbers make_numbers(const Problem& p) {
  Numbers n;
  n.q_heads = p.q_heads;
  n.kv_heads = p.kv_heads;
  n.head_dim = p.head_dim;
  n.value_dim = p.value_dim;
  for (int b = 0; b < p.batch; ++b) {
    n.q_rows = std::max<int64_t>(n.q_rows, extent_of(p, b).q_len);
    n.kv_rows = std::max<int64_t>(n.kv_rows, extent_of(p, b).kv_len);
  }
  n.q.resize(size_t(p.batch * n.q_rows * p.q_heads * p.head_dim));
  n.k.resize(size_t(p.batch * n.kv_rows * p.kv_heads * p.head_dim));
  n.v.resize(size_t(p.batch * n.kv_rows * p.kv_heads * p.value_dim));
  for (int b = 0; b < p.batch; ++b) {
    const Extent e = extent_of(p, b);
    const int numbers_of = p.like.empty() ? b : p.like[size_t(b)];
    const auto fill = [&](int which, int heads, int len, int dims, const Values& values,
                          std::vector<float>& to, auto at) {
      for (int h = 0; h < heads; ++h) {
        for (int t = 0; t < len; ++t) {
          // Seeded by row, so that a token's numbers depend neither on how many follow it nor on
          // the batch's other lengths: results of different problems can be compared.
          Random random(p.seed + uint64_t(which) * 1000003u + uint64_t(numbers_of) * 7919u +
                        uint64_t(h) * 104729u + (uint64_t(t) << 32));
          for (int d = 0; d < dims; ++d)
            to[size_t(at(b, t, h) + d)] =
                round_through<T>(values ? values(numbers_of, t, h, d)
                                        : detail::input_value(p.input, which, random, t, h, d));
        }
      }
    };
    fill(0, p.q_heads, e.q_len, p.head_dim, p.q_values, n.q,
         [&](int i, int t, int h) { return n.q_at(i, t, h); });
    fill(1, p.kv_heads, e.kv_len, p.head_dim, p.k_values, n.k,
         [&](int i, int t, int h) { return n.k_at(i, t, h); });
    fill(2, p.kv_heads, e.kv_len, p.value_dim, p.v_values, n.v,
         [&](int i, int t, int h) { return n.v_at(i, t, h); });
    if (p.storage == Storage::v_in_k)
      for (int h = 0; h < p.kv_heads; ++h)
        for (int t = 0; t < e.kv_len; ++t)
          std::copy_n(n.k.begin() + n.k_at(b, t, h), p.value_dim, n.v.begin() + n.v_at(b, t, h));
  }
  return n;
}

inline std::string describe(const Problem& p) {
  std::ostringstream out;
  const auto list = [&](const char* name, const std::vector<int>& values) {
    if (values.empty()) return;
    out << ", " << name;
    for (size_t i = 0; i < values.size() && i < 12; ++i) out << (i == 0 ? " " : ",") << values[i];
    if (values.size() > 12) out << ",...";
  };
  out << "batch " << p.batch << ", q_len " << p.q_len << ", kv_len " << p.kv_len << ", heads "
      << p.q_heads << "/" << p.kv_heads << ", dims " << p.head_dim << "/" << p.value_dim;
  if (p.kv_splits != 0) out << ", kv_splits " << p.kv_splits;
  if (p.scale.given) out << ", scale " << p.scale.value;
  list("q_lens", p.q_lens);
  list("kv_lens", p.kv_lens);
  list("q_offsets", p.q_offsets);
  list("kv_offsets", p.kv_offsets);
  const char* const inputs[] = {"normal", "outliers", "all equal", "alternating"};
  out << ", input " << (p.q_values || p.k_values ? "given" : inputs[int(p.input)]) << ", seed "
      << p.seed;
  return out.str();
}

}  // namespace strobe_test
