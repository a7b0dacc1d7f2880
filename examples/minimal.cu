// SPDX-License-Identifier: MIT
// The smallest useful call. README shows the part between the two marks; a test keeps the two
// equal.
#include <cstdio>

#include "support/array.hpp"

// [readme]
#include <strobe/prefill.cuh>

// Causal attention, bf16, 8 query heads sharing 2 KV heads, head dim 128; device pointers, [batch,
// len, heads, 128].
strobe::Status attend(const __nv_bfloat16* q, const __nv_bfloat16* k, const __nv_bfloat16* v,
                      __nv_bfloat16* o, int batch, int len, cudaStream_t stream) {
  strobe::Device device;  // facts about the GPU: a program asks once and keeps them
  if (strobe::Status status = strobe::current_device(&device); !status) return status;

  strobe::Attention<__nv_bfloat16, 128, strobe::Causal> a;
  a.q = strobe::token_major(q, len, 8, 128);
  a.kv.k = strobe::token_major(k, len, 2, 128);
  a.kv.v = strobe::token_major(v, len, 2, 128);
  a.o = strobe::token_major(o, len, 8, 128);
  a.bounds = {batch, len, len, /*q_heads=*/8, /*kv_heads=*/2};
  return strobe::prefill(a, device, strobe::Workspace{}, stream);
}
// [readme]

int main() {
  const int batch = 2, len = 100;
  const std::vector<__nv_bfloat16> ones(size_t(batch) * len * 8 * 128, __float2bfloat16_rn(1.f));
  const example::Array<__nv_bfloat16> q(ones), k(ones), v(ones), o(ones.size());
  example::require(attend(q.data(), k.data(), v.data(), o.data(), batch, len, nullptr));
  for (const __nv_bfloat16 x : o.to_host()) {
    if (__bfloat162float(x) != 1.f) {  // every value is 1, so every mean of them is
      std::printf("wrong: %g\n", double(__bfloat162float(x)));
      return 1;
    }
  }
  std::printf("right, on %s\n", example::place());
}
