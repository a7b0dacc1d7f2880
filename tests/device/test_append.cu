// SPDX-License-Identifier: MIT
// strobe::append into strided and paged caches: where rows land and that nothing else changes, bit
// for bit; rotary embedding against fp64; decode on the cache it leaves. Dead memory is NaN.
#include <strobe/append.cuh>
#include <strobe/decode.cuh>

#include <catch2/catch_test_macros.hpp>

#include "support/entry.hpp"
#include "support/memory.hpp"
#include "support/numbers.hpp"
#include "support/pages.hpp"
#include "support/problem.hpp"
#include "support/streams.hpp"

using namespace strobe_test;

namespace {

template <class T>
using Paged = strobe::Paged<T>;
template <class T>
using Strided = strobe::Strided<T>;

/// Rotation of a problem: the tables hold cosine and sine of position / 50^(2 i / dim), or, exact
/// in every type, of quarter turns.
struct Turn {
  int dim = 0;
  bool interleaved = false;
  bool quarters = false;
  int row_pad = 0;  // floats behind each row of the tables
};

/// A Problem whose K and V say where the cache is; the new rows are the last q_len of each
/// sequence.
struct Case {
  Problem p;
  Turn turn;
  Layout new_k, new_v;
  bool with_q = true;
};

/// What memory has to hold afterwards: bits, and for rotated elements what fp64 says.
template <class T>
struct Expected {
  std::vector<T> bits;
  std::vector<double> value, rounding;  // value is NaN where bits alone count

  explicit Expected(const std::vector<T>& before)
      : bits(before), value(before.size(), double(NAN)), rounding(before.size(), 0.0) {}

  /// Empty, or the first element that is wrong.
  std::string verdict(const std::vector<T>& got) const {
    for (size_t i = 0; i < got.size(); ++i) {
      const double allowed = 0.5 * ulp_at<T>(value[i]) + 3.0 * rounding[i];
      const bool right = std::isnan(value[i])
                             ? bits_of(got[i]) == bits_of(bits[i])
                             : std::fabs(double(to_float(got[i])) - value[i]) <= allowed;
      if (!right)
        return "element " + std::to_string(i) + ": " + std::to_string(to_float(got[i])) + " for " +
               std::to_string(std::isnan(value[i]) ? double(to_float(bits[i])) : value[i]);
    }
    return {};
  }
};

template <class T, class Kv>
class Appending {
 public:
  static constexpr bool paged = std::is_same_v<Kv, strobe::Paged<T>>;

  explicit Appending(const Case& given) : c(given) {
    const Problem& p = c.p;
    if constexpr (paged) {
      pages = lay_out_pages(p);
      k_place = pages.k;
      v_place = pages.v;
    } else {
      const int64_t batch = p.kv_offsets.empty() ? p.batch : 1;
      k_place = place(p.k, batch, kv_rows_of(p), p.kv_heads, p.head_dim);
      v_place = place(p.v, batch, kv_rows_of(p), p.kv_heads, p.value_dim);
    }
    const int64_t batch = p.q_offsets.empty() ? p.batch : 1, rows = q_rows_of(p);
    new_k_place = place(c.new_k, batch, rows, p.kv_heads, p.head_dim);
    new_v_place = place(c.new_v, batch, rows, p.kv_heads, p.value_dim);
    q_place = place(p.q, batch, rows, p.q_heads, p.head_dim);
    fill();
    args = arguments();
  }

  strobe::Status launch(cudaStream_t stream = nullptr) const {
#if STROBE_HOST_EXECUTION  // no two blocks write the same row
    const strobe::host::ScopedTracking k_tracked(k.data(), k.host.size() * sizeof(T));
    const strobe::host::ScopedTracking v_tracked(v.data(), v.host.size() * sizeof(T));
    const strobe::host::ScopedTracking q_tracked(q.data(), q.host.size() * sizeof(T));
#endif
    return strobe::append(args, test_device(), stream);
  }

