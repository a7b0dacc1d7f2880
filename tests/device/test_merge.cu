// SPDX-License-Identifier: MIT
// strobe::merge against fp64: element types, layouts, parts that saw no key, extremes of LSE, and
// attention over parts of the keys merged into attention over all of them.
#include "support/case.hpp"
#include "support/streams.hpp"

using namespace strobe_test;

namespace {

constexpr float none = -INFINITY;
constexpr unsigned char marker_byte = 0xa5;

/// What is merged, in which memory layout. Values and LSEs are random where nothing is said.
struct Merging {
  int parts = 2, batch = 1, tokens = 2, heads = 3, dim = 64;
  Layout o, lse, out, out_lse;
  int64_t part_pad = 0;   // elements behind every part
  bool reversed = false;  // part 0 is the last in memory
  bool writes_lse = true;
  bool in_place = false;    // over part 0; In is Out, `out` and `out_lse` are not looked at
  bool odd_values = false;  // values that only the type itself holds: -0, subnormals, largest
  std::function<float(int part, int row)> lse_of;
  uint64_t seed = 1;
};

template <class T>
T odd_value(Random& random) {
  using Bits = typename Format<T>::Bits;
  const Bits sign = Bits(Bits(random.below(2)) << (8 * sizeof(T) - 1));
  switch (random.below(4)) {
    case 0:
      return from_bits<T>(sign);  // 0 and -0
    case 1:
      return from_bits<T>(Bits(sign | Bits(Format<T>::infinity - 1)));  // the largest
    case 2:  // the smallest; subnormal only in fp16, -use_fast_math flushes those of fp32 and bf16
      return from_bits<T>(Bits(
          sign | (std::is_same_v<T, __half> ? Bits(1) : Bits(Bits(1) << (Format<T>::digits - 1)))));
    default:
      return rounded_to<T>(random.normal());
  }
}

/// One merge, laid out in memory, with what fp64 says about it.
template <class In, class Out = In>
class Merged {
 public:
  explicit Merged(const Merging& given) : m(given) {
    in_ = place(m.o, m.batch, m.tokens, m.heads, m.dim);
    in_lse_ = place(m.lse, m.batch, m.tokens, m.heads, 1);
    out_ = m.in_place ? in_ : place(m.out, m.batch, m.tokens, m.heads, m.dim);
    out_lse_ = m.in_place ? in_lse_ : place(m.out_lse, m.batch, m.tokens, m.heads, 1);
    part_ = (in_.end + m.part_pad + 7) / 8 * 8;
    lse_part_ = in_lse_.end + m.part_pad;
    fill();
    args = arguments();
  }

  strobe::Status launch(cudaStream_t stream = nullptr) const {
#if STROBE_HOST_EXECUTION
    const strobe::host::ScopedTracking o_tracked(args.merged_o.data,
                                                 size_t(out_.end) * sizeof(Out));
    const strobe::host::ScopedTracking lse_tracked(args.merged_lse.data,
                                                   m.writes_lse ? size_t(out_lse_.end) * 4 : 0);
#endif
    return strobe::merge(args, test_device(), stream);
  }

