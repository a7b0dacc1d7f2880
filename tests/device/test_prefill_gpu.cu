// SPDX-License-Identifier: MIT
// What only a GPU can show: large grids, pools beyond 2^31 elements, streams, graphs, CUDA's own
// errors. Under host execution this file is empty.
#include "support/case.hpp"
#include "support/streams.hpp"

#if !STROBE_HOST_EXECUTION

using namespace strobe_test;

namespace {

using Half64 = strobe::Attention<__half, 64, strobe::Window>;
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

// Keeps a stream busy, so that what is queued behind it is really queued.
__global__ void wait_clocks(long long clocks) {
  const long long begin = clock64();
  while (clock64() - begin < clocks) {
  }
}

template <class T>
__global__ void copy_elements(T* to, const T* from, int64_t count) {
  for (int64_t i = int64_t(blockIdx.x) * blockDim.x + threadIdx.x; i < count;
       i += int64_t(gridDim.x) * blockDim.x)
    to[i] = from[i];
}

}  // namespace

STROBE_TEST_CASE("LIM-01: a batch beyond 65535", "") {
  for (const int batch : {65535, 65536, 70000}) {
    Problem p = shape(batch, 4, 4, 8, 1);
    p.head_dim = p.value_dim = 8;  // small rows: the batch is the point
    check_problem<Half64>(p, causal);
  }
}

STROBE_TEST_CASE("RAG-07: bounds of 100000 over short sequences", "") {
  Problem p = shape(3, 100000, 100000, 4, 2);
  p.q_offsets = p.kv_offsets = {0, 5, 305, 382};
  check_problem<Half64>(p, causal);
}

// OVF-02 for strided tensors: one sequence whose K, V, Q and O rows lie beyond element 2^31 of
// pools that would wrap in 32 bits, right behind memory of other people.
STROBE_TEST_CASE("OVF-02: pools beyond 2^31 elements", "") {
  const Problem p = shape(1, 100, 200, 2, 1);
  const Prepared<Half64> near(p, causal);
  require_ok(near.launch());
  finish();
  const Result expected = judge(near);

  constexpr int64_t far = (int64_t(1) << 31) + (int64_t(1) << 20);
  constexpr int64_t row = 2 * 64, room = 256 * row;
  size_t free_bytes = 0, all_bytes = 0;
  STROBE_REQUIRE_CUDA(cudaMemGetInfo(&free_bytes, &all_bytes));
  if (free_bytes < size_t(10) << 30) SKIP("needs 10 GB of free GPU memory");
  const GuardedMemory pool(size_t(far + room) * sizeof(__half));
  auto* const base = static_cast<__half*>(pool.data());
  STROBE_REQUIRE_CUDA(cudaMemset(base, 0xff, pool.bytes()));
  const GuardedMemory o_pool(size_t(far + room) * sizeof(__half));
  auto* const o_base = static_cast<__half*>(o_pool.data());

  // A batch of 2 whose second entry is the real one, with the pool's half as batch stride; and a
  // token offset that alone is beyond 2^31 (offsets are int, so 2^24 tokens of 128 elements).
  const auto copy_rows = [](__half* to, const __half* from, int64_t count) {
    copy_elements<<<64, 256>>>(to, from, count);
  };
  for (const bool by_offset : {false, true}) {
    Half64 a = near.args;
    a.q.token = a.o.token = row;
    a.kv.k.token = a.kv.v.token = row;
    copy_rows(base + far, near.args.q.data, 100 * row);
    // K and V are [token][1][64]: rows of half the pitch.
    for (int t = 0; t < 200; ++t) {
      STROBE_REQUIRE_CUDA(cudaMemcpyAsync(base + far - 200 * row + t * row,
                                          near.args.kv.k.row(0, t, 0), 128,
                                          cudaMemcpyDeviceToDevice));
      STROBE_REQUIRE_CUDA(cudaMemcpyAsync(base + far - 200 * row + t * row + 64,
                                          near.args.kv.v.row(0, t, 0), 128,
                                          cudaMemcpyDeviceToDevice));
    }
    STROBE_REQUIRE_CUDA(cudaMemset(o_base, 0, o_pool.bytes()));
    const int first_q = int(far / row), first_k = first_q - 200;
    const SharedTable<int> q_offsets({0, 0, first_q, first_q + 100});
    const SharedTable<int> kv_offsets({0, 0, first_k, first_k + 200});
    const SharedTable<int> lens({0, 0, 1 << 29});
    a.lse.data = nullptr;
    a.bounds.batch = 2;
    if (by_offset) {
      a.q.data = a.kv.k.data = base;
      a.kv.v.data = base + 64;
      a.o.data = o_base;
      a.bounds.batch = 3;
      a.lengths.q_offsets = q_offsets.data();
      a.lengths.kv_offsets = kv_offsets.data();
      // Entry 1 owns all the tokens before, which hold NaN: lengths switch it off.
      a.lengths.q_lens = a.lengths.kv_lens = lens.data();
    } else {
      a.q.data = base, a.q.batch = far;
      a.kv.k.data = base, a.kv.k.batch = far - 200 * row;
      a.kv.v.data = base + 64, a.kv.v.batch = far - 200 * row;
      a.o.data = o_base, a.o.batch = far;
    }
    require_ok(strobe::prefill(a, test_device(), {}, nullptr));
    finish();
    std::vector<__half> o(size_t(100 * row));
    STROBE_REQUIRE_CUDA(cudaMemcpy(o.data(), o_base + far, o.size() * 2, cudaMemcpyDefault));
    int64_t different = 0;
    for (int t = 0; t < 100; ++t)
      for (int h = 0; h < 2; ++h)
        for (int d = 0; d < 64; ++d)
          different += to_float(o[size_t(t * row + h * 64 + d)]) != expected.row(0, h, t)[d];
    INFO((by_offset ? "by token offset" : "by batch stride"));
    CHECK(different == 0);
  }
  CHECK(pool.guard_damage().empty());
  CHECK(o_pool.guard_damage().empty());
}