  /// What one append makes of the memory as uploaded.
  void expect(Expected<T>& k_after, Expected<T>& v_after, Expected<T>& q_after) const {
    const Problem& p = c.p;
    for (int b = 0; b < p.batch; ++b) {
      const Extent e = extent_of(p, b);
      for (int t = 0; t < e.q_len; ++t) {
        const int position = e.kv_len - e.q_len + t;
        if (position < 0) continue;
        for (int h = 0; h < p.kv_heads; ++h) {
          rotated(new_k.host, new_k_place.at(e.q_batch, e.q_begin + t, h), position, k_after,
                  k_at(b, position, h));
          const auto from = size_t(new_v_place.at(e.q_batch, e.q_begin + t, h)),
                     to = size_t(v_at(b, position, h));
          for (size_t d = 0; d < size_t(p.value_dim); ++d)
            one_pool() ? void(k_after.bits[to + d] = new_v.host[from + d])
                       : void(v_after.bits[to + d] = new_v.host[from + d]);
        }
        if (!c.with_q) continue;
        for (int h = 0; h < p.q_heads; ++h) {
          const int64_t at = q_place.at(e.q_batch, e.q_begin + t, h);
          rotated(q.host, at, position, q_after, at);
        }
      }
    }
  }

  void judge() const {
    Expected<T> k_after(k.host), v_after(v.host), q_after(q.host);
    expect(k_after, v_after, q_after);
    INFO(describe(c.p) << ", rotary dim " << c.turn.dim
                       << (c.turn.interleaved ? " interleaved" : "") << ", page size "
                       << (paged ? c.p.paging.page_size : 0) << ", " << Format<T>::name);
    CHECK(k_after.verdict(k.download()) == "");
    CHECK(v_after.verdict(v.download()) == "");
    CHECK(q_after.verdict(q.download()) == "");
    CHECK(same_bytes(new_k.download(), new_k.host));
    CHECK(same_bytes(new_v.download(), new_v.host));
    for (const Buffer<T>* buffer : {&k, &v, &q, &new_k, &new_v})
      CHECK(buffer->guard_damage() == "");
  }

  bool one_pool() const { return paged && c.p.paging.interleaved; }
  int64_t k_at(int b, int key, int h) const { return at(k_place, b, key, h); }
  int64_t v_at(int b, int key, int h) const { return at(v_place, b, key, h); }

  /// The source attention reads, over other buffers of the same layout.
  Kv source(const Buffer<T>& k_memory, const Buffer<T>& v_memory) const {
    const T* const v_data = one_pool() ? k_memory.data() : v_memory.data();
    Kv kv;
    kv.k = {k_memory.data() + k_place.offset, k_place.batch, k_place.token, k_place.head};
    kv.v = {v_data + v_place.offset, v_place.batch, v_place.token, v_place.head};
    if constexpr (paged) {
      kv.table = table_.data();
      kv.table_stride = pages.table_stride;
      kv.page_offsets = pages.offsets.empty() ? nullptr : page_offsets_.data();
      kv.page_size = pages.page_size;
    }
    return kv;
  }
  /// New lengths in the same memory, for graph replays.
  void set_kv_lens(const std::vector<int>& lens) {
    c.p.kv_lens = kv_lens_.host = lens;
    kv_lens_.upload();
  }
  void reset() const {
    for (const Buffer<T>* buffer : {&k, &v, &q}) buffer->upload();
  }

  Case c;
  Place k_place, v_place, new_k_place, new_v_place, q_place;
  Pages pages;
  Buffer<T> k, v, q, new_k, new_v;  // of an interleaved pool v is of one element
  strobe::Append<T, Kv> args;

 private:
  int64_t at(const Place& where, int b, int key, int h) const {
    const Extent e = extent_of(c.p, b);
    return paged ? pages.at(where, b, key, h) : where.at(e.kv_batch, e.kv_begin + key, h);
  }

