// SPDX-License-Identifier: MIT
// Merging partial attention results. Layer: kernel. One warp a row: the weights exp(LSE_i - max),
// then the weighted mean. Source: the associativity of softmax over disjoint key sets (Milakov and
// Gimelshein, section 3.1).
#pragma once

#include "../ptx/math.cuh"
#include "../softmax.cuh"
#include "../tile/convert.cuh"
#include "../types.hpp"

namespace strobe {
inline namespace STROBE_ABI {
namespace kernel {

inline constexpr int merge_threads = 128;

/// Four neighbouring elements as floats, and back.
template <class T>
STROBE_DEVICE float4 load4(const T* from) {
  if constexpr (sizeof(T) == 2) {
    const uint2 bits = *reinterpret_cast<const uint2*>(from);
    const float2 a = tile::unpack2<T>(bits.x), b = tile::unpack2<T>(bits.y);
    return make_float4(a.x, a.y, b.x, b.y);
  } else {
    return *reinterpret_cast<const float4*>(from);
  }
}
template <class T>
STROBE_DEVICE void store4(T* to, const float4& v) {
  if constexpr (sizeof(T) == 2) {
    *reinterpret_cast<uint2*>(to) = make_uint2(ptx::pack2<T>(v.x, v.y), ptx::pack2<T>(v.z, v.w));
  } else {
    *reinterpret_cast<float4*>(to) = v;
  }
}

/// Grid: a warp for each (batch, token, head), along x. Merge: see merge.cuh.
template <class Merge>
static __global__ void __launch_bounds__(merge_threads)
    merge_rows(const __grid_constant__ Merge m) {
#if STROBE_HAS_SM80
  const int64_t row = int64_t(blockIdx.x) * (merge_threads / 32) + threadIdx.x / 32;
  const int lane = int(threadIdx.x) % 32;
  if (row >= int64_t(m.batch) * m.tokens * m.heads) return;
  const int64_t head = row % m.heads, token = row / m.heads % m.tokens,
                batch = row / m.heads / m.tokens;
  const auto* const o = m.o.row(batch, token, head);
  const float* const lse = m.lse.row(batch, token, head);

  float largest = negative_infinity();
  for (int i = lane; i < m.parts; i += 32) largest = fmaxf(largest, lse[i * m.lse_part]);
  STROBE_UNROLL
  for (int step = 16; step > 0; step /= 2)
    largest = fmaxf(largest, __shfl_xor_sync(0xffffffffu, largest, step));

  // Partials without keys (-infinity) are left out altogether: whatever stands in their O does not
  // count. Where one partial remains its weight is exactly 1, and it comes out as it went in, bit
  // for bit; the sum starts at -0 because that is what leaves -0 as it is.
  float sum = 0.f;
  for (int i = 0; i < m.parts; ++i) {
    const float part = lse[i * m.lse_part];
    if (part != negative_infinity()) sum += ptx::exp2_approx((part - largest) * log2_e);
  }
  const float normaliser = sum == 0.f ? 0.f : sum == 1.f ? 1.f : 1.f / sum;
  for (int column = 4 * lane; column < m.value_dim; column += 128) {
    const float start = sum == 0.f ? 0.f : -0.f;
    float4 merged = make_float4(start, start, start, start);
    for (int i = 0; i < m.parts; ++i) {
      const float part = lse[i * m.lse_part];
      if (part == negative_infinity()) continue;
      const float weight = ptx::exp2_approx((part - largest) * log2_e) * normaliser;
      const float4 v = load4(o + i * m.o_part + column);
      merged = make_float4(fmaf(v.x, weight, merged.x), fmaf(v.y, weight, merged.y),
                           fmaf(v.z, weight, merged.z), fmaf(v.w, weight, merged.w));
    }
    store4(m.merged_o.row(batch, token, head) + column, merged);
  }
  __syncwarp();  // merged_lse may be part 0's, which other lanes still read
  if (m.merged_lse.data != nullptr && lane == 0)
    *m.merged_lse.row(batch, token, head) = sum == 0.f   ? negative_infinity()
                                            : sum == 1.f ? largest
                                                         : largest + ptx::log2_approx(sum) * ln_2;
#else
  __trap();  // never launched: the host entry looks at what was compiled before it launches
#endif
}

}  // namespace kernel
}  // namespace STROBE_ABI
}  // namespace strobe
