// SPDX-License-Identifier: MIT
// Paged K and V, for decode and prefill: page sizes, tables, layouts of pools. Free pages, free
// slots and paddings hold NaN or infinity; entries of the table that belong to nobody lead far out
// of every pool.
#include "support/case.hpp"

using namespace strobe_test;

namespace {

using Half64 = strobe::Attention<__half, 64, strobe::Window, strobe::Paged<__half>>;
using Bf128 = strobe::Attention<__nv_bfloat16, 128, strobe::Causal, strobe::Paged<__nv_bfloat16>>;
constexpr strobe::Window causal{strobe::unlimited, 0};
constexpr int page_sizes[] = {1, 2, 8, 16, 32, 64, 128, 256, 512};

Problem shape(int batch, int q_len, int kv_len, int q_heads = 2, int kv_heads = 1) {
  Problem p;
  p.batch = batch;
  p.q_len = q_len;
  p.kv_len = kv_len;
  p.q_heads = q_heads;
  p.kv_heads = kv_heads;
  return p;
}

template <class Source>
strobe::Status check_source(const Source& source, strobe::Bounds bounds,
                            const strobe::Lengths& lengths = {}) {
  return source.check(bounds, lengths);
}

}  // namespace

STROBE_TEST_CASE("PAG-05: every page size, ragged lengths around page and tile edges", "") {
  for (const int page_size : page_sizes) {
    INFO("page size " << page_size);
    Problem p = shape(7, 1, 530, 4, 2);
    p.kv_lens = {530, page_size, page_size - 1, page_size + 1, 0, 129, 65};
    p.paging.page_size = page_size;
    for (const int splits : {0, 1, 3}) {
      p.kv_splits = splits;
      check_decode<Half64>(p, causal);
    }
    p.kv_splits = 2;
    p.q_len = 5;
    check_decode<Bf128>(p);
    p = shape(3, 70, 300, 2, 1);
    p.kv_lens = {300, page_size + 1, 63};
    p.q_lens = {70, 3, 70};
    p.rows_checked = 10;
    p.paging.page_size = page_size;
    check_problem<Half64>(p, causal);
    check_problem<Bf128>(p);
  }
}

STROBE_TEST_CASE("PAG-05: other page sizes, offsets, missing tables: refused with the rule", "") {
  alignas(16) static const __half pool[64] = {};
  static const int table[4] = {};
  strobe::Paged<__half> source;
  source.k = source.v = {pool, 64, 8, 8};
  source.table = table;
  source.table_stride = 4;
  const strobe::Bounds bounds{2, 1, 60, 1, 1};
  CHECK(check_source(source, bounds).ok());
  const auto refused = [&](const strobe::Status& status, const char* part) {
    INFO(status.text);
    CHECK(status.code == strobe::Code::invalid);
    CHECK(std::string(status.text).find(part) != std::string::npos);
  };
  for (const int page_size : {0, -1, -16, 3, 24, 48, 768, -2147483647 - 1}) {
    source.page_size = page_size;
    refused(check_source(source, bounds), "kv.page_size");
  }
  source.page_size = 16;
  source.table_stride = 3;
  refused(check_source(source, bounds), "kv.table_stride");
  CHECK(check_source(source, {1, 1, 60, 1, 1}).ok());  // one sequence: no stride
  source.table_stride = 4;
  // PAG-03: a bound beyond the table's columns is an error where the host sees it.
  refused(check_source(source, {2, 1, 65, 1, 1}), "kv.table_stride");
  strobe::Lengths lengths;
  lengths.kv_offsets = table;
  refused(check_source(source, bounds, lengths), "lengths.kv_offsets");
  source.table = nullptr;
  refused(check_source(source, bounds), "kv.table");
  source.table = reinterpret_cast<const int*>(reinterpret_cast<uintptr_t>(&table[0]) + 2);
  refused(check_source(source, bounds), "kv.table");
  source.table = table;
  source.page_offsets = source.table;
  CHECK(check_source(source, bounds).ok());
  source.page_offsets = reinterpret_cast<const int*>(reinterpret_cast<uintptr_t>(&table[0]) + 2);
  refused(check_source(source, bounds), "kv.page_offsets");
  source.page_offsets = nullptr;
  source.k.batch = 60;
  refused(check_source(source, bounds), "kv.k.batch");
  source.k.batch = 64;
  source.v.token = 12;
  refused(check_source(source, bounds), "kv.v.token");
  source.v.token = 8;
  source.v.data = nullptr;
  refused(check_source(source, bounds), "kv.v.data");
}

// NaN in the free slots of the last page came through as 0 * NaN.
STROBE_TEST_CASE("PAG-01: dead slots of the last page, NaN and infinity", "") {
  const auto check = [](int page_size, int kv_len) {
    Problem p = shape(1, 1, kv_len);
    p.paging.page_size = page_size;
    for (const int splits : {1, 2}) {
      p.kv_splits = splits;
      const Result nan = check_decode<Half64>(p, causal);
      p.poison = Poison::infinity;
      CHECK(same_bits(nan, check_decode<Half64>(p, causal)));
    }
  };
  check(4, 13);
  check(16, 1530);
  check(16, 1536);  // the control
  Problem p = shape(1, 13, 13);
  p.paging.page_size = 4;
  check_problem<Half64>(p, causal);
}

// The kernel read past the table where a length was larger than its columns.
STROBE_TEST_CASE("PAG-03: lengths beyond the bound are cut to it", "") {
  Problem p = shape(2, 1, 32);
  p.kv_lens = {33, 1 << 30};
  for (const bool csr : {false, true}) {
    p.paging.csr = csr;
    check_decode<Half64>(p, causal);
    p.q_len = 3;
    check_problem<Half64>(p, causal);
  }
}

