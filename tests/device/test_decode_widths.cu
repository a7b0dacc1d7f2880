// SPDX-License-Identifier: MIT
// Decode at the compiled widths that test_decode.cu leaves out, narrow and wide blocks, split and
// not.
#include "support/case.hpp"

using namespace strobe_test;

namespace {

template <class T, int Width, int ValueWidth = Width>
void check_width() {
  using Attention =
      strobe::Attention<T, Width, strobe::Causal, strobe::Strided<T>, strobe::NoScore, ValueWidth>;
  using Narrow = strobe::kernel::DecodeSm80<Attention, 1>;
  using Wide = strobe::kernel::DecodeSm80<Attention, 4>;
  CHECK(Narrow::shared_bytes <= 101376);  // LIM-04: sm_86, sm_89, sm_120
  CHECK(Wide::shared_bytes <= 101376);
  for (const int splits : {1, 2, 5})
    for (const int q_len : {1, 7}) {
      Problem p;
      p.q_len = q_len;
      p.kv_len = 290;
      p.q_heads = 6;
      p.kv_heads = 2;
      p.kv_splits = splits;
      check_decode<Attention>(p);
      p.head_dim = Width - 8;  // the last chunk of each row is not there
      p.value_dim = ValueWidth - 24;
      check_decode<Attention>(p);
    }
}

}  // namespace

STROBE_TEST_CASE("decode: width 32", "") { check_width<__half, 32>(); }
STROBE_TEST_CASE("decode: width 96", "") { check_width<__nv_bfloat16, 96>(); }
STROBE_TEST_CASE("decode: width 192", "") { check_width<__half, 192>(); }
STROBE_TEST_CASE("LIM-04: decode at width 256", "") { check_width<__nv_bfloat16, 256>(); }
STROBE_TEST_CASE("decode: width 192, values 128", "") { check_width<__half, 192, 128>(); }

STROBE_TEST_CASE("decode: P as two terms, fp32 output", "") {
  using Attention = strobe::Attention<__half, 64, strobe::Causal, strobe::Strided<__half>,
                                      strobe::NoScore, 64, float, strobe::SplitPPolicy>;
  for (const int splits : {1, 3}) {
    Problem p;
    p.q_len = 3;
    p.kv_len = 400;
    p.q_heads = 2;
    p.kv_splits = splits;
    check_decode<Attention>(p);
    p.q_heads = 8;
    p.input = Input::outliers;
    check_decode<Attention>(p);
  }
}
