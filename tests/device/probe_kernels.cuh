// SPDX-License-Identifier: MIT
// Probes of single instructions whose results are exact integers: the same source runs on a GPU and
// by host execution, and the outputs must be equal bit for bit. Each probe is a kernel for one warp
// (or the block size it names) that writes `outputs` 32-bit words; the pattern it starts from is
// fixed, so there is no input but what it says.
#pragma once

#include "strobe/ptx/cp_async.cuh"
#include "strobe/ptx/ldmatrix.cuh"
#include "strobe/ptx/math.cuh"
#include "strobe/ptx/mma.cuh"
#include "strobe/ptx/shared.cuh"

namespace probe {

namespace ptx = strobe::ptx;

// FNV-1a over the bytes of `count` words, least significant first.
inline uint32_t hash(const uint32_t* words, int count) {
  uint32_t h = 2166136261u;
  for (int i = 0; i < count; ++i) {
    for (int byte = 0; byte < 4; ++byte) h = (h ^ (words[i] >> 8 * byte & 255u)) * 16777619u;
  }
  return h;
}

// A small integer that every type holds exactly: -15 .. 15.
STROBE_HOST_DEVICE float pattern(int i) { return static_cast<float>(i * 37 % 31) - 15.0f; }

template <class T>
STROBE_DEVICE T element(float x);
template <>
STROBE_DEVICE __half element<__half>(float x) {
  return __float2half_rn(x);
}
template <>
STROBE_DEVICE __nv_bfloat16 element<__nv_bfloat16>(float x) {
  return __float2bfloat16_rn(x);
}

// Words of a lane stand 32 apart: word w of lane l is out[w * 32 + l].
template <int Count>
STROBE_DEVICE void put(uint32_t* out, int first, const uint32_t (&words)[Count]) {
  for (int i = 0; i < Count; ++i) {
    out[(first + i) * 32 + static_cast<int>(threadIdx.x)] = words[i];
  }
}

// ---- ldmatrix and mma ---------------------------------------------------------------------------
// T is __half or __nv_bfloat16; 1 warp, 1024 bytes of dynamic shared memory.

constexpr int matrices_threads = 32;
constexpr int matrices_shared_bytes = 1024;
constexpr int matrices_outputs = 32 * 20;

template <class T>
__global__ void matrices(uint32_t* out) {
  STROBE_DYNAMIC_SHARED(shared);
  T* tile = reinterpret_cast<T*>(shared);
  const int lane = static_cast<int>(threadIdx.x);
  for (int i = lane; i < 512; i += 32) tile[i] = element<T>(pattern(i));
  __syncwarp();
  // Rows in an order of their own, so that a mixed-up lane shows.
  const uint32_t address = ptx::shared_address(tile) + static_cast<uint32_t>(lane * 5 % 32) * 32;
  uint32_t a[4], a_transposed[4], b[2], b_transposed[2];
  ptx::ldmatrix_x4(a, address);
  ptx::ldmatrix_x4_trans(a_transposed, address);
  ptx::ldmatrix_x2(b, address);
  ptx::ldmatrix_x2_trans(b_transposed, address);
  put(out, 0, a);
  put(out, 4, a_transposed);
  put(out, 8, b);
  put(out, 10, b_transposed);
  float d[4] = {1, 2, 3, 4};
  float e[4] = {-1, -2, -3, -4};
  ptx::mma_m16n8k16<T>(d, a, b_transposed[0], b_transposed[1]);
  ptx::mma_m16n8k16<T>(e, a_transposed, b[0], b[1]);
  uint32_t bits[8];
  for (int i = 0; i < 4; ++i) {
    bits[i] = __float_as_uint(d[i]);
    bits[4 + i] = __float_as_uint(e[i]);
  }
  put(out, 12, bits);
}

// ---- shuffles and votes: 1 warp -----------------------------------------------------------------

constexpr int exchanges_threads = 32;
constexpr int exchanges_shared_bytes = 0;
constexpr int exchanges_outputs = 32 * 12;

// A template, as all probes: a header may then be included by several files of a program.
template <class Word = uint32_t>
__global__ void exchanges(Word* out) {
  const Word lane = threadIdx.x;
  const Word words[12] = {
      __shfl_sync(~0u, lane * 7, 11),
      __shfl_sync(~0u, lane * 7, 11, 8),
      __shfl_up_sync(~0u, lane * 3, 5),
      __shfl_up_sync(~0u, lane * 3, 5, 16),
      __shfl_down_sync(~0u, lane * 3, 3),
      __shfl_down_sync(~0u, lane * 3, 3, 8),
      __shfl_xor_sync(~0u, lane * 3, 6),
      __shfl_xor_sync(~0u, lane * 3, 20, 16),
      __ballot_sync(~0u, lane % 3 == 0),
      static_cast<Word>(__any_sync(~0u, lane == 9) != 0),
      static_cast<Word>(__all_sync(~0u, lane < 31) != 0),
      __reduce_max_sync(~0u, lane * 2654435761u),
  };
  put(out, 0, words);
}

// ---- cp.async with zero fill --------------------------------------------------------------------
// 64 threads, 1024 bytes of dynamic shared memory. `source` has 256 words, word i being
// i * 2654435761.

constexpr int copies_threads = 64;
constexpr int copies_shared_bytes = 1024;
constexpr int copies_outputs = 256;
constexpr int copies_inputs = 256;

template <class Word = uint32_t>
__global__ void copies(const Word* source, Word* out) {
  STROBE_DYNAMIC_SHARED(shared);
  const int t = static_cast<int>(threadIdx.x);
  const int from = t * 7 % 64;
  ptx::cp_async_16(ptx::shared_address(shared + t * 16), source + from * 4, t % 3 != 0);
  ptx::cp_async_commit();
  ptx::cp_async_wait<0>();
  __syncthreads();
  const Word* words = reinterpret_cast<const Word*>(shared);
  for (int i = 0; i < 4; ++i) out[i * 64 + t] = words[i * 64 + (t ^ 37)];
}

// ---- pack2: T is __half or __nv_bfloat16; 1 warp ------------------------------------------------

constexpr int packs_threads = 32;
constexpr int packs_shared_bytes = 0;
constexpr int packs_outputs = 32 * 6;

// Ties, values between, subnormals, overflow, signed zeros and infinities.
template <class T>
__global__ void packs(uint32_t* out) {
  const int lane = static_cast<int>(threadIdx.x);
  const float fine = 1.0f + static_cast<float>(lane) * 0x1p-12f;
  const float coarse = 1.0f + static_cast<float>(lane) * 0x1p-9f;
  const float small = static_cast<float>(lane) * 0x1p-26f;
  const float large = 65504.0f + static_cast<float>(lane);
  const float infinity = __uint_as_float(0x7f800000u);
  const uint32_t words[6] = {
      ptx::pack2<T>(fine, -coarse),
      ptx::pack2<T>(coarse, -fine),
      ptx::pack2<T>(small, -small),
      ptx::pack2<T>(large, -large),
      ptx::pack2<T>(pattern(lane), pattern(lane + 32)),
      ptx::pack2<T>(lane % 2 != 0 ? infinity : 0.0f, lane % 2 != 0 ? -infinity : -0.0f),
  };
  put(out, 0, words);
}

}  // namespace probe
