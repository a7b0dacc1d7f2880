// SPDX-License-Identifier: MIT
// Probes of Hopper's instructions, for a GPU and for host execution alike, whose results are exact
// integers: each comes with what it must give, worked out by plain loops. One block each; the
// kernels want a GPU of compute capability 9.0 and code for 9.0a.
#pragma once

#include "probe_kernels.cuh"
#include "strobe/ptx/mbarrier.cuh"
#include "strobe/ptx/tma.cuh"
#include "strobe/ptx/wgmma.cuh"

#include <vector>

namespace probe {

// Where the 128-byte swizzle puts the 16-bit element at `offset` bytes into a tile that begins at a
// multiple of 1024 bytes.
STROBE_HOST_DEVICE constexpr uint32_t swizzled(uint32_t offset) {
  return offset ^ (offset >> 7 & 7u) << 4;
}

// ---- TMA: a box to shared memory, and as words to `out`; 128 threads ----------------------------

constexpr int tile_threads = 128;
constexpr int tile_barrier_bytes = 1024;  // before the tile

template <int Rank>
struct Coordinates {
  int at[Rank];
};

template <int Rank>
__global__ void load_tile(const __grid_constant__ ptx::TensorMap map, Coordinates<Rank> where,
                          int bytes, uint32_t* out) {
#if STROBE_HAS_SM90A
  STROBE_DYNAMIC_SHARED(shared);
  const uint32_t barrier = ptx::shared_address(shared);
  if (threadIdx.x == 0) {
    ptx::tma_prefetch(map);
    ptx::mbarrier_init(barrier, 1);
    ptx::mbarrier_fence_init();
  }
  __syncthreads();
  if (threadIdx.x == 0) {
    ptx::mbarrier_arrive_expect(barrier, static_cast<uint32_t>(bytes));
    ptx::tma_load(ptx::shared_address(shared + tile_barrier_bytes), map, where.at, barrier,
                  ptx::L2Hint::evict_last);
  }
  ptx::mbarrier_wait(barrier, 0);
  const auto* words = reinterpret_cast<const uint32_t*>(shared + tile_barrier_bytes);
  for (int i = static_cast<int>(threadIdx.x); i < bytes / 4; i += tile_threads) out[i] = words[i];
#else
  (void)map, (void)where, (void)bytes, (void)out;
#endif
}

// ---- TMA: a box from shared memory, word i being `first + i`, where stored ----------------------

template <int Rank>
__global__ void store_tile(const __grid_constant__ ptx::TensorMap map, Coordinates<Rank> where,
                           int bytes, uint32_t first) {
#if STROBE_HAS_SM90A
  STROBE_DYNAMIC_SHARED(shared);
  auto* words = reinterpret_cast<uint32_t*>(shared);
  for (int i = static_cast<int>(threadIdx.x); i < bytes / 4; i += tile_threads) {
    words[i] = first + static_cast<uint32_t>(i);
  }
  ptx::fence_proxy_async();
  __syncthreads();
  if (threadIdx.x == 0) {
    ptx::tma_store(map, where.at, ptx::shared_address(shared));
    ptx::tma_store_commit();
    ptx::tma_store_wait_read<0>();
  }
#else
  (void)map, (void)where, (void)bytes, (void)first;
#endif
}

// ---- wgmma: D = A (64 x 64) B (64 x 8 Columns), added to D0 or not; 128 threads -----------------
// `out`: D, row-major. Every second product ends a group.

constexpr int products_threads = 128;
constexpr uint32_t a_bytes = 64 * 128;

constexpr int products_shared_bytes(int columns) {
  return static_cast<int>(a_bytes) + (8 * columns + 63) / 64 * 64 * 128;
}
STROBE_HOST_DEVICE constexpr bool products_add(bool rows_along_sum, bool from_registers) {
  return rows_along_sum != from_registers;
}
STROBE_HOST_DEVICE float product_a(int row, int k) { return pattern(row * 5 + k * 3); }
STROBE_HOST_DEVICE float product_b(int k, int column) { return pattern(k * 7 + column * 11 + 2); }
STROBE_HOST_DEVICE float product_d0(int row, int column) { return pattern(row + column * 13); }

template <class T, bool RowsAlongSum, bool FromRegisters, int Columns>
__global__ void products(uint32_t* out) {
#if STROBE_HAS_SM90A
  STROBE_DYNAMIC_SHARED(shared);
  constexpr int n = 8 * Columns;
  const int t = static_cast<int>(threadIdx.x);
  // A: rows of 64 summed indices. B: the same for each column, or panels of 64 columns.
  for (int i = t; i < 64 * 64; i += products_threads) {
    const int row = i / 64, k = i % 64;
    *reinterpret_cast<T*>(shared + swizzled(static_cast<uint32_t>(row * 128 + k * 2))) =
        element<T>(product_a(row, k));
  }
  for (int i = t; i < 64 * n; i += products_threads) {
    const int column = i / 64, k = i % 64;
    const int at =
        RowsAlongSum ? column / 64 * 8192 + k * 128 + column % 64 * 2 : column * 128 + k * 2;
    *reinterpret_cast<T*>(shared + a_bytes + swizzled(static_cast<uint32_t>(at))) =
        element<T>(product_b(k, column));
  }
  ptx::fence_proxy_async();
  __syncthreads();

  const int lane = t % 32, first_row = t / 32 * 16 + lane / 4;
  float d[Columns][4];
  STROBE_UNROLL
  for (int c = 0; c < Columns; ++c) {
    STROBE_UNROLL
    for (int i = 0; i < 4; ++i) {
      d[c][i] = product_d0(first_row + i / 2 * 8, c * 8 + lane % 4 * 2 + i % 2);
    }
  }
  uint32_t a[4][4];
  STROBE_UNROLL
  for (int k = 0; k < 4; ++k) {
    STROBE_UNROLL
    for (int i = 0; i < 4; ++i) {
      const int row = first_row + i % 2 * 8, column = k * 16 + i / 2 * 8 + lane % 4 * 2;
      a[k][i] = ptx::pack2<T>(product_a(row, column), product_a(row, column + 1));
    }
  }
  const uint32_t a_smem = ptx::shared_address(shared), b_smem = a_smem + a_bytes;
  constexpr bool add = products_add(RowsAlongSum, FromRegisters);
  ptx::wgmma_fence();
  STROBE_UNROLL
  for (int k = 0; k < 4; ++k) {
    const uint64_t b = RowsAlongSum
                           ? ptx::wgmma_operand(b_smem + static_cast<uint32_t>(k) * 2048, 8192)
                           : ptx::wgmma_operand(b_smem + static_cast<uint32_t>(k) * 32);
    if constexpr (FromRegisters) {
      ptx::wgmma<T, RowsAlongSum>(d, a[k], b, add || k > 0);
    } else {
      ptx::wgmma<T, RowsAlongSum>(d, ptx::wgmma_operand(a_smem + static_cast<uint32_t>(k) * 32), b,
                                  add || k > 0);
    }
    if (k % 2 == 1) ptx::wgmma_commit();
  }
  ptx::wgmma_wait<0>(d);
  STROBE_UNROLL
  for (int c = 0; c < Columns; ++c) {
    STROBE_UNROLL
    for (int i = 0; i < 4; ++i) {
      const int row = first_row + i / 2 * 8, column = c * 8 + lane % 4 * 2 + i % 2;
      out[row * n + column] = __float_as_uint(d[c][i]);
    }
  }
#else
  (void)out;
#endif
}

// ---- wgmma: D = A (64 x 16) B (16 x 64), both without a swizzle; 128 threads --------------------
// A begins at the first byte of shared memory, B in the middle, 16-bit element i of which is
// pattern(3 i). Their 8x8 matrices may overlap, or one may stand for many.

struct PlainStrides {
  uint32_t a_rows, a_sum, b_rows, b_sum;  // bytes
};
constexpr int plain_shared_bytes = 8192;

template <class T>
__global__ void plain_products(PlainStrides strides, uint32_t* out) {
#if STROBE_HAS_SM90A
  STROBE_DYNAMIC_SHARED(shared);
  const int t = static_cast<int>(threadIdx.x);
  auto* const elements = reinterpret_cast<T*>(shared);
  for (int i = t; i < plain_shared_bytes / 2; i += products_threads)
    elements[i] = element<T>(pattern(i * 3));
  ptx::fence_proxy_async();
  __syncthreads();
  const uint32_t a = ptx::shared_address(shared), b = a + plain_shared_bytes / 2;
  float d[8][4];
  ptx::wgmma_fence();
  ptx::wgmma<T, false>(d, ptx::wgmma_plain_operand(a, strides.a_rows, strides.a_sum),
                       ptx::wgmma_plain_operand(b, strides.b_rows, strides.b_sum), false);
  ptx::wgmma_commit();
  ptx::wgmma_wait<0>(d);
  STROBE_UNROLL
  for (int c = 0; c < 8; ++c) {
    STROBE_UNROLL
    for (int i = 0; i < 4; ++i) {
      const int row = t / 32 * 16 + t % 32 / 4 + i / 2 * 8, column = c * 8 + t % 4 * 2 + i % 2;
      out[row * 64 + column] = __float_as_uint(d[c][i]);
    }
  }
#else
  (void)strides, (void)out;
#endif
}

// What `plain_products` must give, as floats.
inline std::vector<float> expected_plain_products(const PlainStrides& s) {
  const auto at = [](uint32_t matrix, int row, int column) {
    return pattern((static_cast<int>(matrix) / 2 + row * 8 + column) * 3);
  };
  std::vector<float> d;
  for (int row = 0; row < 64; ++row) {
    for (int column = 0; column < 64; ++column) {
      float sum = 0.0f;
      for (int k = 0; k < 16; ++k) {
        const uint32_t half = static_cast<uint32_t>(k / 8);
        sum += at(static_cast<uint32_t>(row / 8) * s.a_rows + half * s.a_sum, row % 8, k % 8) *
               at(plain_shared_bytes / 2 + static_cast<uint32_t>(column / 8) * s.b_rows +
                      half * s.b_sum,
                  column % 8, k % 8);
      }
      d.push_back(sum);
    }
  }
  return d;
}

// What `products` must give, as floats.
inline std::vector<float> expected_products(int columns, bool add) {
  std::vector<float> d;
  for (int row = 0; row < 64; ++row) {
    for (int column = 0; column < 8 * columns; ++column) {
      float sum = add ? product_d0(row, column) : 0.0f;
      for (int k = 0; k < 64; ++k) sum += product_a(row, k) * product_b(k, column);
      d.push_back(sum);
    }
  }
  return d;
}

// ---- mbarrier, TMA and wgmma together: a ring of tiles ------------------------------------------
// D (64 x 64) = sum over tiles i of A_i B_i^T, whose rows of 64 elements are rows 64 i .. of two
// tensors. A warpgroup multiplies, one thread of a fifth warp loads, two stages ahead. `out`: D.
// What can be left out, for tests that must notice: host execution only.

enum class Ring {
  whole,
  no_empty_wait,      // the producer overwrites a stage that is still read
  early_arrival,      // a stage is given back before its products are complete
  no_full_wait,       // the consumer does not wait for a tile
  wrong_parity,       // the consumer waits for the phase before
  no_arrival,         // nobody gives stages back
  early_accumulator,  // the accumulators are read before the wait
};

constexpr int ring_threads = 160;
constexpr uint32_t ring_stage_bytes = 2 * 8192;
constexpr int ring_shared_bytes = 1024 + 2 * static_cast<int>(ring_stage_bytes);

template <class T, Ring Plant = Ring::whole>
__global__ void ring(const __grid_constant__ ptx::TensorMap map_a,
                     const __grid_constant__ ptx::TensorMap map_b, int tiles, uint32_t* out) {
#if STROBE_HAS_SM90A
  STROBE_DYNAMIC_SHARED(shared);
  const uint32_t full = ptx::shared_address(shared), empty = full + 16, stages = full + 1024;
  const int t = static_cast<int>(threadIdx.x);
  if (t == 0) {
    for (uint32_t s = 0; s < 2; ++s) {
      ptx::mbarrier_init(full + 8 * s, 1);
      ptx::mbarrier_init(empty + 8 * s, 4);
    }
    ptx::mbarrier_fence_init();
  }
  __syncthreads();
  if (t >= 128) {
    if (t != 128) return;
    for (int i = 0; i < tiles; ++i) {
      const uint32_t s = static_cast<uint32_t>(i % 2), stage = stages + s * ring_stage_bytes;
      if (Plant != Ring::no_empty_wait) {
        ptx::mbarrier_wait(empty + 8 * s, static_cast<uint32_t>(i / 2 + 1) % 2);
      }
      ptx::mbarrier_arrive_expect(full + 8 * s, ring_stage_bytes);
      const int at[2] = {0, 64 * i};
      ptx::tma_load(stage, map_a, at, full + 8 * s, ptx::L2Hint::normal);
      ptx::tma_load(stage + 8192, map_b, at, full + 8 * s, ptx::L2Hint::normal);
    }
    return;
  }
  const int lane = t % 32, first_row = t / 32 * 16 + lane / 4;
  float d[8][4] = {};
  for (int i = 0; i < tiles; ++i) {
    const uint32_t s = static_cast<uint32_t>(i % 2), stage = stages + s * ring_stage_bytes;
    const uint32_t parity = static_cast<uint32_t>(i / 2 + (Plant == Ring::wrong_parity)) % 2;
    if (Plant != Ring::no_full_wait) ptx::mbarrier_wait(full + 8 * s, parity);
    ptx::wgmma_fence();
    STROBE_UNROLL
    for (uint32_t k = 0; k < 4; ++k) {
      ptx::wgmma<T, false>(d, ptx::wgmma_operand(stage + k * 32),
                           ptx::wgmma_operand(stage + 8192 + k * 32), true);
    }
    ptx::wgmma_commit();
    if (Plant == Ring::early_arrival && lane == 0) ptx::mbarrier_arrive(empty + 8 * s);
    if (Plant == Ring::early_accumulator) {
      for (int c = 0; c < 8; ++c) out[(first_row * 8 + c) * 8] = __float_as_uint(d[c][0]);
      return ptx::wgmma_wait<0>(d);
    }
    ptx::wgmma_wait<0>(d);
    if (Plant != Ring::early_arrival && Plant != Ring::no_arrival && lane == 0) {
      ptx::mbarrier_arrive(empty + 8 * s);
    }
  }
  STROBE_UNROLL
  for (int c = 0; c < 8; ++c) {
    STROBE_UNROLL
    for (int i = 0; i < 4; ++i) {
      const int row = first_row + i / 2 * 8, column = c * 8 + lane % 4 * 2 + i % 2;
      out[row * 64 + column] = __float_as_uint(d[c][i]);
    }
  }
#else
  (void)map_a, (void)map_b, (void)tiles, (void)out;
#endif
}

// Element `k` of row `row` of the ring's tensors.
inline float ring_a(int row, int k) { return pattern(row * 3 + k * 5); }
inline float ring_b(int row, int k) { return pattern(row * 11 + k * 2 + 7); }

inline std::vector<float> expected_ring(int tiles) {
  std::vector<float> d;
  for (int row = 0; row < 64; ++row) {
    for (int column = 0; column < 64; ++column) {
      float sum = 0;
      for (int i = 0; i < tiles; ++i) {
        for (int k = 0; k < 64; ++k) {
          sum += ring_a(64 * i + row, k) * ring_b(64 * i + column, k);
        }
      }
      d.push_back(sum);
    }
  }
  return d;
}

}  // namespace probe