STROBE_TEST_CASE("SCH-07: a captured graph replays with other lengths", "") {
  Problem p = shape(4, 600, 900, 4, 2);
  p.q_lens = {600, 600, 600, 600};
  p.kv_lens = {900, 900, 900, 900};
  p.rows_checked = 40;
  Prepared<Half64> prepared(p, causal);
  const Stream stream;
  require_ok(strobe::prefill_supported(prepared.args, test_device()));
  const Graph graph(stream, [&](cudaStream_t s) { return prepared.launch(s); });
  CHECK(graph.nodes() == 1);
  using Lens = std::vector<int>;
  for (const auto& [q_lens, kv_lens] :
       {std::pair{Lens{600, 600, 600, 600}, Lens{900, 900, 900, 900}},
        {Lens{1, 0, 599, 65}, Lens{1, 64, 899, 0}},
        {Lens{600, 3, 128, 129}, Lens{5, 3, 700, 900}}}) {
    prepared.set_lens(q_lens, kv_lens);
    prepared.reset_outputs();
    STROBE_REQUIRE_CUDA(cudaDeviceSynchronize());
    graph.launch(stream);
    finish(stream);
    const Result replayed = judge(prepared);
    prepared.reset_outputs();
    require_ok(prepared.launch());
    finish();
    CHECK(same_bits(replayed, gather(prepared, prepared.download_o(), prepared.download_lse())));
  }
}

// ERR-05: work is ordered by the given stream and nothing else. The producer is slow, so a kernel
// on another stream would read what lies there before it: poison.
STROBE_TEST_CASE("ERR-05: behind a slow producer, before a consumer, on a non-blocking stream",
                 "") {
  Problem p = shape(2, 300, 500, 4, 2);
  p.rows_checked = 40;
  const Prepared<Half64> prepared(p, causal);
  require_ok(prepared.launch());
  finish();
  const Result expected = judge(prepared);

  const auto count = size_t(prepared.q_place.end), o_count = size_t(prepared.o_place.end);
  const GuardedMemory q(count * sizeof(__half)), o(o_count * sizeof(__half));
  std::vector<__half> before(o_count, from_bits<__half>(0xa5a5));
  o.upload(before.data());
  prepared.reset_outputs();
  finish();
  const Stream stream;
  Half64 a = prepared.args;
  a.q.data = static_cast<const __half*>(q.data());
  wait_clocks<<<1, 1, 0, stream>>>(20000000);
  copy_elements<<<64, 256, 0, stream>>>(static_cast<__half*>(q.data()), prepared.args.q.data,
                                        int64_t(count));
  require_ok(strobe::prefill(a, test_device(), {}, stream));
  copy_elements<<<64, 256, 0, stream>>>(static_cast<__half*>(o.data()),
                                        static_cast<const __half*>(a.o.data), int64_t(o_count));
  finish(stream);
  std::vector<__half> copied(o_count);
  o.download(copied.data());
  CHECK(same_bits(expected, gather(prepared, copied, prepared.download_lse())));
}