  /// Everything that lies in memory now.
  void judge() {
    const std::vector<Out> got = m.in_place ? as_out(o_.download()) : merged_o_.download();
    const std::vector<float> got_lse = m.in_place ? lse_.download() : merged_lse_.download();
    std::vector<Out> rest = got;  // the rows taken back: what is left must be as it was
    std::vector<float> rest_lse = got_lse;
    const std::vector<Out> before = m.in_place ? as_out(o_.host) : merged_o_.host;
    const std::vector<float>& before_lse = m.in_place ? lse_.host : merged_lse_.host;
    const int64_t out_from = m.in_place ? part_begin(0) : 0;
    const int64_t lse_from = m.in_place ? lse_part_begin(0) : 0;
    o.clear();
    lse.clear();
    for_rows([&](int b, int t, int h) {
      const int64_t at = out_from + out_.at(b, t, h), lse_at = lse_from + out_lse_.at(b, t, h);
      judge_row(b, t, h, got.data() + at, got_lse[size_t(lse_at)]);
      for (int d = 0; d < m.dim; ++d) {
        o.push_back(got[size_t(at + d)]);
        rest[size_t(at + d)] = before[size_t(at + d)];
      }
      lse.push_back(got_lse[size_t(lse_at)]);
      if (m.writes_lse) rest_lse[size_t(lse_at)] = before_lse[size_t(lse_at)];
    });
    CHECK(same_bytes(rest, before));
    CHECK(same_bytes(rest_lse, before_lse));
    CHECK(same_bytes(m.in_place ? o_.host : o_.download(), o_.host));
    CHECK(same_bytes(m.in_place ? lse_.host : lse_.download(), lse_.host));
    CHECK(o_.guard_damage() == "");
    CHECK(lse_.guard_damage() == "");
    if (m.in_place) return;
    CHECK(merged_o_.guard_damage() == "");
    CHECK(merged_lse_.guard_damage() == "");
  }

  /// Row of part `part` as it went in, and what the merge is of a given row, dense.
  const In* input(int part, int b, int t, int h) const {
    return o_.host.data() + part_begin(part) + in_.at(b, t, h);
  }
  float input_lse(int part, int b, int t, int h) const {
    return lse_.host[size_t(lse_part_begin(part) + in_lse_.at(b, t, h))];
  }
  template <class Body>
  void for_rows(const Body& body) const {
    for (int b = 0; b < m.batch; ++b)
      for (int t = 0; t < m.tokens; ++t)
        for (int h = 0; h < m.heads; ++h) body(b, t, h);
  }

  Merging m;
  strobe::Merge<In, Out> args;
  std::vector<Out> o;  // after judge(): the rows, dense
  std::vector<float> lse;

 private:
  static std::vector<Out> as_out(const std::vector<In>& values) {
    if constexpr (std::is_same_v<In, Out>) return values;
    return {};
  }
  int64_t slot(int part) const { return m.reversed ? m.parts - 1 - part : part; }
  int64_t part_begin(int part) const { return slot(part) * part_; }
  int64_t lse_part_begin(int part) const { return slot(part) * lse_part_; }

  void fill() {
    std::vector<In> o_values(size_t(part_ * m.parts), from_bits<In>(Format<In>::nan));
    std::vector<float> lses(size_t(lse_part_ * m.parts), NAN);
    for (int i = 0; i < m.parts; ++i) {
      int row = 0;
      for_rows([&](int b, int t, int h) {
        Random random(m.seed + uint64_t(i) * 1000003u + (uint64_t(row) << 32));
        const float normal = 3.f * random.normal(), value = m.lse_of ? m.lse_of(i, row) : normal;
        ++row;
        lses[size_t(lse_part_begin(i) + in_lse_.at(b, t, h))] = value;
        if (value == none) return;  // O of a part without keys stays NaN
        for (int d = 0; d < m.dim; ++d)
          o_values[size_t(part_begin(i) + in_.at(b, t, h) + d)] =
              m.odd_values ? odd_value<In>(random) : rounded_to<In>(random.normal());
      });
    }
    o_ = Buffer<In>(std::move(o_values));
    lse_ = Buffer<float>(std::move(lses), 4);
    if (m.in_place) return;
    std::vector<Out> merged(size_t(out_.end));
    std::vector<float> merged_lse(size_t(out_lse_.end));
    std::memset(static_cast<void*>(merged.data()), marker_byte, merged.size() * sizeof(Out));
    std::memset(merged_lse.data(), marker_byte, merged_lse.size() * sizeof(float));
    merged_o_ = Buffer<Out>(std::move(merged));
    merged_lse_ = Buffer<float>(std::move(merged_lse), 4);
  }

