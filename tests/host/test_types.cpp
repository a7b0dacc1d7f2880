// SPDX-License-Identifier: MIT
// Views, lengths and the scale: addresses beyond 2^31, and every way of saying how long a sequence
// is.
#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <cmath>
#include <type_traits>
#include <vector>

#include "strobe/attention.hpp"

using strobe::Bounds;
using strobe::Lengths;
using strobe::Scale;
using strobe::Sequence;
using strobe::View;

TEST_CASE("View::row multiplies in 64 bits", "[cpu][types]") {
  // No memory lies behind these addresses: only differences are looked at.
  char* const base = reinterpret_cast<char*>(uintptr_t(1) << 45);
  struct {
    View<char> view;
    int64_t b, t, h, right;
  } const cases[] = {
      {{base, 1000, 100, 10}, 2, 3, 4, 2340},
      {{base, int64_t(3) << 31, 128, 64}, 1, 0, 0, int64_t(3) << 31},
      {{base, 1 << 30, 128, 64}, 5, 0, 1, (int64_t(5) << 30) + 64},
      {{base, 0, 32768, 128}, 0, 65543, 2, int64_t(65543) * 32768 + 256},  // OVF-02
      {{base, 0, 0, 1 << 28}, 7, 9, 63, int64_t(63) << 28},
      {{base, 0, -128, 0}, 0, 1 << 25, 0, -(int64_t(1) << 32)},
  };
  for (const auto& c : cases) CHECK(c.view.row(c.b, c.t, c.h) - base == c.right);
}

TEST_CASE("token_major and head_major are the contiguous layouts", "[cpu][types]") {
  const int batch = 2, tokens = 3, heads = 5, dim = 8;
  std::vector<int> data(size_t(batch * tokens * heads * dim));
  for (size_t i = 0; i < data.size(); ++i) data[i] = int(i);
  const auto by_token = strobe::token_major(data.data(), tokens, heads, dim);
  const auto by_head = strobe::head_major(data.data(), heads, tokens, dim);
  for (int b = 0; b < batch; ++b)
    for (int t = 0; t < tokens; ++t)
      for (int h = 0; h < heads; ++h) {
        REQUIRE(*by_token.row(b, t, h) == ((b * tokens + t) * heads + h) * dim);
        REQUIRE(*by_head.row(b, t, h) == ((b * heads + h) * tokens + t) * dim);
      }
  // An LSE has dim 1, and sizes beyond 2^31 stay right.
  static_assert(strobe::token_major<float>(nullptr, 7, 3, 1).token == 3);
  static_assert(strobe::token_major<float>(nullptr, 7, 3, 1).head == 1);
  static_assert(strobe::head_major<float>(nullptr, 3, 7, 1).head == 7);
  CHECK(strobe::token_major<float>(nullptr, 1 << 20, 64, 256).batch == int64_t(1) << 34);
  CHECK(strobe::head_major<float>(nullptr, 64, 1 << 20, 256).head == int64_t(1) << 28);
}

namespace {

/// How long a side is, by the words of Lengths: the bound, cut by offsets, cut by lens, not below
/// 0.
int right_length(int bound, const std::vector<int>& offsets, const std::vector<int>& lens, int b) {
  int length = bound;
  if (!offsets.empty()) {
    const int owned = offsets[size_t(b) + 1] - offsets[size_t(b)];
    if (owned < length) length = owned;
  }
  if (!lens.empty() && lens[size_t(b)] < length) length = lens[size_t(b)];
  return length < 0 ? 0 : length;
}

const int* pointer(const std::vector<int>& v) { return v.empty() ? nullptr : v.data(); }

}  // namespace

