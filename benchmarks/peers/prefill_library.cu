// SPDX-License-Identifier: MIT
// The prefill instances that compare_prefill.py measures, behind one C function: fp16, token-major,
// head dim 64 or 128.
#include <strobe/prefill.cuh>

#include <cstring>

namespace {

using namespace strobe;

/// Sees everything but says nothing about tiles, so that every element of every tile is asked: what
/// a full tile saves.
struct AskEveryElement {
  struct Bound {
    STROBE_HOST_DEVICE bool visible(int q, int k) const { return k - q < unlimited; }
  };
  STROBE_HOST_DEVICE Bound bind(const Block&) const { return {}; }
};

struct Call {
  const __half *q, *k, *v;
  __half* o;
  float* lse;
  int batch, len, heads;
  cudaStream_t stream;
};

template <int HeadDim, class Mask, class Policy = DefaultPolicy>
Status run(const Call& c, const Mask& mask = {}) {
  Attention<__half, HeadDim, Mask, Strided<__half>, NoScore, HeadDim, __half, Policy> a;
  a.q = token_major(c.q, c.len, c.heads, HeadDim);
  a.kv.k = token_major(c.k, c.len, c.heads, HeadDim);
  a.kv.v = token_major(c.v, c.len, c.heads, HeadDim);
  a.o = token_major(c.o, c.len, c.heads, HeadDim);
  a.lse = head_major(c.lse, c.heads, c.len, 1);
  a.mask = mask;
  a.bounds = {c.batch, c.len, c.len, c.heads, c.heads};
  static Device device;
  if (device.sm_count == 0) {
    if (const Status status = current_device(&device); !status) return status;
  }
  return prefill(a, device, Workspace{}, c.stream);
}

template <int HeadDim>
Status run(const char* variant, const Call& c) {
  const auto is = [&](const char* name) { return std::strcmp(variant, name) == 0; };
  if (is("full")) return run<HeadDim, Full>(c);
  if (is("causal")) return run<HeadDim, Causal>(c);
  if (is("full, split P")) return run<HeadDim, Full, SplitPPolicy>(c);
  if (is("causal, split P")) return run<HeadDim, Causal, SplitPPolicy>(c);
  if (is("window without bounds")) return run<HeadDim, Window>(c);
  if (is("window, causal")) return run<HeadDim, Window>(c, Window{unlimited, 0});
  if (is("every element asked")) return run<HeadDim, AskEveryElement>(c);
  return detail::invalid() << "no variant '" << variant << "'";
}

}  // namespace

/// 0, or 1 with a sentence in `text` (248 bytes).
extern "C" int strobe_prefill(const char* variant, int head_dim, const void* q, const void* k,
                              const void* v, void* o, float* lse, int batch, int len, int heads,
                              cudaStream_t stream, char* text) {
  const Call c{static_cast<const __half*>(q),
               static_cast<const __half*>(k),
               static_cast<const __half*>(v),
               static_cast<__half*>(o),
               lse,
               batch,
               len,
               heads,
               stream};
  const Status status = head_dim == 64    ? run<64>(variant, c)
                        : head_dim == 128 ? run<128>(variant, c)
                                          : Status(detail::invalid() << "head_dim is " << head_dim);
  std::memcpy(text, status.text, Status::capacity);
  return status.ok() ? 0 : 1;
}