  strobe::Merge<In, Out> arguments() const {
    strobe::Merge<In, Out> a;
    if (m.parts > 0) {
      a.o = {o_.data() + part_begin(0) + in_.offset, in_.batch, in_.token, in_.head};
      a.lse = {lse_.data() + lse_part_begin(0) + in_lse_.offset, in_lse_.batch, in_lse_.token,
               in_lse_.head};
    }
    a.o_part = m.reversed ? -part_ : part_;
    a.lse_part = m.reversed ? -lse_part_ : lse_part_;
    if constexpr (std::is_same_v<In, Out>)
      if (m.in_place) a.merged_o = {const_cast<Out*>(a.o.data), a.o.batch, a.o.token, a.o.head};
    if (!m.in_place)
      a.merged_o = {merged_o_.data() + out_.offset, out_.batch, out_.token, out_.head};
    if (m.writes_lse && m.in_place)
      a.merged_lse = {const_cast<float*>(a.lse.data), a.lse.batch, a.lse.token, a.lse.head};
    if (m.writes_lse && !m.in_place)
      a.merged_lse = {merged_lse_.data() + out_lse_.offset, out_lse_.batch, out_lse_.token,
                      out_lse_.head};
    a.parts = m.parts;
    a.batch = m.batch;
    a.tokens = m.tokens;
    a.heads = m.heads;
    a.value_dim = m.dim;
    return a;
  }

  // Rounding: the weights' exponentials (2^-22, and what the subtraction and the product cost times
  // the exponent), one fp32 rounding a part in the sums, one rounding to Out.
  void judge_row(int b, int t, int h, const Out* got, float got_lse) const {
    double largest = -HUGE_VAL, sum = 0.0;
    int live = 0, last = -1;
    for (int i = 0; i < m.parts; ++i) {
      if (!std::isnan(input_lse(i, b, t, h))) continue;
      bool all = !m.writes_lse || std::isnan(got_lse);
      for (int d = 0; d < m.dim; ++d) all = all && std::isnan(to_float(got[d]));
      CHECK(all);
      return;
    }
    for (int i = 0; i < m.parts; ++i) {
      const double value = double(input_lse(i, b, t, h));
      largest = std::max(largest, value);
      if (value > -HUGE_VAL) ++live, last = i;
    }
    std::vector<double> want(size_t(m.dim), 0.0), terms(size_t(m.dim), 0.0);
    for (int i = 0; i < m.parts; ++i)
      if (input_lse(i, b, t, h) != none) sum += std::exp(double(input_lse(i, b, t, h)) - largest);
    double spread = 0.0;  // of the exponents, each times its weight
    for (int i = 0; i < m.parts; ++i) {
      if (input_lse(i, b, t, h) == none) continue;
      const double exponent = double(input_lse(i, b, t, h)) - largest;
      const double weight = std::exp(exponent) / sum;
      if (weight == 0.0) continue;
      spread = std::max(spread, -exponent * std::exp(exponent));
      for (int d = 0; d < m.dim; ++d) {
        const double v = double(to_float(input(i, b, t, h)[d]));
        want[size_t(d)] += weight * v;
        terms[size_t(d)] += weight * std::fabs(v);
      }
    }
    int bad = 0, first = -1;
    for (int d = 0; d < m.dim; ++d) {
      const double value = double(to_float(got[d])), expected = want[size_t(d)];
      const double allowed = (live + 16.0 + 8.0 * spread) * 0x1p-24 * terms[size_t(d)] +
                             0.5 * ulp_at<Out>(expected) * (1.0 + 1e-6);
      const bool right =
          live == 0 ? bits_of(got[d]) == 0
          : live == 1 && std::is_same_v<In, Out>  // unchanged, bit for bit
              ? std::memcmp(&got[d], input(last, b, t, h) + d, sizeof(Out)) == 0
              : std::fabs(value - expected) <= allowed ||
                    value == double(round_through<Out>(float(expected)));  // beyond fp16: infinity
      if (!right && bad++ == 0) first = d;
    }
    if (bad != 0)
      FAIL_CHECK("O[" << first << "] of batch " << b << ", token " << t << ", head " << h
                      << ": expected " << want[size_t(first)] << ", got " << to_float(got[first])
                      << "; " << bad << " such values, " << live << " live parts of " << m.parts
                      << ", " << Format<In>::name << " to " << Format<Out>::name);
    if (!m.writes_lse) return;
    const double expected = live == 0 ? -HUGE_VAL : largest + std::log(sum);
    const double allowed = 4e-6 + (live + 4.0) * 0x1p-24 + ulp_at<float>(expected);
    const bool right = live == 0   ? got_lse == none
                       : live == 1 ? bits_of(got_lse) == bits_of(input_lse(last, b, t, h))
                                   : std::fabs(double(got_lse) - expected) <= allowed;
    if (!right)
      FAIL_CHECK("LSE of batch " << b << ", token " << t << ", head " << h << ": expected "
                                 << expected << ", got " << got_lse << ", " << live
                                 << " live parts of " << m.parts);
  }