TEST_CASE("resolve_sequence: every combination of offsets and lengths", "[cpu][types]") {
  const Bounds bounds{5, 40, 90, 2, 1};
  // none; as long as the bound allows; an empty sequence; longer than the bound; descending.
  const std::vector<std::vector<int>> all_offsets = {{},
                                                     {0, 40, 40, 41, 60, 99},
                                                     {7, 7, 7, 7, 7, 7},
                                                     {0, 500, 1000, 1500, 2000, 2500},
                                                     {100, 60, 20, 10, 5, 0}};
  const std::vector<std::vector<int>> all_lens = {
      {}, {0, 1, 17, 39, 40}, {-1, -100, -2147483647 - 1, 0, 3}, {41, 91, 2147483647, 1, 0}};
  int checked = 0;
  for (const auto& q_offsets : all_offsets)
    for (const auto& q_lens : all_lens)
      for (const auto& kv_offsets : all_offsets)
        for (const auto& kv_lens : all_lens)
          for (int b = 0; b < bounds.batch; ++b) {
            const Lengths lengths{pointer(q_offsets), pointer(q_lens), pointer(kv_offsets),
                                  pointer(kv_lens)};
            const Sequence s = strobe::resolve_sequence(bounds, lengths, b);
            REQUIRE(s.q_len == right_length(bounds.q_len, q_offsets, q_lens, b));
            REQUIRE(s.kv_len == right_length(bounds.kv_len, kv_offsets, kv_lens, b));
            // Packed tokens start at their offset, others at their batch stride; never both.
            REQUIRE(s.batch == (q_offsets.empty() ? b : 0));
            REQUIRE(s.q_begin == (q_offsets.empty() ? 0 : q_offsets[size_t(b)]));
            REQUIRE(s.kv_batch == (kv_offsets.empty() ? b : 0));
            REQUIRE(s.kv_begin == (kv_offsets.empty() ? 0 : kv_offsets[size_t(b)]));
            ++checked;
          }
  CHECK(checked == 5 * 4 * 5 * 4 * 5);
}

TEST_CASE("resolve_sequence: a few answers written down", "[cpu][types]") {
  const int offsets[] = {0, 3, 3, 10};
  const int lens[] = {2, 9, 100};
  const Bounds bounds{3, 6, 8, 1, 1};
  const auto q_len = [&](Lengths lengths, int b) {
    return strobe::resolve_sequence(bounds, lengths, b).q_len;
  };
  CHECK(q_len({}, 0) == 6);
  CHECK(q_len({offsets, nullptr, nullptr, nullptr}, 0) == 3);
  CHECK(q_len({offsets, nullptr, nullptr, nullptr}, 1) == 0);
  CHECK(q_len({offsets, nullptr, nullptr, nullptr}, 2) == 6);  // 7 by its offsets, 6 by the bound
  CHECK(q_len({nullptr, lens, nullptr, nullptr}, 1) == 6);
  CHECK(q_len({offsets, lens, nullptr, nullptr}, 0) == 2);
  CHECK(q_len({offsets, lens, nullptr, nullptr}, 1) == 0);
  CHECK(strobe::resolve_sequence(bounds, {nullptr, nullptr, nullptr, lens}, 1).kv_len == 8);
}

TEST_CASE("Scale: any number, and not given is not a number", "[cpu][types]") {
  CHECK_FALSE(Scale{}.given);
  for (const Scale& scale : {Scale(0), Scale(0.f), Scale(0.0), Scale(-0.0f)}) {
    CHECK(scale.given);
    CHECK(scale.value == 0.f);
  }
  CHECK(Scale(-0.5).value == -0.5f);
  CHECK(Scale(3).value == 3.f);
  CHECK(Scale(-7).value == -7.f);
  CHECK(Scale(0.1).value == 0.1f);
  CHECK(Scale(0.1f).value == 0.1f);
  Scale scale;
  scale = 0.25;  // the way callers write it
  CHECK((scale.given && scale.value == 0.25f));
  Scale copy(scale);  // a copy, not a conversion
  CHECK((copy.given && copy.value == 0.25f));
  scale = Scale{};
  CHECK_FALSE(scale.given);
  static_assert(Scale(2).value == 2.f);
}

TEST_CASE("what crosses to the device is plain data", "[cpu][types]") {
  STATIC_CHECK(std::is_aggregate_v<View<float>>);
  STATIC_CHECK(std::is_aggregate_v<Bounds>);
  STATIC_CHECK(std::is_trivially_copyable_v<Scale>);
  using A = strobe::Attention<__half, 64, strobe::Both<strobe::Causal, strobe::Document>>;
  STATIC_CHECK(std::is_trivially_copyable_v<A>);
  CHECK(sizeof(A) <= 4096);  // kernel parameters of every supported toolkit
}
