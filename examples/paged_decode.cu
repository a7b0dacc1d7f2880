// SPDX-License-Identifier: MIT
// One decoding step over a paged cache, as an engine writes it: the instance, the cache, a call
// that is described once, its workspace, and what the library says of it. docs/use/quick-start.md
// shows the parts between the marks.
#include <cmath>
#include <cstdio>
#include <string>
#include <vector>

#include "support/array.hpp"

// [docs: instance]
#include <strobe/decode.cuh>

// Rows of 128 elements, a cache in pages. How many heads there are, and how many of them share a KV
// head, the call says. One new token sees all keys, so no mask is needed.
constexpr int dim = 128;
using Decode = strobe::Attention<__half, dim, strobe::Full, strobe::Paged<__half>>;
// [docs: end]

// [docs: cache]
struct Cache {             // of one layer; all pointers are device memory
  const __half* k;         // [pages, page_size, kv_heads, 128]
  const __half* v;         // the same
  const int* block_table;  // [max_batch, max_pages]: which page holds keys i * page_size and up
  const int* kv_lens;      // [max_batch]: keys of each sequence now, the new token's included
  int page_size, max_pages, kv_heads;
};
// [docs: end]

// [docs: describe]
Decode describe(const Cache& cache, int batch, int q_heads, const __half* q, __half* o) {
  Decode a;
  a.q = strobe::token_major(q, 1, q_heads, dim);  // [batch, 1, q_heads, 128]
  a.o = strobe::token_major(o, 1, q_heads, dim);
  a.kv.k = strobe::token_major(cache.k, cache.page_size, cache.kv_heads, dim);
  a.kv.v = strobe::token_major(cache.v, cache.page_size, cache.kv_heads, dim);
  a.kv.table = cache.block_table;
  a.kv.table_stride = cache.max_pages;
  a.kv.page_size = cache.page_size;
  a.lengths.kv_lens = cache.kv_lens;  // read by the kernel, so a graph replays with new ones
  a.bounds = {batch, 1, cache.max_pages * cache.page_size, q_heads, cache.kv_heads};
  return a;
}
// [docs: end]

int main() {
  const int batch = 3, q_heads = 8, kv_heads = 2, page_size = 16, max_pages = 4, pages = 12;
  const std::vector<int> lens{50, 1, 33}, table{7, 2, 9, 0, 4, -1, -1, -1, 11, 1, 5, -1};

  // Q is 0, so each output is the mean of the V rows its sequence owns; V holds the key's number.
  std::vector<__half> rows(size_t(pages) * page_size * kv_heads * dim, __float2half_rn(-1.f)),
      queries(size_t(batch) * q_heads * dim, __float2half_rn(0.f));
  for (int b = 0; b < batch; ++b)
    for (int key = 0; key < lens[size_t(b)]; ++key) {
      const int page = table[size_t(b * max_pages + key / page_size)];
      const size_t row = size_t(page * page_size + key % page_size) * kv_heads * dim;
      for (size_t i = 0; i < size_t(kv_heads) * dim; ++i)
        rows[row + i] = __float2half_rn(float(key));
    }
  const example::Array<__half> q(queries), k(rows), v(rows), o(queries.size());
  const example::Array<int> block_table(table), kv_lens(lens);
  const Cache cache{k.data(),  v.data(), block_table.data(), kv_lens.data(), page_size,
                    max_pages, kv_heads};
  const cudaStream_t stream = nullptr;

  // [docs: once]
  strobe::Device device;
  example::require(strobe::current_device(&device));
  const Decode a = describe(cache, batch, q_heads, q.data(), o.data());

  // For these bounds. With several, the largest answer: a smaller batch may want more, because its
  // keys are cut into more parts.
  const size_t bytes = strobe::decode_workspace_bytes<Decode>(a.bounds, device);
  const example::Array<unsigned char> scratch(bytes);  // cudaMalloc
  const strobe::Workspace workspace{bytes > 0 ? scratch.data() : nullptr, bytes};
  example::require(strobe::init_workspace(workspace, stream));
  // [docs: end]

  // [docs: step]
  const strobe::Status status = strobe::decode(a, device, workspace, stream);
  if (!status) std::fprintf(stderr, "decode: %s\n", status.text);
  // [docs: end]
  example::require(status);

  // [docs: which]
  const strobe::KernelChoice choice = strobe::decode_kernel(a, device);
  std::printf("%s\n", choice.status.ok() ? choice.text : choice.status.text);
  // [docs: end]

  // [docs: wrong]
  Decode wrong = a;
  wrong.kv.page_size = 24;
  const strobe::Status refused = strobe::decode_supported(wrong, device);
  std::printf("%s\n", refused.text);  // kv.page_size is 24; it must be a power of two
  // [docs: end]
  if (refused.code != strobe::Code::invalid ||
      std::string(refused.text) != "kv.page_size is 24; it must be a power of two") {
    std::printf("the sentence has changed, and docs/use/errors.md with it\n");
    return 1;
  }

  const std::vector<__half> got = o.to_host();
  for (int b = 0; b < batch; ++b)
    for (int i = 0; i < q_heads * dim; ++i) {
      const double mean = (lens[size_t(b)] - 1) / 2.0,
                   value = double(__half2float(got[size_t(b) * q_heads * dim + size_t(i)]));
      if (!(std::fabs(value - mean) <= 1e-3 * mean)) {
        std::printf("sequence %d, element %d: %g, expected %g\n", b, i, value, mean);
        return 1;
      }
    }
  std::printf("right in all %d sequences, on %s\n", batch, example::place());
}