  // Row `from` turned by its position, element by element in fp64.
  void rotated(const std::vector<T>& memory, int64_t from, int position, Expected<T>& to,
               int64_t to_at) const {
    const int half = c.turn.dim / 2;
    for (int d = 0; d < c.p.head_dim; ++d) {
      const auto target = size_t(to_at + d);
      if (d >= c.turn.dim) {
        to.bits[target] = memory[size_t(from + d)];
        continue;
      }
      const int pair = c.turn.interleaved ? d / 2 : d % half;
      const bool second = c.turn.interleaved ? d % 2 == 1 : d >= half;
      const int64_t first_at = from + (c.turn.interleaved ? 2 * pair : pair);
      const double a = double(to_float(memory[size_t(first_at)]));
      const double b = double(to_float(memory[size_t(first_at + (c.turn.interleaved ? 1 : half))]));
      const auto angle = size_t(position) * size_t(table_row()) + size_t(pair);
      const double cosine = double(cos_.host[angle]), sine = double(sin_.host[angle]);
      const double value = second ? a * sine + b * cosine : a * cosine - b * sine;
      to.bits[target] = rounded_to<T>(float(value));
      if (c.turn.quarters) continue;
      to.value[target] = value;
      to.rounding[target] = 0x1p-24 * (2.0 * std::fabs(value) + std::fabs(a) + std::fabs(b));
    }
  }

  int table_row() const { return c.turn.dim / 2 + c.turn.row_pad; }

  void fill() {
    const Problem& p = c.p;
    const T poison = from_bits<T>(Format<T>::nan);
    Random random(p.seed);
    const auto row = [&](std::vector<T>& to, int64_t from, int dims) {
      for (int d = 0; d < dims; ++d) to[size_t(from + d)] = rounded_to<T>(random.normal());
    };
    std::vector<T> k_values(size_t(k_place.end), poison);
    std::vector<T> v_values(size_t(one_pool() ? 1 : v_place.end), poison);
    std::vector<T> q_values(size_t(q_place.end), poison),
        new_k_values(size_t(new_k_place.end), poison),
        new_v_values(size_t(new_v_place.end), poison);
    for (int b = 0; b < p.batch; ++b) {
      const Extent e = extent_of(p, b);
      for (int h = 0; h < p.kv_heads; ++h) {
        for (int key = 0; key < e.kv_len - e.q_len; ++key) {  // what the cache holds already
          row(k_values, k_at(b, key, h), p.head_dim);
          row(one_pool() ? k_values : v_values, v_at(b, key, h), p.value_dim);
        }
        for (int t = 0; t < e.q_len; ++t) {
          row(new_k_values, new_k_place.at(e.q_batch, e.q_begin + t, h), p.head_dim);
          row(new_v_values, new_v_place.at(e.q_batch, e.q_begin + t, h), p.value_dim);
        }
      }
      for (int h = 0; h < p.q_heads; ++h)
        for (int t = 0; t < e.q_len; ++t)
          row(q_values, q_place.at(e.q_batch, e.q_begin + t, h), p.head_dim);
    }
    k = Buffer<T>(std::move(k_values));
    v = Buffer<T>(std::move(v_values));
    q = Buffer<T>(std::move(q_values));
    new_k = Buffer<T>(std::move(new_k_values));
    new_v = Buffer<T>(std::move(new_v_values));

    const int pairs = c.turn.dim / 2, positions = pairs == 0 ? 0 : p.kv_len;
    std::vector<float> cosines(size_t(positions) * size_t(table_row()), NAN), sines = cosines;
    for (int position = 0; position < positions; ++position)
      for (int i = 0; i < pairs; ++i) {
        const double angle = position * std::pow(50.0, -double(i) / pairs);
        const int quarter = (position + 3 * i) % 4;
        const auto here = size_t(position) * size_t(table_row()) + size_t(i);
        cosines[here] =
            c.turn.quarters ? float((quarter == 0) - (quarter == 2)) : float(std::cos(angle));
        sines[here] =
            c.turn.quarters ? float((quarter == 1) - (quarter == 3)) : float(std::sin(angle));
      }
    cos_ = Buffer<float>(std::move(cosines), 4);
    sin_ = Buffer<float>(std::move(sines), 4);
    q_lens_ = Buffer<int>(p.q_lens, 4);
    kv_lens_ = Buffer<int>(p.kv_lens, 4);
    q_offsets_ = Buffer<int>(p.q_offsets, 4);
    kv_offsets_ = Buffer<int>(p.kv_offsets, 4);
    table_ = Buffer<int>(pages.table, 4);
    page_offsets_ = Buffer<int>(pages.offsets, 4);
  }