  Place in_, in_lse_, out_, out_lse_;
  int64_t part_ = 0, lse_part_ = 0;
  Buffer<In> o_;
  Buffer<float> lse_;
  Buffer<Out> merged_o_;
  Buffer<float> merged_lse_;
};

template <class In, class Out = In>
Merged<In, Out> check_merge(const Merging& m) {
  Merged<In, Out> merged(m);
  require_ok(merged.launch());
  finish();
  merged.judge();
  return merged;
}

template <class In>
void check_outputs(const Merging& m) {
  check_merge<In, float>(m);
  check_merge<In, __half>(m);
  check_merge<In, __nv_bfloat16>(m);
}
void check_types(const Merging& m) {
  check_outputs<float>(m);
  check_outputs<__half>(m);
  check_outputs<__nv_bfloat16>(m);
}

Merging shape(int parts, int batch, int tokens, int heads, int dim) {
  Merging m;
  m.parts = parts;
  m.batch = batch;
  m.tokens = tokens;
  m.heads = heads;
  m.dim = dim;
  return m;
}

}  // namespace

STROBE_TEST_CASE("merge: 1 to 200 parts, every pair of element types", "") {
  for (const int parts : {1, 2, 3, 5, 31, 32, 33, 64, 65, 200}) {
    Merging m = shape(parts, 1, 2, 3, 40);
    m.seed = uint64_t(parts);
    check_types(m);
  }
}

STROBE_TEST_CASE("merge: every width, rows that do not fill a block", "") {
  for (const int dim : {8, 16, 64, 120, 128, 136, 256, 264, 576})
    check_types(shape(3, 1, 1, 1, dim));
  for (const int heads : {1, 2, 3, 4, 5, 9}) check_types(shape(2, 1, 1, heads, 8));
}

// LAY-03: a combine stepped its output by D a row whatever the stride.
STROBE_TEST_CASE("merge: layouts and strides of all four tensors apart", "") {
  const Layout layouts[] = {{},
                            {Order::head_major},
                            {Order::token_major, 8, 16, 24, 8},
                            {Order::head_major, 16, 8, 40, 16}};
  for (int i = 0; i < 8; ++i) {
    Merging m = shape(4, 2, i % 3 == 0 ? 1 : 3, 8, 64);
    m.o = layouts[i % 4];
    m.lse = layouts[(i + 1) % 4];
    m.out = layouts[(i / 2 + 3) % 4];
    m.out_lse = layouts[(3 * i + 1) % 4];
    m.part_pad = 8 * i;
    m.reversed = i % 2 == 1;
    check_merge<float, __half>(m);
    check_merge<__half>(m);
    m.writes_lse = false;
    check_merge<float>(m);
  }
  Merging m = shape(4, 1, 64, 8, 64);
  m.lse.row_pad = 2;  // LSE strides of every remainder
  m.out_lse.outer_pad = 1;
  check_merge<float, __nv_bfloat16>(m);
}

