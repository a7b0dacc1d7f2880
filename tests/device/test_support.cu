// SPDX-License-Identifier: MIT
// The tests' own tools: a judge that lets faults pass would make every other test worthless. Faults
// are put into the outputs of a right launch, and each must be named.
#include "support/case.hpp"

using namespace strobe_test;

namespace {

using Half = strobe::Attention<__half, 64, strobe::Causal>;

bool contains(const std::string& text, const char* part) {
  return text.find(part) != std::string::npos;
}

struct Hand {  // two keys, one query; D = 8
  float q[8] = {1, 0, 0, 0, 0, 0, 0, 0};
  float k[16] = {2, 0, 0, 0, 0, 0, 0, 0, -1, 0, 0, 0, 0, 0, 0, 0};
  float v[16] = {1, 0, 0, 0, 0, 0, 0, 0, 5, 0, 0, 0, 0, 0, 0, 0};
  Head head(int q_len, int kv_len) const { return {q, k, v, 0, 0, 0, q_len, kv_len, 8, 8, 0.5f}; }
};

}  // namespace

STROBE_TEST_CASE("support: the oracle by hand", "") {
  const Hand hand;
  const Head head = hand.head(1, 2);
  const ExpectedRow both = expected_row<__half, __half>(head, 0, Visible<strobe::Full>({}, head),
                                                        Shaped<strobe::NoScore>({}, head));
  const double a = std::exp(1.0), b = std::exp(-0.5);  // logits 0.5 * 2, 0.5 * -1
  CHECK(std::fabs(both.o[0] - (a + 5.0 * b) / (a + b)) < 1e-12);
  CHECK(std::fabs(both.lse - std::log(a + b)) < 1e-12);
  CHECK(both.o[1] == 0.0);
  CHECK(std::fabs(both.lse_allowed - (1e-5 + 1e-6)) < 1e-12);
  CHECK(both.plain_error < 5e-3);

  const Head early = hand.head(2, 1);  // row 0 stands before key 0
  const ExpectedRow none = expected_row<__half, __half>(
      early, 0, Visible<strobe::Causal>({}, early), Shaped<strobe::NoScore>({}, early));
  CHECK(none.o[0] == 0.0);
  CHECK(none.lse == -INFINITY);
}

STROBE_TEST_CASE("support: the oracle's own formulas agree with the library's types", "") {
  const float dummy[8] = {};
  for (const std::pair<int, int>& lens : {std::pair{5, 9}, {9, 5}, {1, 1}}) {
    const int q_len = lens.first, kv_len = lens.second;
    const Head head{dummy, dummy, dummy, 0, 0, 0, q_len, kv_len, 8, 8, 1.f};
    // Both<Full, X> has no formula of its own, so it asks X's visible().
    const auto compare = [&](auto mask) {
      using Mask = decltype(mask);
      const Visible<Mask> own(mask, head);
      const Visible<strobe::Both<strobe::Full, Mask>> asked({{}, mask}, head);
      int different = 0;
      for (int row = 0; row < q_len; ++row)
        for (int k = 0; k < kv_len; ++k) different += own(row, k) != asked(row, k);
      CHECK(different == 0);
    };
    compare(strobe::Causal{});
    compare(strobe::Window{2, 1});
    compare(strobe::Window{strobe::unlimited, 0});
    compare(strobe::Window{0, strobe::unlimited});
  }
}

STROBE_TEST_CASE("support: units in the last place", "") {
  CHECK(ulp_at<__half>(1.0) == 0x1p-10);
  CHECK(ulp_at<__half>(-1.999) == 0x1p-10);
  CHECK(ulp_at<__half>(0.999) == 0x1p-11);
  CHECK(ulp_at<__half>(0.0) == 0x1p-24);
  CHECK(ulp_at<__half>(1e-7) == 0x1p-24);
  CHECK(ulp_at<__nv_bfloat16>(2.0) == 0x1p-6);
  CHECK(ulp_at<float>(1.0) == 0x1p-23);
  CHECK(round_through<__nv_bfloat16>(1.00390625f) == 1.f);  // a tie, to even
}