  strobe::Append<T, Kv> arguments() const {
    const Problem& p = c.p;
    strobe::Append<T, Kv> a;
    a.k = {new_k.data() + new_k_place.offset, new_k_place.batch, new_k_place.token,
           new_k_place.head};
    a.v = {new_v.data() + new_v_place.offset, new_v_place.batch, new_v_place.token,
           new_v_place.head};
    a.kv = source(k, v);
    if (c.with_q) a.q = {q.data() + q_place.offset, q_place.batch, q_place.token, q_place.head};
    if (c.turn.dim > 0)
      a.rotary = {cos_.data(), sin_.data(), table_row(), c.turn.dim, c.turn.interleaved};
    a.bounds = {p.batch, p.q_len, p.kv_len, p.q_heads, p.kv_heads};
    const auto pointer = [](const Buffer<int>& b) { return b.host.empty() ? nullptr : b.data(); };
    a.lengths = {pointer(q_offsets_), pointer(q_lens_), pointer(kv_offsets_), pointer(kv_lens_)};
    a.head_dim = p.head_dim;
    a.value_dim = p.value_dim;
    return a;
  }

  Buffer<float> cos_, sin_;
  Buffer<int> q_lens_, kv_lens_, q_offsets_, kv_offsets_, table_, page_offsets_;
};

Case shape(int batch, int q_len, int kv_len, int q_heads, int kv_heads, int head_dim,
           int value_dim) {
  Case c;
  c.p.batch = batch;
  c.p.q_len = q_len;
  c.p.kv_len = kv_len;
  c.p.q_heads = q_heads;
  c.p.kv_heads = kv_heads;
  c.p.head_dim = head_dim;
  c.p.value_dim = value_dim;
  return c;
}

template <class T, template <class> class Kv>
void check_append(const Case& c) {
  const Appending<T, Kv<T>> appending(c);
  require_ok(appending.launch());
  finish();
  appending.judge();
}
template <template <class> class Kv>
void check_both_types(const Case& c) {
  check_append<__half, Kv>(c);
  check_append<__nv_bfloat16, Kv>(c);
}

}  // namespace

STROBE_TEST_CASE("append: every tensor's strides apart", "") {
  const Layout layouts[] = {{},
                            {Order::head_major},
                            {Order::token_major, 8, 16, 24, 8},
                            {Order::head_major, 16, 8, 40, 16}};
  for (int i = 0; i < 8; ++i) {
    Case c = shape(3, 3, 40, 4, 2, 64, 40);
    c.p.k = layouts[i % 4];
    c.p.v = layouts[(i + 1) % 4];
    c.p.q = layouts[(i / 2) % 4];
    c.new_k = layouts[(i / 2 + 3) % 4];
    c.new_v = layouts[(3 * i + 1) % 4];
    c.p.kv_lens = {40, 3, 17};
    c.turn.dim = i % 2 == 0 ? 32 : 0;
    c.turn.interleaved = i % 4 == 0;
    check_both_types<Strided>(c);
  }
}

STROBE_TEST_CASE("append: rotary NeoX and interleaved, all of a row, part of it, none", "") {
  for (const int head_dim : {16, 64, 128, 200, 256})
    for (const int dim : {0, 16, 32, 48, 64, 128, 192, 256})
      for (const bool interleaved : {false, true}) {
        if (dim > head_dim) continue;
        Case c = shape(2, 2, 70, 3, 1, head_dim, 64);
        c.turn = {dim, interleaved};
        c.turn.row_pad = dim == 64 ? 5 : 0;
        c.p.kv_lens = {70, 31};
        c.p.seed = uint64_t(head_dim + dim);
        check_both_types<Strided>(c);
      }
}

STROBE_TEST_CASE("append: heads: groups, many, none", "") {
  for (const auto& [q_heads, kv_heads] :
       {std::pair{1, 1}, {8, 8}, {14, 2}, {71, 1}, {5, 0}, {0, 3}})
    for (const bool with_q : {true, false}) {
      if (q_heads == 0 && with_q) continue;
      Case c = shape(2, 4, 30, q_heads, kv_heads, 64, 64);
      c.turn = {64, false};
      c.with_q = with_q;
      check_both_types<Strided>(c);
    }
}