STROBE_TEST_CASE("PAG-06, RAG-06: padded slots whose table rows are arbitrary", "") {
  Problem p = shape(8, 1, 200, 4, 2);
  p.kv_lens = {17, 130, 1, 64, 0, 0, 0, 0};
  for (const int splits : {0, 1, 2}) {
    p.kv_splits = splits;
    for (const bool csr : {false, true}) {
      p.paging.csr = csr;
      check_decode<Half64>(p, causal);
    }
  }
  p.kv_lens = std::vector<int>(8, 0);
  check_decode<Half64>(p, causal);
}

STROBE_TEST_CASE("paged: packed queries, cached keys, as a serving engine calls", "") {
  Problem p = shape(4, 5, 150, 4, 2);
  p.q_offsets = {0, 5, 6, 6, 8};
  p.kv_lens = {150, 17, 40, 2};
  for (const bool csr : {false, true}) {
    p.paging.csr = csr;
    check_decode<Half64>(p, causal);
    check_problem<Half64>(p, causal);
  }
}

// The address of a page was rebuilt from page size and token stride.
STROBE_TEST_CASE("PAG-07: interleaved, head-major, padded, V in K: the bits of a plain pool", "") {
  for (const int page_size : {1, 16, 128}) {
    Problem plain = shape(3, 4, 300, 6, 2);
    plain.kv_lens = {300, 17, 130};
    plain.kv_splits = 2;
    plain.paging.page_size = page_size;
    plain.paging.shuffle = 0;
    const Result expected = check_decode<Half64>(plain, causal);
    const Result prefilled = run_problem<Half64>(plain, causal);
    const auto check = [&](auto change) {
      Problem p = plain;
      p.paging.shuffle = 9;
      change(p.paging);
      CHECK(same_bits(expected, run_decode<Half64>(p, causal)));
      CHECK(same_bits(prefilled, run_problem<Half64>(p, causal)));
    };
    check([](Paging&) {});
    check([](Paging& paging) { paging.interleaved = true; });
    check([](Paging& paging) { paging.order = Order::head_major; });
    check([](Paging& paging) { paging.page_pad = 40; });
    check([](Paging& paging) { paging.csr = true; });
    check([](Paging& paging) {
      paging.interleaved = paging.csr = true;
      paging.order = Order::head_major;
      paging.page_pad = 8;
    });
    Problem shared = plain;
    shared.storage = Storage::v_in_k;
    shared.value_dim = 32;
    check_decode<Half64>(shared, causal);
  }
}

STROBE_TEST_CASE("paged and strided agree in every bit", "") {
  using Strided64 = strobe::Attention<__half, 64, strobe::Window>;
  for (const int page_size : page_sizes)
    for (const int splits : {1, 4}) {
      Problem p = shape(2, 3, 700, 4, 2);
      p.kv_lens = {700, 333};
      p.kv_splits = splits;
      const Result strided = run_decode<Strided64>(p, {150, 0});
      p.paging.page_size = page_size;
      CHECK(same_bits(strided, run_decode<Half64>(p, {150, 0})));
    }
}

STROBE_TEST_CASE("SCH-01: every number of splits over pages", "") {
  for (const int splits : {0, 1, 2, 3, 7, 16, 32, 33, 64, 128})
    for (const int kv_len : {1, 64, 65, 300, 1200}) {
      Problem p = shape(1, 1, kv_len, 4, 2);
      p.kv_splits = splits;
      check_decode<Bf128>(p);
    }
}

#if !STROBE_HOST_EXECUTION
// Page index times page stride wrapped in 32 bits. An interleaved bf16 pool of 4.3 GB whose last
// page holds the sequence, and a table that names it alone.
STROBE_TEST_CASE("OVF-02: a page beyond 2^31 elements", "") {
  constexpr int64_t stride = 32768;  // [2][16][8][128]
  constexpr int last = 65543;
  size_t free_bytes = 0, all_bytes = 0;
  STROBE_REQUIRE_CUDA(cudaMemGetInfo(&free_bytes, &all_bytes));
  if (free_bytes < size_t(10) << 30) SKIP("needs 10 GB of free GPU memory");
  const GuardedMemory before(size_t(4) << 30);  // what a wrapped index would read: NaN
  const GuardedMemory pool(size_t(last + 1) * stride * 2);
  auto* const base = static_cast<__nv_bfloat16*>(pool.data());

  Problem p = shape(1, 1, 16, 16, 8);
  p.paging.interleaved = true;
  p.paging.shuffle = 0;
  p.paging.pool_pages = 4;
  const Prepared<Bf128, Decode> near(p);
  REQUIRE(near.args.kv.k.batch == stride);
  require_ok(near.launch());
  finish();
  const Result expected = judge(near);
  STROBE_REQUIRE_CUDA(cudaMemcpy(base + last * stride, near.args.kv.k.data, size_t(stride) * 2,
                                 cudaMemcpyDeviceToDevice));
  const SharedTable<int> table({last});
  Bf128 a = near.args;
  a.kv.k.data = base;
  a.kv.v.data = base + stride / 2;
  a.kv.table = table.data();
  near.reset_outputs();
  require_ok(strobe::decode(a, test_device(), near.workspace, nullptr));
  finish();
  CHECK(same_bits(expected, gather(near, near.download_o(), near.download_lse())));
  near.reset_outputs();
  require_ok(strobe::prefill(a, test_device(), {}, nullptr));
  finish();
  judge(near);
}
#endif