STROBE_TEST_CASE("merge: in place over part 0", "") {
  for (const int dim : {8, 64, 136, 256})  // LSE is read by lanes that are late, too
    for (const bool reversed : {false, true}) {
      Merging m = shape(5, 2, 3, 2, dim);
      m.in_place = true;
      m.reversed = reversed;
      m.o = {Order::head_major, 8, 8, 8, 8};
      check_merge<float>(m);
      check_merge<__half>(m);
      check_merge<__nv_bfloat16>(m);
      m.writes_lse = false;
      check_merge<float>(m);
    }
}

// SCH-02, SCH-05: -infinity minus -infinity; O of a part without keys is NaN throughout.
STROBE_TEST_CASE("SCH-02: parts that saw no key are neutral, bit for bit", "") {
  for (const int parts : {1, 2, 3, 40, 200})
    for (const int live : {-1, 0, parts / 2, parts - 1}) {  // -1: none of them
      Merging m = shape(parts, 1, 2, 2, 136);
      m.odd_values = true;
      m.seed = uint64_t(100 * parts + live + 1);
      for (const float lse : {1.25f, -0.f, -1e5f, 1e5f, -88.7f, 3e38f, -3.4028235e38f}) {
        m.lse_of = [=](int part, int) { return part == live ? lse : none; };
        check_merge<float>(m);
        check_merge<__half>(m);
        check_merge<__nv_bfloat16>(m);
        m.in_place = true;
        check_merge<__half>(m);
        m.in_place = false;
      }
      m.odd_values = false;
      check_outputs<float>(m);
      check_merge<__half, float>(m);
    }
}

STROBE_TEST_CASE("SCH-02: rows of one merge differ in which parts are empty", "") {
  for (const int parts : {2, 7, 70}) {
    Merging m = shape(parts, 2, 5, 3, 64);
    m.lse_of = [=](int part, int row) {
      Random random(uint64_t(part * 1000 + row));
      return random.below(3) == 0 || row == 4 ? none : 10.f * random.normal();
    };
    check_types(m);
  }
}

STROBE_TEST_CASE("SCH-02: LSE of -1e5 beside +1e5, and the ends of fp32", "") {
  const float mixes[][4] = {{-1e5f, 1e5f, -1e5f, 1e5f},
                            {1e5f, -1e5f, none, -1e5f},
                            {-1e5f, -1e5f - 1.f, none, -1e5f + 1.f},
                            {3.4e38f, -3.4e38f, 0.f, none},
                            {-3.4e38f, -3.4e38f, none, -3.4e38f},
                            {3.4e38f, 3.4e38f, 3.4e38f, 3.4e38f},
                            {0.f, -87.f, -100.f, -104.f},
                            {none, none, none, none}};
  for (const auto& mix : mixes)
    for (const int parts : {4, 16}) {
      Merging m = shape(parts, 1, 1, 4, 64);
      m.lse_of = [&](int part, int row) { return mix[(part + row) % 4]; };
      check_types(m);
    }
}

STROBE_TEST_CASE("merge: a NaN goes to its own row and nowhere else", "") {
  Merging m = shape(4, 1, 2, 3, 64);
  m.lse_of = [](int part, int) { return float(part); };
  const Merged<float> clean = check_merge<float>(m);
  for (const int bad : {0, 3}) {
    m.lse_of = [=](int part, int row) { return part == bad && row == 2 ? NAN : float(part); };
    const Merged<float> got = check_merge<float>(m);
    for (size_t row = 0; row < 6; ++row) {
      if (row == 2) continue;  // NaN throughout: judged already
      CHECK(bits_of(got.lse[row]) == bits_of(clean.lse[row]));
      CHECK(std::memcmp(&got.o[row * 64], &clean.o[row * 64], 64 * sizeof(float)) == 0);
    }
  }
  m = shape(3, 1, 2, 3, 64);
  m.lse_of = [](int part, int row) { return row < 4 ? NAN : part == 1 ? NAN : none; };
  check_types(m);
}

