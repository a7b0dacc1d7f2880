// SPDX-License-Identifier: MIT
// The decode instances that compare_decode.py measures, behind one C function: fp16, one query
// token a sequence, head dim 64 or 128, strided (batch, kv_head, token, dim) or
// paged (page, kv_head, slot, dim) caches.
#include <strobe/decode.cuh>

#include <cstring>

namespace {

using namespace strobe;

struct Call {
  const __half *q, *k, *v;
  __half* o;
  int batch, kv_len, capacity, q_heads, kv_heads;
  const int *kv_lens, *table;
  int page_size;
  int splits;
  Workspace workspace;
  cudaStream_t stream;
};

template <int HeadDim, class Kv, class Policy>
Status run(const Call& c, size_t* bytes) {
  Attention<__half, HeadDim, Full, Kv, NoScore, HeadDim, __half, Policy> a;
  a.q = token_major(c.q, 1, c.q_heads, HeadDim);
  a.o = token_major(c.o, 1, c.q_heads, HeadDim);
  if constexpr (tile::is_same<Kv, Paged<__half>>) {
    a.kv.k = head_major(c.k, c.kv_heads, c.page_size, HeadDim);
    a.kv.v = head_major(c.v, c.kv_heads, c.page_size, HeadDim);
    a.kv.table = c.table;
    a.kv.page_size = c.page_size;
    a.kv.table_stride = (c.kv_len + c.page_size - 1) / c.page_size;
  } else {
    a.kv.k = head_major(c.k, c.kv_heads, c.capacity, HeadDim);
    a.kv.v = head_major(c.v, c.kv_heads, c.capacity, HeadDim);
  }
  a.bounds = {c.batch, 1, c.kv_len, c.q_heads, c.kv_heads, c.splits};
  a.lengths.kv_lens = c.kv_lens;
  static Device device;
  if (device.sm_count == 0) {
    if (const Status status = current_device(&device); !status) return status;
  }
  if (bytes != nullptr) {
    *bytes = decode_workspace_bytes<decltype(a)>(a.bounds, device);
    return {};
  }
  return decode(a, device, c.workspace, c.stream);
}

template <int HeadDim>
Status run(const char* variant, const Call& c, size_t* bytes) {
  const auto is = [&](const char* name) { return std::strcmp(variant, name) == 0; };
  if (is("strided")) return run<HeadDim, Strided<__half>, DefaultPolicy>(c, bytes);
  if (is("paged")) return run<HeadDim, Paged<__half>, DefaultPolicy>(c, bytes);
  if (is("fixed 256")) return run<HeadDim, Strided<__half>, FixedPolicy<256>>(c, bytes);
  return detail::invalid() << "no variant '" << variant << "'";
}

}  // namespace

/// kv_len: the bound; capacity: tokens a strided cache has room for. 0, or 1 with a sentence in
/// `text` (248 bytes). With `bytes` given: only the workspace size.
extern "C" int strobe_decode(const char* variant, int head_dim, const void* q, const void* k,
                             const void* v, void* o, int batch, int kv_len, int capacity,
                             int q_heads, int kv_heads, const int* kv_lens, const int* table,
                             int page_size, int splits, void* workspace, size_t workspace_bytes,
                             size_t* bytes, cudaStream_t stream, char* text) {
  const Call c{static_cast<const __half*>(q),
               static_cast<const __half*>(k),
               static_cast<const __half*>(v),
               static_cast<__half*>(o),
               batch,
               kv_len,
               capacity,
               q_heads,
               kv_heads,
               kv_lens,
               table,
               page_size,
               splits,
               {workspace, workspace_bytes},
               stream};
  const Status status = head_dim == 64    ? run<64>(variant, c, bytes)
                        : head_dim == 128 ? run<128>(variant, c, bytes)
                                          : Status(detail::invalid() << "head_dim is " << head_dim);
  std::memcpy(text, status.text, Status::capacity);
  return status.ok() ? 0 : 1;
}
/// Clears a workspace's header.
extern "C" int strobe_init(void* workspace, size_t bytes, cudaStream_t stream) {
  return strobe::init_workspace({workspace, bytes}, stream).ok() ? 0 : 1;
}
