// SPDX-License-Identifier: MIT
// The one file that compiles a kernel: by nvcc for the GPU, by the host compiler for the test.
#include "attend.hpp"

#include <strobe/prefill.cuh>

// [docs: attend]
strobe::Status attend(const __half* q, const __half* k, const __half* v, float* o, int q_len,
                      int kv_len, int q_heads, int kv_heads, SinkWindow mask,
                      const strobe::Device& device, cudaStream_t stream) {
  strobe::Attention<__half, 64, SinkWindow, strobe::Strided<__half>, strobe::NoScore, 64, float> a;
  a.q = strobe::token_major(q, q_len, q_heads, 64);
  a.kv.k = strobe::token_major(k, kv_len, kv_heads, 64);
  a.kv.v = strobe::token_major(v, kv_len, kv_heads, 64);
  a.o = strobe::token_major(o, q_len, q_heads, 64);
  a.mask = mask;
  a.bounds = {1, q_len, kv_len, q_heads, kv_heads};
  return strobe::prefill(a, device, strobe::Workspace{}, stream);
}
// [docs: end]