STROBE_TEST_CASE("append: packed tokens, lengths, capacity", "") {
  Case c = shape(4, 9, 60, 2, 1, 64, 64);
  c.turn = {64, true};
  c.p.q_offsets = {2, 11, 11, 12, 15};
  c.p.q_rows = 20;
  c.p.kv_lens = {60, 7, 33, 3};
  c.p.kv_rows = 80;
  check_both_types<Strided>(c);
  c.p.q_lens = {4, 9, 9, 2};  // cut to the offsets, or fewer
  check_both_types<Strided>(c);
  c.p.q_offsets = {};
  check_both_types<Strided>(c);
  c.p.kv_offsets = {3, 63, 70, 70, 95};  // a packed cache
  c.p.kv_lens = {60, 7, 33, 11};
  check_both_types<Strided>(c);
  c.p.q_lens = {-1, 0, 9, 1 << 30};
  check_both_types<Strided>(c);
}

STROBE_TEST_CASE("append: the largest prompt is all new, one token is one row", "") {
  Case c = shape(1, 150, 150, 2, 1, 64, 64);
  c.turn = {64, false};
  check_append<__half, Strided>(c);
  check_append<__half, Paged>(c);
  for (const int kv_len : {1, 2, 64}) {
    c = shape(5, 1, 64, 4, 2, 128, 128);
    c.turn = {128, kv_len == 2};
    c.p.kv_lens = std::vector<int>(5, kv_len);
    check_append<__nv_bfloat16, Strided>(c);
    check_append<__nv_bfloat16, Paged>(c);
  }
}

STROBE_TEST_CASE("append: rows at negative positions are dropped, lengths beyond the bound cut",
                 "") {
  Case c = shape(6, 5, 24, 2, 2, 64, 64);
  c.turn = {32, false};
  c.p.kv_lens = {3, 0, -7, 5, 24, 1 << 30};  // the first drops two rows, the next two all
  check_both_types<Strided>(c);
  check_both_types<Paged>(c);
  c.p.kv_len = 0;
  c.p.kv_lens = {};
  c.p.kv_rows = 24;
  check_append<__half, Strided>(c);
}

STROBE_TEST_CASE("append: pages of every size, shuffled, in tables and CSR", "") {
  for (const int page_size : {1, 2, 16, 64, 256})
    for (const bool csr : {false, true})
      for (const uint64_t shuffle : {0, 7}) {
        Case c = shape(4, 5, 200, 4, 2, 64, 40);
        c.p.paging.page_size = page_size;
        c.p.paging.csr = csr;
        c.p.paging.shuffle = shuffle;
        c.turn = {48, csr};
        c.p.kv_lens = {200, page_size + 2, 0, 66};
        c.p.q_lens = {5, 5, 5, 1};
        check_both_types<Paged>(c);
        c.p.q_lens = {};
        c.p.q_offsets = {0, 5, 6, 6, 8};
        check_append<__half, Paged>(c);
      }
}

// PAG-07: the page's address was rebuilt from the page size; wrong with interleaved pools, heads
// first, paddings, and K's stride for V.
STROBE_TEST_CASE("PAG-07: interleaved pools, heads first inside a page, pages padded apart", "") {
  for (const int page_size : {1, 16, 64})
    for (const bool interleaved : {false, true})
      for (const Order order : {Order::token_major, Order::head_major})
        for (const int pad : {0, 24}) {
          Case c = shape(2, 3, 90, 4, 2, 64, 64);
          c.p.kv_lens = {90, 65};
          c.p.paging.page_size = page_size;
          c.p.paging.interleaved = interleaved;
          c.p.paging.order = order;
          c.p.paging.page_pad = pad;
          c.turn = {64, interleaved};
          check_both_types<Paged>(c);
        }
}

STROBE_TEST_CASE("append: zero extents succeed and launch nothing", "") {
  for (const strobe::Bounds& bounds : {strobe::Bounds{0, 4, 9, 2, 1},
                                       {2, 0, 9, 2, 1},
                                       {2, 4, 0, 2, 1},
                                       {2, 4, 9, 0, 0},
                                       {0, 0, 0, 0, 0}}) {
    strobe::Append<__half> a;  // all pointers null
    a.head_dim = a.value_dim = 64;
    a.bounds = bounds;
    require_ok(strobe::append(a, test_device(), nullptr));
    finish();
    SUCCEED();
  }
}