STROBE_TEST_CASE("merge: no parts give 0 and -infinity; no rows launch nothing", "") {
  Merging m = shape(0, 2, 3, 2, 64);
  m.out = {Order::head_major, 8, 8, 8, 8};
  check_types(m);
  strobe::Merge<float> null;  // all pointers null
  null.value_dim = 64;
  for (const int extents : {0, 1, 2}) {
    null.parts = extents;
    null.batch = extents == 0 ? 0 : 2;
    null.tokens = extents == 1 ? 0 : 2;
    null.heads = extents == 2 ? 0 : 2;
    require_ok(strobe::merge(null, test_device(), nullptr));
    finish();
  }
}

// (a + b) + c against a + b + c, and in the other order, fp32 in between.
STROBE_TEST_CASE("merge: associative within rounding", "") {
  for (const int parts : {3, 8, 50}) {
    Merging m = shape(parts, 1, 3, 2, 64);
    m.lse_of = [](int part, int row) {
      Random random(uint64_t(part * 77 + row));
      return row == 3 && part % 3 != 0 ? none : 4.f * random.normal();
    };
    const Merged<float> whole = check_merge<float>(m);
    for (const int cut : {1, parts / 2, parts - 1}) {
      // Each side merged into a slot of a new pair of parts; then the pair.
      const Buffer<float> pair(std::vector<float>(2 * 6 * 64, NAN));
      const Buffer<float> pair_lse(std::vector<float>(2 * 6, NAN), 4);
      strobe::Merge<float> side = whole.args;
      for (const int i : {0, 1}) {
        side.parts = i == 0 ? cut : parts - cut;
        side.o.data = whole.args.o.data + (i == 0 ? 0 : cut * side.o_part);
        side.lse.data = whole.args.lse.data + (i == 0 ? 0 : cut * side.lse_part);
        side.merged_o = strobe::token_major(pair.data() + i * 6 * 64, 3, 2, 64);
        side.merged_lse = strobe::token_major(pair_lse.data() + i * 6, 3, 2, 1);
        require_ok(strobe::merge(side, test_device(), nullptr));
      }
      side.parts = 2;
      side.o = strobe::token_major(static_cast<const float*>(pair.data()), 3, 2, 64);
      side.lse = strobe::token_major(static_cast<const float*>(pair_lse.data()), 3, 2, 1);
      side.o_part = 6 * 64;
      side.lse_part = 6;
      side.merged_o = strobe::token_major(pair.data(), 3, 2, 64);  // in place
      side.merged_lse = strobe::token_major(pair_lse.data(), 3, 2, 1);
      require_ok(strobe::merge(side, test_device(), nullptr));
      finish();
      const std::vector<float> o = pair.download(), lse = pair_lse.download();
      double worst = 0.0, worst_lse = 0.0;
      for (size_t i = 0; i < whole.o.size(); ++i)
        worst = std::max(worst, std::fabs(double(o[i]) - double(whole.o[i])));
      for (size_t i = 0; i < whole.lse.size(); ++i)
        worst_lse = std::max(worst_lse, std::fabs(double(lse[i]) - double(whole.lse[i])));
      CHECK(worst <= 4e-6);  // values are within 5; 50 parts
      CHECK(worst_lse <= 8e-6);
    }
  }
}

STROBE_TEST_CASE("merge: the same bits every run, whatever the neighbours", "") {
  Merging m = shape(9, 2, 7, 3, 72);
  const Merged<float, __half> first = check_merge<float, __half>(m);
  CHECK(same_bytes(first.o, check_merge<float, __half>(m).o));
  m.part_pad = 40;
  m.out.order = m.o.order = Order::head_major;
  const Merged<float, __half> moved = check_merge<float, __half>(m);
  CHECK(same_bytes(first.o, moved.o));
  CHECK(same_bytes(first.lse, moved.lse));
}

