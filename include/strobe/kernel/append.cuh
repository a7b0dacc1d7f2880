// SPDX-License-Identifier: MIT
// Appending new K and V rows to a cache, with rotary embedding of Q and K on the way. Layer:
// kernel. Memory-bound: 16 bytes a thread and step. Source of the rotation: Su et al., "RoFormer",
// section 3.2.
#pragma once

#include "../ptx/math.cuh"
#include "../tile/convert.cuh"
#include "../types.hpp"

namespace strobe {
inline namespace STROBE_ABI {
namespace kernel {

inline constexpr int append_threads = 128;

template <class T>
STROBE_DEVICE void load8(float (&x)[8], const T* from) {
  const uint4 bits = *reinterpret_cast<const uint4*>(from);
  const uint32_t words[4] = {bits.x, bits.y, bits.z, bits.w};
  STROBE_UNROLL
  for (int i = 0; i < 4; ++i) {
    const float2 pair = tile::unpack2<T>(words[i]);
    x[2 * i] = pair.x;
    x[2 * i + 1] = pair.y;
  }
}
template <class T>
STROBE_DEVICE void store8(T* to, const float (&x)[8]) {
  *reinterpret_cast<uint4*>(to) = make_uint4(ptx::pack2<T>(x[0], x[1]), ptx::pack2<T>(x[2], x[3]),
                                             ptx::pack2<T>(x[4], x[5]), ptx::pack2<T>(x[6], x[7]));
}

/// Copies chunk `chunk` (8 elements) of a row, rotated where it lies within the rotary dimensions.
/// NeoX pairs element i with i + dim / 2: the thread of the first half's chunk does both chunks,
/// that of the second half nothing.
template <class T, class Rotary>
STROBE_DEVICE void rotate_chunk(T* to, const T* from, int chunk, const Rotary& rotary,
                                int64_t position) {
  const int column = 8 * chunk, half = rotary.dim / 2;
  float x[8];
  if (column >= rotary.dim) {
    *reinterpret_cast<uint4*>(to + column) = *reinterpret_cast<const uint4*>(from + column);
    return;
  }
  const float* const cosines = rotary.cos + position * rotary.stride;
  const float* const sines = rotary.sin + position * rotary.stride;
  if (rotary.interleaved) {
    load8(x, from + column);
    STROBE_UNROLL
    for (int i = 0; i < 4; ++i) {
      const float c = cosines[column / 2 + i], s = sines[column / 2 + i], a = x[2 * i],
                  b = x[2 * i + 1];
      x[2 * i] = a * c - b * s;
      x[2 * i + 1] = a * s + b * c;
    }
    store8(to + column, x);
  } else if (column < half) {
    float y[8];
    load8(x, from + column);
    load8(y, from + column + half);
    STROBE_UNROLL
    for (int i = 0; i < 8; ++i) {
      const float c = cosines[column + i], s = sines[column + i], a = x[i], b = y[i];
      x[i] = a * c - b * s;
      y[i] = a * s + b * c;
    }
    store8(to + column, x);
    store8(to + column + half, y);
  }
}

/// Grid: a block for each new token of the bounds, batch * q_len along x. Append: see append.cuh.
template <class Append>
static __global__ void __launch_bounds__(append_threads)
    append_rows(const __grid_constant__ Append a) {
#if STROBE_HAS_SM80
  using T = typename Append::element_type;
  const int batch = int(blockIdx.x) / a.bounds.q_len, token = int(blockIdx.x) % a.bounds.q_len;
  const Sequence sequence = resolve_sequence(a.bounds, a.lengths, batch);
  if (token >= sequence.q_len) return;
  const int position = token + sequence.kv_len - sequence.q_len;
  if (position < 0) return;  // more new tokens than the sequence has keys: the oldest fell out
  const int64_t row = sequence.q_begin + token;
  const int k_chunks = a.head_dim / 8, v_chunks = a.value_dim / 8;
  const int k_work = a.bounds.kv_heads * k_chunks, v_work = a.bounds.kv_heads * v_chunks;
  const int q_work = a.q.data != nullptr ? a.bounds.q_heads * k_chunks : 0;
  for (int i = int(threadIdx.x); i < k_work + v_work + q_work; i += append_threads) {
    if (i < k_work) {
      const int head = i / k_chunks;
      // The cache is the one attention reads, hence const there; here it is written.
      const auto cache = a.kv.bind(sequence, head);
      T* const to = const_cast<T*>(cache.k_row(position, cache.page(position)));
      rotate_chunk(to, a.k.row(sequence.batch, row, head), i % k_chunks, a.rotary, position);
    } else if (i < k_work + v_work) {
      const int head = (i - k_work) / v_chunks, column = (i - k_work) % v_chunks * 8;
      const auto cache = a.kv.bind(sequence, head);
      T* const to = const_cast<T*>(cache.v_row(position, cache.page(position)));
      *reinterpret_cast<uint4*>(to + column) =
          *reinterpret_cast<const uint4*>(a.v.row(sequence.batch, row, head) + column);
    } else {
      const int head = (i - k_work - v_work) / k_chunks;
      T* const q = a.q.row(sequence.batch, row, head);
      rotate_chunk(q, q, (i - k_work - v_work) % k_chunks, a.rotary, position);
    }
  }
#else
  __trap();  // never launched: the host entry looks at what was compiled before it launches
#endif
}

}  // namespace kernel
}  // namespace STROBE_ABI
}  // namespace strobe