namespace {

// Append, then decode: the same bits as decode on a cache and queries written by hand. The rotation
// is by quarter turns, exact in every type.
template <template <class> class Kv>
void check_decode_after(const Case& c) {
  using T = __half;
  const Appending<T, Kv<T>> appending(c);
  Expected<T> k_after(appending.k.host), v_after(appending.v.host), q_after(appending.q.host);
  appending.expect(k_after, v_after, q_after);
  const Buffer<T> k(k_after.bits), v(v_after.bits), q(q_after.bits);

  const Problem& p = c.p;
  strobe::Attention<T, 64, strobe::Causal, Kv<T>> a;
  a.head_dim = p.head_dim;
  a.value_dim = p.value_dim;
  a.bounds = appending.args.bounds;
  a.lengths = appending.args.lengths;
  const Place o_place = place({}, p.batch, p.q_len, p.q_heads, p.value_dim);
  const auto run = [&](const Kv<T>& source, const Buffer<T>& queries) {
    const Buffer<T> o(std::vector<T>(size_t(o_place.end), from_bits<T>(0x5a5a)));
    const Scratch scratch(Decode::workspace_bytes(a));
    a.kv = source;
    a.q = {queries.data() + appending.q_place.offset, appending.q_place.batch,
           appending.q_place.token, appending.q_place.head};
    a.o = {o.data(), o_place.batch, o_place.token, o_place.head};
    require_ok(Decode::run(a, scratch.get(), nullptr));
    finish();
    CHECK(scratch.damage() == "");
    return o.download();
  };
  const std::vector<T> by_hand = run(appending.source(k, v), q);
  require_ok(appending.launch());
  CHECK(same_bytes(run(appending.source(appending.k, appending.v), appending.q), by_hand));
  appending.judge();
  bool finite = true;
  for (int b = 0; b < p.batch; ++b)
    for (int t = 0; t < extent_of(p, b).q_len; ++t)
      for (int h = 0; h < p.q_heads; ++h)
        for (int d = 0; d < p.value_dim; ++d)
          finite = finite && std::isfinite(to_float(by_hand[size_t(o_place.at(b, t, h) + d)]));
  CHECK(finite);
}

}  // namespace

STROBE_TEST_CASE("append, then decode, equals decode on a cache filled by hand", "") {
  for (const int q_len : {1, 3})
    for (const bool interleaved : {false, true}) {
      Case c = shape(3, q_len, 200, 4, 2, 64, 64);
      c.turn = {32, interleaved, true};
      c.p.kv_lens = {200, 33, q_len};
      c.p.kv_splits = 3;
      check_decode_after<Strided>(c);
      c.p.paging.interleaved = interleaved;
      check_decode_after<Paged>(c);
    }
}

#if !STROBE_HOST_EXECUTION

STROBE_TEST_CASE("append in a graph: replays with new lengths", "") {
  Case c = shape(3, 2, 150, 4, 2, 128, 128);
  c.turn = {128, false};
  c.p.kv_lens = {150, 150, 150};  // the layout has pages for the longest
  Appending<__nv_bfloat16, strobe::Strided<__nv_bfloat16>> strided(c);
  Appending<__nv_bfloat16, strobe::Paged<__nv_bfloat16>> paged(c);
  const Stream stream;
  const Graph graph(stream, [&](cudaStream_t s) {
    const strobe::Status first = strided.launch(s);
    return first.ok() ? paged.launch(s) : first;
  });
  for (const std::vector<int>& lens :
       {std::vector<int>{150, 150, 150}, {1, 2, 77}, {0, 149, 5}, {150, 16, 17}}) {
    strided.reset();
    paged.reset();
    strided.set_kv_lens(lens);
    paged.set_kv_lens(lens);
    graph.launch(stream);
    finish(stream);
    strided.judge();
    paged.judge();
  }
}

STROBE_TEST_CASE("ERR-02: append returns CUDA's own refusal and leaves none pending", "") {
  const Appending<__half, strobe::Strided<__half>> appending(shape(1, 2, 9, 2, 1, 64, 64));
  require_ok(appending.launch());
  finish();
  check_refused_by_cuda([&](cudaStream_t stream) { return appending.launch(stream); });
  check_other_device_refused([&](const strobe::Device& device) {
    return strobe::append(appending.args, device, nullptr);
  });
}

#endif