namespace {

using Partial = strobe::Attention<__half, 64, strobe::Window, strobe::Strided<__half>,
                                  strobe::NoScore, 64, float>;
constexpr strobe::Window causal{strobe::unlimited, 0};

// NUM-09: attention over `prefix` keys and over the rest, merged, judged as one pass by the error
// rule. Two unrelated allocations: their distance is the part stride.
void check_prefix(const Problem& whole, int prefix) {
  Prepared<Partial> all(whole, causal);
  const Numbers& n = all.numbers;
  Problem first = whole, rest = whole;
  first.kv_len = prefix;
  rest.kv_len = whole.kv_len - prefix;
  rest.k_values = [&](int b, int t, int h, int d) {
    return n.k[size_t(n.k_at(b, prefix + t, h) + d)];
  };
  rest.v_values = [&](int b, int t, int h, int d) {
    return n.v[size_t(n.v_at(b, prefix + t, h) + d)];
  };
  first.k_values = [&](int b, int t, int h, int d) { return n.k[size_t(n.k_at(b, t, h) + d)]; };
  first.v_values = [&](int b, int t, int h, int d) { return n.v[size_t(n.v_at(b, t, h) + d)]; };
  const Prepared<Partial> a(first, {}), b(rest, causal);
  require_ok(a.launch());
  require_ok(b.launch());
  const auto distance = [](const float* from, const float* to) {
    return (int64_t(reinterpret_cast<uintptr_t>(to)) - int64_t(reinterpret_cast<uintptr_t>(from))) /
           int64_t(sizeof(float));
  };
  const auto read = [](const strobe::View<float>& v) {
    return strobe::View<const float>{v.data, v.batch, v.token, v.head};
  };
  strobe::Merge<float> m;
  m.o = read(a.args.o);
  m.lse = read(a.args.lse);
  m.o_part = distance(a.args.o.data, b.args.o.data);
  m.lse_part = distance(a.args.lse.data, b.args.lse.data);
  m.merged_o = all.args.o;
  m.merged_lse = all.args.lse;
  m.parts = 2;
  m.batch = whole.batch;
  m.tokens = whole.q_len;
  m.heads = whole.q_heads;
  m.value_dim = 64;
  require_ok(strobe::merge(m, test_device(), nullptr));
  finish();
  judge(all);
}

}  // namespace

STROBE_TEST_CASE("NUM-09: prefix and suffix by prefill, merged, equal one pass", "") {
  Problem p;
  p.q_len = 64;
  p.kv_len = 3136;
  p.q_heads = 2;
  p.kv_heads = 1;
  p.rows_checked = 12;
  check_prefix(p, 3072);
  p.q_values = [](int, int, int, int) { return 0.f; };  // the suffix weighs exactly 64 / 3136
  check_prefix(p, 3072);
  p = {};
  p.batch = 2;
  p.q_len = 20;
  p.kv_len = 100;
  p.q_heads = 4;
  p.kv_heads = 2;
  p.o.order = Order::head_major;
  p.lse_layout.order = Order::head_major;
  for (const Input input : {Input::normal, Input::outliers, Input::alternating}) {
    p.input = input;
    for (const int prefix : {1, 64, 80}) check_prefix(p, prefix);
  }
  p.input = Input::normal;
  check_prefix(p, 0);  // no keys on one side
}

#if !STROBE_HOST_EXECUTION

STROBE_TEST_CASE("ERR-02: merge returns CUDA's own refusal and leaves none pending", "") {
  const Merged<float> merged(shape(2, 1, 2, 3, 64));
  require_ok(merged.launch());
  finish();
  check_refused_by_cuda([&](cudaStream_t stream) { return merged.launch(stream); });
  check_other_device_refused(
      [&](const strobe::Device& device) { return strobe::merge(merged.args, device, nullptr); });
}

#endif