STROBE_TEST_CASE("support: every kind of fault is named", "") {
  Problem p;
  p.q_len = 9;
  p.kv_len = 6;  // rows 0..2 see no key
  p.q_heads = 2;
  p.q_rows = 12;
  p.o.row_pad = 8;
  const Prepared<Half> prepared(p);
  const auto unwritten_o = prepared.download_o();
  const auto unwritten_lse = prepared.download_lse();
  require_ok(prepared.launch());
  finish();
  const auto o = prepared.download_o();
  const auto lse = prepared.download_lse();
  Result result;
  CHECK(verdict(prepared, o, lse, result).empty());
  CHECK(contains(verdict(prepared, unwritten_o, lse, result), "O[0] of batch 0, head 0, row 0"));
  CHECK(contains(verdict(prepared, o, unwritten_lse, result), "LSE of batch 0, head 0, row 0"));

  const auto o_at = [&](int t, int h, int d) { return size_t(prepared.o_place.at(0, t, h) + d); };
  const auto with_o = [&](size_t at, float value) {
    auto changed = o;
    changed[at] = rounded_to<__half>(value);
    return verdict(prepared, changed, lse, result);
  };
  const float right = to_float(o[o_at(7, 1, 5)]);
  CHECK(contains(with_o(o_at(7, 1, 5), right + 0.01f), "O[5] of batch 0, head 1, row 7"));
  CHECK(contains(with_o(o_at(7, 1, 5), NAN), "O[5] of batch 0, head 1, row 7"));
  CHECK(contains(with_o(o_at(7, 1, 5), INFINITY), "O[5] of batch 0, head 1, row 7"));
  CHECK(contains(with_o(o_at(2, 0, 63), 1e-3f), "O[63] of batch 0, head 0, row 2"));
  CHECK(contains(with_o(o_at(8, 1, 64), 0.f), "where no output lives"));  // the padding of a row
  CHECK(contains(with_o(o_at(9, 0, 0), 0.f), "where no output lives"));   // a row past q_len

  const auto lse_at = [&](int t, int h) { return size_t(prepared.lse_place.at(0, t, h)); };
  const auto with_lse = [&](size_t at, float value) {
    auto changed = lse;
    changed[at] = value;
    return verdict(prepared, o, changed, result);
  };
  CHECK(contains(with_lse(lse_at(8, 0), lse[lse_at(8, 0)] + 1e-4f), "LSE of batch 0, head 0"));
  CHECK(contains(with_lse(lse_at(1, 1), -1e30f), "LSE of batch 0, head 1, row 1"));
  CHECK(contains(with_lse(lse_at(1, 1), NAN), "LSE of batch 0, head 1, row 1"));
  CHECK(contains(with_lse(lse_at(11, 1), 0.f), "LSE's memory was written"));
}

STROBE_TEST_CASE("support: guards report what touched them", "") {
  const Buffer<int> buffer(std::vector<int>(10, 5));
  CHECK(buffer.guard_damage().empty());
  CHECK(buffer.download() == buffer.host);
#if !STROBE_HOST_EXECUTION || !defined(__SANITIZE_ADDRESS__)  // which would rightly stop here
  const auto poke = [&](int at) {
    const int value = 1;
#if STROBE_HOST_EXECUTION
    std::memcpy(buffer.data() + at, &value, sizeof value);
#else
    STROBE_REQUIRE_CUDA(
        cudaMemcpy(buffer.data() + at, &value, sizeof value, cudaMemcpyHostToDevice));
#endif
  };
  poke(10);
  CHECK(contains(buffer.guard_damage(), "past the end"));
  poke(-1);
  CHECK(contains(buffer.guard_damage(), "before the buffer"));
#endif
}
