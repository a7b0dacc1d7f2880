// SPDX-License-Identifier: MIT
// Masks and scores in decode, where the heads of a group share a block and parts of the keys begin
// anywhere.
#include <algorithm>

#include "support/case.hpp"

using namespace strobe_test;

namespace decode_mask_test {
// As little as a user can write: no tile(), no next_key(). Query q sees its own key and every
// period-th.
struct EveryThird {
  int period;
  struct Bound {
    int period;
    __host__ __device__ bool visible(int q, int k) const { return q == k || k % period == 1; }
  };
  __host__ __device__ Bound bind(const strobe::Block&) const { return {period}; }
};
// A user's score that knows head, batch entry and both positions.
struct HeadBias {
  const float* table;  // [batch][q_heads]
  int q_heads;
  struct Bound {
    float bias;
    __host__ __device__ float operator()(float logit, int q, int k) const {
      return logit + bias * float((q + 2 * k) % 5);
    }
  };
  __host__ __device__ Bound bind(const strobe::Block& block) const {
    return {table[block.batch * q_heads + block.q_head]};
  }
};
}  // namespace decode_mask_test

namespace {

template <class Mask, class Score = strobe::NoScore, class T = __half>
using With = strobe::Attention<T, 64, Mask, strobe::Strided<T>, Score>;

Problem shape(int q_len, int kv_len, int q_heads, int kv_heads, int splits) {
  Problem p;
  p.q_len = q_len;
  p.kv_len = kv_len;
  p.q_heads = q_heads;
  p.kv_heads = kv_heads;
  p.kv_splits = splits;
  return p;
}

// Narrow blocks and wide ones, one part and several.
template <class Attention>
void check_shapes(int kv_len, const typename Attention::mask_type& mask,
                  const typename Attention::score_type& score = {}) {
  for (const int splits : {0, 1, 2, 6}) {
    for (const int q_len : {1, 3}) {
      Problem p = shape(q_len, kv_len, 4, 2, splits);
      p.batch = 2;
      check_decode<Attention>(p, mask, score);
    }
    Problem p = shape(13, kv_len, 8, 2, splits);
    p.batch = 2;
    p.rows_checked = 4;
    check_decode<Attention>(p, mask, score);
  }
}

}  // namespace

STROBE_TEST_CASE("decode: SinkWindow with a hole wider than a part, SoftCap", "") {
  using Attention = With<strobe::SinkWindow, strobe::SoftCap>;
  check_shapes<Attention>(500, {4, 60}, {5.f});
  check_shapes<Attention>(300, {0, 0}, {0.5f});
  check_shapes<Attention>(40, {100, 3}, {50.f});  // more sinks than keys
  check_shapes<Attention>(10, {2, 3}, {50.f});    // queries before the first key
  Problem p = shape(2, 300, 4, 2, 2);
  p.scale = -0.25f;
  check_decode<Attention>(p, {4, 150}, {3.f});
  p.scale = 0.f;
  check_decode<Attention>(p, {4, 150}, {3.f});
}

STROBE_TEST_CASE("decode: documents under a causal mask, ALiBi slopes by packed head", "") {
  using Mask = strobe::Both<strobe::Causal, strobe::Document>;
  using Attention = With<Mask, strobe::Alibi, __nv_bfloat16>;
  constexpr int kv_len = 400;
  std::vector<int> of;
  for (int b = 0; b < 2; ++b)
    for (int k = 0; k < kv_len; ++k)
      of.push_back(k < 130 + 40 * b ? 7 : k >= kv_len - 2 ? 9 : k < 250 ? 3 : 7 + k / 100 % 2);
  const SharedTable<int> documents(of);
  std::vector<float> slopes;
  for (int i = 0; i < 16; ++i) slopes.push_back(i % 3 == 0 ? 0.f : 0.5f / float(1 + i));
  const SharedTable<float> table(slopes);
  check_shapes<Attention>(kv_len, Mask{{}, {documents.data(), kv_len}}, {table.data(), 0});
  check_shapes<Attention>(kv_len, Mask{{}, {documents.data(), kv_len}}, {table.data(), 8});
  check_shapes<Attention>(130, Mask{{}, {documents.data(), 3}}, {table.data(), 0});
  std::sort(of.begin(), of.begin() + kv_len);
  std::sort(of.begin() + kv_len, of.end());
  const SharedTable<int> ascending(of);
  check_shapes<Attention>(kv_len, Mask{{}, {ascending.data(), kv_len, true}}, {table.data(), 8});
}

STROBE_TEST_CASE("decode: a user's mask and a user's score", "") {
  using namespace decode_mask_test;
  std::vector<float> bias;
  for (int i = 0; i < 16; ++i) bias.push_back(0.25f * float(i % 5) - 0.5f);
  const SharedTable<float> table(bias);
  using Attention = With<EveryThird, HeadBias>;
  for (const int period : {2, 3, 200}) {
    check_shapes<Attention>(410, {period}, {table.data(), 4});
    check_shapes<Attention>(1, {period}, {table.data(), 8});
  }
}