STROBE_TEST_CASE("several streams and host threads at once: the same bits", "") {
  Problem p = shape(2, 400, 700, 4, 2);
  p.rows_checked = 40;
  constexpr int count = 4, rounds = 8;
  std::vector<std::unique_ptr<Prepared<Half64>>> prepared;
  std::vector<Result> expected;
  for (int i = 0; i < count; ++i) {
    p.seed = uint64_t(100 + i);
    prepared.push_back(std::make_unique<Prepared<Half64>>(p, causal));
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
    CHECK(same_bits(expected[size_t(i)],
                    gather(*prepared[size_t(i)], prepared[size_t(i)]->download_o(),
                           prepared[size_t(i)]->download_lse())));
  }
}

STROBE_TEST_CASE("ERR-02: an error the user left behind is neither blamed on us nor swallowed",
                 "") {
  const Problem p = shape(1, 40, 50, 2, 1);
  const Prepared<Half64> prepared(p, causal);
  require_ok(prepared.launch());  // attributes are set: the next call only launches
  finish();
  (void)cudaSetDevice(12345);  // leaves "invalid device ordinal" pending
  REQUIRE(cudaPeekAtLastError() == cudaErrorInvalidDevice);
  prepared.reset_outputs();
  const strobe::Status status = prepared.launch();
  const cudaError_t pending = cudaGetLastError();
  require_ok(status);
  CHECK(pending == cudaErrorInvalidDevice);
  finish();
  judge(prepared);
}

STROBE_TEST_CASE("ERR-02: our own failure is returned and not left pending", "") {
  const Problem p = shape(1, 40, 50, 2, 1);
  const Prepared<Half64> prepared(p, causal);
  require_ok(prepared.launch());
  finish();
  prepared.reset_outputs();
  check_refused_by_cuda([&](cudaStream_t stream) { return prepared.launch(stream); });
}

STROBE_TEST_CASE("ERR-04: facts of another device than the current one are an error", "") {
  const Problem p = shape(1, 40, 50, 2, 1);
  const Prepared<Half64> prepared(p, causal);
  check_other_device_refused([&](const strobe::Device& device) {
    return strobe::prefill(prepared.args, device, {}, nullptr);
  });
  int current = -1;
  STROBE_REQUIRE_CUDA(cudaGetDevice(&current));
  CHECK(current == test_device().ordinal);
  finish();
  CHECK(prepared.damage(prepared.download_o(), prepared.download_lse()).empty());
}

STROBE_TEST_CASE("MSK-02: the large one, q_len 2048 and kv_len 1024", "") {
  Problem p = shape(1, 2048, 1024, 2, 1);
  p.rows_checked = 64;
  check_problem<strobe::Attention<__nv_bfloat16, 128, strobe::Causal>>(p);
}

STROBE_TEST_CASE("DET-04: cache capacities of the report", "") {
  Problem p = shape(1, 8, 40960, 2, 1);
  p.kv_lens = {40960};
  const Result exact = run_problem<Half64>(p, causal);
  for (const int capacity : {106496, 262144}) {
    p.kv_rows = p.kv_len = capacity;
    CHECK(same_bits(exact, run_problem<Half64>(p, causal)));
  }
}

STROBE_TEST_CASE("30 runs, the same bits, another kernel beside", "") {
  Problem p = shape(2, 1024, 1024, 8, 2);
  const Prepared<Half64> prepared(p, causal);
  const Stream noise;
  require_ok(prepared.launch());
  finish();
  const Result first = gather(prepared, prepared.download_o(), prepared.download_lse());
  for (int run = 0; run < 30; ++run) {
    wait_clocks<<<60, 128, 0, noise>>>(200000);
    prepared.reset_outputs();
    require_ok(prepared.launch());
    finish();
    CHECK(same_bits(first, gather(prepared, prepared.download_o(), prepared.download_lse())));
  }
  STROBE_REQUIRE_CUDA(cudaStreamSynchronize(noise));
}

#endif
