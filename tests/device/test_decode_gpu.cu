// SPDX-License-Identifier: MIT
// Decode where only a GPU will do: long and uneven caches, large batches, graphs, streams. Under
// host execution this file is empty.
#include "support/case.hpp"
#include "support/streams.hpp"

#if !STROBE_HOST_EXECUTION

using namespace strobe_test;

namespace {

using Half64 = strobe::Attention<__half, 64, strobe::Window>;
using Paged64 = strobe::Attention<__half, 64, strobe::Window, strobe::Paged<__half>>;
using Bf128 = strobe::Attention<__nv_bfloat16, 128, strobe::Causal>;
using Fixed64 = strobe::Attention<__half, 64, strobe::Window, strobe::Paged<__half>,
                                  strobe::NoScore, 64, __half, strobe::FixedPolicy<256>>;
constexpr strobe::Window causal{strobe::unlimited, 0};

Problem shape(int batch, int q_len, int kv_len, int q_heads, int kv_heads) {
  Problem p;
  p.batch = batch;
  p.q_len = q_len;
  p.kv_len = kv_len;
  p.q_heads = q_heads;
  p.kv_heads = kv_heads;
  return p;
}

template <class Attention>
Result bits_of_memory(const Prepared<Attention, Decode>& prepared) {
  return gather(prepared, prepared.download_o(), prepared.download_lse());
}

template <class Attention>
void check_graph(const typename Attention::mask_type& mask, int pool_pages) {
  // Of the report: captured with one set of lengths, replayed with another.
  Problem p = shape(4, 1, 8192, 4, 2);
  p.kv_lens = {1, 1, 1, 512};
  p.paging.pool_pages = pool_pages;
  Prepared<Attention, Decode> captured(p, mask);
  const Stream stream;
  require_ok(captured.launch());  // attributes are set outside of the capture
  finish();
  captured.reset_outputs();
  const Graph graph(stream, [&](cudaStream_t s) { return captured.launch(s); });
  uint64_t seed = 10;
  for (const std::vector<int>& lens : {std::vector<int>{1, 1, 1, 512},
                                       {8192, 3, 700, 1},
                                       {0, 8191, 0, 4000},
                                       {0, 0, 0, 0},
                                       {8192, 8192, 8192, 8192},
                                       {1, 1, 1, 512}}) {
    p.kv_lens = lens;
    p.seed = p.paging.shuffle = ++seed;
    const Prepared<Attention, Decode> eager(p, mask);
    require_ok(eager.launch());
    finish();
    const Result expected = judge(eager);
    captured.take_over(eager);
    for (int repeat = 0; repeat < 3; ++repeat) {
      captured.reset_outputs();
      STROBE_REQUIRE_CUDA(cudaDeviceSynchronize());
      graph.launch(stream);
      finish(stream);
      CHECK(same_bits(expected, bits_of_memory(captured)));
      CHECK(captured.damage(captured.download_o(), captured.download_lse()) == "");
    }
  }
}

}  // namespace

STROBE_TEST_CASE("decode: ragged lengths 0 to 100000", "") {
  for (const int splits : {0, 1, 5, 128}) {
    Problem p = shape(9, 1, 100000, 4, 1);
    p.head_dim = p.value_dim = 32;
    p.kv_lens = {100000, 0, 1, 99999, 65536, 777, 12345, 0, 31};
    p.kv_splits = splits;
    check_decode<Half64>(p, causal);
    p.q_len = 5;
    check_decode<Paged64>(p, causal);
  }
}

STROBE_TEST_CASE("decode: full width and heads, ragged, every number of splits", "") {
  for (const int splits : {0, 1, 2, 3, 7, 16, 32, 33, 64, 128}) {
    Problem p = shape(3, 1, 4096, 16, 8);
    p.kv_lens = {4096, 1, 3000};
    p.kv_splits = splits;
    check_decode<Bf128>(p);
  }
}

// Of the seed project's tests.
STROBE_TEST_CASE("decode: ragged batches of flash-attention-cuda", "") {
  for (const std::vector<int>& lens : {std::vector<int>{1, 2, 512, 4096},
                                       {513, 1023, 1024, 3000},
                                       {64, 65, 127, 129},
                                       {4096, 1, 2048, 7}}) {
    Problem p = shape(4, 1, 4096, 8, 8);
    p.kv_lens = lens;
    check_decode<Half64>(p, causal);
  }
}

STROBE_TEST_CASE("SCH-07: a captured decode replays with other lengths, tables and values", "") {
  check_graph<Half64>(causal, 0);
  check_graph<Paged64>(causal, 4 * 512 + 3);
  check_graph<Fixed64>(causal, 4 * 512 + 3);
}

STROBE_TEST_CASE("decode: 30 runs, the same bits, other work beside", "") {
  Problem p = shape(5, 1, 20000, 8, 2);
  p.kv_lens = {20000, 300, 0, 12000, 1};
  p.rows_checked = 1;
  const Prepared<Half64, Decode> prepared(p, causal), noise(p, causal);
  const Stream beside;
  require_ok(prepared.launch());
  finish();
  const Result first = judge(prepared);
  for (int run = 0; run < 30; ++run) {
    prepared.reset_outputs();
    STROBE_REQUIRE_CUDA(cudaDeviceSynchronize());
    for (int i = 0; i < run % 3; ++i) require_ok(noise.launch(beside));
    require_ok(prepared.launch());
    finish();
    CHECK(same_bits(first, bits_of_memory(prepared)));
  }
  STROBE_REQUIRE_CUDA(cudaStreamSynchronize(beside));
}

STROBE_TEST_CASE("decode: several streams and threads, a workspace each", "") {
  constexpr int count = 4, rounds = 20;
  std::vector<std::unique_ptr<Prepared<Half64, Decode>>> prepared;
  std::vector<Result> expected;
  for (int i = 0; i < count; ++i) {
    Problem p = shape(3, 1 + 2 * i, 6000, 6, 2);
    p.kv_lens = {6000, 100 * i, 1};
    p.seed = uint64_t(100 + i);
    prepared.push_back(std::make_unique<Prepared<Half64, Decode>>(p, causal));
    require_ok(prepared.back()->launch());
    finish();
    expected.push_back(judge(*prepared.back()));
    prepared.back()->reset_outputs();
  }
  finish();
  const std::vector<strobe::Status> statuses = launch_from_threads(
      count, rounds,
      [&](int i, cudaStream_t stream) { return prepared[size_t(i)]->launch(stream); });
  for (int i = 0; i < count; ++i) {
    require_ok(statuses[size_t(i)]);
    finish();
    CHECK(same_bits(expected[size_t(i)], bits_of_memory(*prepared[size_t(i)])));
    CHECK(judge(*prepared[size_t(i)]).rows > 0);
  }
}

STROBE_TEST_CASE("LIM-01: decode of a batch beyond 65535", "") {
  for (const int batch : {65535, 65536, 70000}) {
    Problem p = shape(batch, 1, 4, 8, 1);
    p.head_dim = p.value_dim = 8;  // small rows: the batch is the point
    check_decode<Half64>(p, causal);
  }
}

// Shared memory was sized from the longest input.
STROBE_TEST_CASE("LIM-06: 262144 keys under a window, 1048576 without", "") {
  Problem p = shape(1, 1, 262144, 2, 1);
  p.head_dim = p.value_dim = 16;
  check_decode<Half64>(p, {65535, 0});
  p.kv_len = 1048576;
  check_decode<Half64>(p, causal);
  p.kv_splits = 1000;
  check_decode<Half64>(p, causal);
  p.kv_splits = 0;
  check_decode<Paged64>(p, causal);
}

// DET-04 without fixed: the bound may change the split, never what is right.
STROBE_TEST_CASE("DET-04: 40960 keys in caches of 40960, 106496 and 262144", "") {
  for (const int capacity : {40960, 106496, 262144}) {
    Problem p = shape(1, 1, capacity, 2, 1);
    p.kv_lens = {40960};
    check_decode<Half64>(p, causal);
  }
}

STROBE_TEST_CASE("RAG-06: bounds of 131072 over 512 real keys", "") {
  Problem p = shape(8, 1, 131072, 8, 2);
  p.kv_lens = {512, 512, 17, 0, 512, 1, 500, 0};
  p.kv_rows = 512;
  p.paging.page_size = 64;
  check_decode<Paged64>(p, causal);
}

STROBE_TEST_CASE("ERR-02, ERR-04: decode returns CUDA's own refusal; another device is an error",
                 "") {
  const Prepared<Half64, Decode> prepared(shape(1, 1, 50, 2, 1), causal);
  require_ok(prepared.launch());
  finish();
  check_refused_by_cuda([&](cudaStream_t stream) { return prepared.launch(stream); });
  check_other_device_refused([&](const strobe::Device& device) {
    return strobe::decode(prepared.args, device, prepared.workspace, nullptr);
  });
}

#endif
