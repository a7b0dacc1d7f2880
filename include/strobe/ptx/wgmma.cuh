// SPDX-License-Identifier: MIT
// wgmma: a warpgroup (four consecutive warps, the first a multiple of four) multiplies 16-bit
// matrices, asynchronously, and accumulates in fp32.
// Layer: ptx. PTX ISA 8.0, sm_90a. Source: PTX ISA, "Asynchronous Warpgroup Level Matrix
// Instructions".
//
// D (64 x N) += A (64 x 16) * B (16 x N). Warp w of the warpgroup has rows 16 w .. 16 w + 15 of D
// and, where A is in registers, of A, laid out as for mma.m16n8k16 (mma.cuh): d[c] is the 16 x 8
// tile of columns 8 c .. 8 c + 7.
//
// Order: wgmma_fence; products; wgmma_commit; other work; wgmma_wait. Between a product and the
// wait for its group nothing may read or write d, nor write a. Products on the same d come one
// after the other by themselves.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include "prelude.cuh"

namespace strobe {
inline namespace STROBE_ABI {
namespace ptx {

// What wgmma is told of an operand in shared memory: tiles with the 128-byte swizzle that TMA gives
// boxes of 64 elements a row (tma.cuh), eight rows being 1024 bytes. tile_smem: 1024-byte aligned,
// plus 32 bytes for every 16 elements along a row (A, and B where its rows are along N: K of a
// product Q K^T), or plus 2048 bytes for every 16 rows (B where its rows are along the summed
// dimension: V of P V). panel_bytes: from one panel of 64 columns to the next, only looked at in
// the latter case.
STROBE_HOST_DEVICE constexpr uint64_t wgmma_operand(uint32_t tile_smem, uint32_t panel_bytes = 16) {
  return uint64_t((tile_smem & 0x3ffffu) >> 4) | uint64_t(panel_bytes >> 4) << 16 |
         uint64_t(1024 >> 4) << 32 | uint64_t(1) << 62;
}

// The other layout, without a swizzle and with rows along the summed dimension for A, along N for
// B: 8 x 8 matrices of 128 contiguous bytes, a row after the other. They lie `rows_bytes` apart
// from 8 rows to the next 8 and `sum_bytes` from 8 summed indices to the other 8; 0 has the same
// matrix stand in all places. smem and both distances: multiples of 16.
STROBE_HOST_DEVICE constexpr uint64_t wgmma_plain_operand(uint32_t smem, uint32_t rows_bytes,
                                                          uint32_t sum_bytes) {
  return uint64_t((smem & 0x3ffffu) >> 4) | uint64_t(sum_bytes >> 4) << 16 |
         uint64_t(rows_bytes >> 4) << 32;
}

// The same operand `bytes` further on (a multiple of 16). Only the low word moves, so that in a row
// of products the high one stays where it is.
STROBE_HOST_DEVICE constexpr uint64_t wgmma_advance(uint64_t operand, uint32_t bytes) {
  return (operand & 0xffffffff00000000u) | (uint32_t(operand) + (bytes >> 4));
}

// Orders register accesses before the products that follow; needed before the first and whenever
// registers of d or a were touched. Called by whole warpgroups, like all of these.
//   wgmma.fence.sync.aligned;
STROBE_DEVICE void wgmma_fence(STROBE_SITE) {
#if STROBE_HOST_EXECUTION
  host::wgmma_fence(site);
#else
  asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
#endif
}

// Closes the current group of products.
//   wgmma.commit_group.sync.aligned;
STROBE_DEVICE void wgmma_commit(STROBE_SITE) {
#if STROBE_HOST_EXECUTION
  host::wgmma_commit(site);
#else
  asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
#endif
}

// Waits until at most `Newest` groups, the newest, are in flight. `d`: the accumulators that are
// complete then; naming them keeps the compiler from moving their readers above the wait.
//   wgmma.wait_group.sync.aligned N;
template <int Newest, int Columns>
STROBE_DEVICE void wgmma_wait(float (&d)[Columns][4] STROBE_AND_SITE) {
#if STROBE_HOST_EXECUTION
  host::wgmma_wait(Newest, site);
  (void)d;
#else
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(Newest) : "memory");
  STROBE_UNROLL
  for (int c = 0; c < Columns; ++c)
    asm volatile("" : "+f"(d[c][0]), "+f"(d[c][1]), "+f"(d[c][2]), "+f"(d[c][3])::"memory");
#endif
}

// Keeps the arithmetic that leads to `value`, which is never negative, above the next wgmma_wait,
// so that it runs under the products waited for: ptxas moves the wait up past arithmetic, but not
// past a store, not even one that never happens. `any_smem`: some address. Any thread.
STROBE_DEVICE void finish_before_wait(float value, uint32_t any_smem) {
#if STROBE_HOST_EXECUTION
  (void)value, (void)any_smem;
#else
  asm volatile(
      "{.reg .pred p; setp.lt.f32 p, %1, 0f00000000; @p st.shared.f32 [%0], %1;}" ::"r"(any_smem),
      "f"(value)
      : "memory");
#endif
}

// d = a * b, or d += a * b where accumulate. N = 8 * Columns, a multiple of 16. T: __half or
// __nv_bfloat16. RowsAlongSum: B's rows are along the summed dimension.
//   wgmma.mma_async.sync.aligned.m64n{N}k16.f32.{f16.f16 | bf16.bf16} d, a, b, accumulate, 1, 1,
//       0, RowsAlongSum;
template <class T, bool RowsAlongSum, int Columns>
STROBE_DEVICE void wgmma(float (&d)[Columns][4], uint64_t a, uint64_t b,
                         bool accumulate STROBE_AND_SITE);
// The same with A in registers.
template <class T, bool RowsAlongSum, int Columns>
STROBE_DEVICE void wgmma(float (&d)[Columns][4], const uint32_t (&a)[4], uint64_t b,
                         bool accumulate STROBE_AND_SITE);

#if STROBE_HOST_EXECUTION

template <class T>
inline constexpr host::Element element_of = host::Element::f16;
template <>
inline constexpr host::Element element_of<__nv_bfloat16> = host::Element::bf16;

template <class T, bool RowsAlongSum, int Columns>
STROBE_DEVICE void wgmma(float (&d)[Columns][4], uint64_t a, uint64_t b, bool accumulate,
                         host::Site site) {
  host::wgmma(element_of<T>, &d[0][0], 8 * Columns, nullptr, a, b, accumulate, RowsAlongSum, site);
}
template <class T, bool RowsAlongSum, int Columns>
STROBE_DEVICE void wgmma(float (&d)[Columns][4], const uint32_t (&a)[4], uint64_t b,
                         bool accumulate, host::Site site) {
  host::wgmma(element_of<T>, &d[0][0], 8 * Columns, a, 0, b, accumulate, RowsAlongSum, site);
}

#else

// The instruction wants every register of D by name: lists of 8 numbers, joined.
// clang-format off
#define STROBE_R0 "%0, %1, %2, %3, %4, %5, %6, %7"
#define STROBE_R1 "%8, %9, %10, %11, %12, %13, %14, %15"
#define STROBE_R2 "%16, %17, %18, %19, %20, %21, %22, %23"
#define STROBE_R3 "%24, %25, %26, %27, %28, %29, %30, %31"
#define STROBE_R4 "%32, %33, %34, %35, %36, %37, %38, %39"
#define STROBE_R5 "%40, %41, %42, %43, %44, %45, %46, %47"
#define STROBE_R6 "%48, %49, %50, %51, %52, %53, %54, %55"
#define STROBE_R7 "%56, %57, %58, %59, %60, %61, %62, %63"
#define STROBE_R8 "%64, %65, %66, %67, %68, %69, %70, %71"
#define STROBE_R9 "%72, %73, %74, %75, %76, %77, %78, %79"
#define STROBE_R10 "%80, %81, %82, %83, %84, %85, %86, %87"
#define STROBE_R11 "%88, %89, %90, %91, %92, %93, %94, %95"
#define STROBE_R12 "%96, %97, %98, %99, %100, %101, %102, %103"
#define STROBE_R13 "%104, %105, %106, %107, %108, %109, %110, %111"
#define STROBE_R14 "%112, %113, %114, %115, %116, %117, %118, %119"
#define STROBE_R15 "%120, %121, %122, %123, %124, %125, %126, %127"
#define STROBE_LIST16 STROBE_R0
#define STROBE_LIST32 STROBE_LIST16 ", " STROBE_R1
#define STROBE_LIST48 STROBE_LIST32 ", " STROBE_R2
#define STROBE_LIST64 STROBE_LIST48 ", " STROBE_R3
#define STROBE_LIST80 STROBE_LIST64 ", " STROBE_R4
#define STROBE_LIST96 STROBE_LIST80 ", " STROBE_R5
#define STROBE_LIST112 STROBE_LIST96 ", " STROBE_R6
#define STROBE_LIST128 STROBE_LIST112 ", " STROBE_R7
#define STROBE_LIST144 STROBE_LIST128 ", " STROBE_R8
#define STROBE_LIST160 STROBE_LIST144 ", " STROBE_R9
#define STROBE_LIST176 STROBE_LIST160 ", " STROBE_R10
#define STROBE_LIST192 STROBE_LIST176 ", " STROBE_R11
#define STROBE_LIST208 STROBE_LIST192 ", " STROBE_R12
#define STROBE_LIST224 STROBE_LIST208 ", " STROBE_R13
#define STROBE_LIST240 STROBE_LIST224 ", " STROBE_R14
#define STROBE_LIST256 STROBE_LIST240 ", " STROBE_R15
#define STROBE_D(c) "+f"(d[c][0]), "+f"(d[c][1]), "+f"(d[c][2]), "+f"(d[c][3])
#define STROBE_OPERANDS16 STROBE_D(0), STROBE_D(1)
#define STROBE_OPERANDS32 STROBE_OPERANDS16, STROBE_D(2), STROBE_D(3)
#define STROBE_OPERANDS48 STROBE_OPERANDS32, STROBE_D(4), STROBE_D(5)
#define STROBE_OPERANDS64 STROBE_OPERANDS48, STROBE_D(6), STROBE_D(7)
#define STROBE_OPERANDS80 STROBE_OPERANDS64, STROBE_D(8), STROBE_D(9)
#define STROBE_OPERANDS96 STROBE_OPERANDS80, STROBE_D(10), STROBE_D(11)
#define STROBE_OPERANDS112 STROBE_OPERANDS96, STROBE_D(12), STROBE_D(13)
#define STROBE_OPERANDS128 STROBE_OPERANDS112, STROBE_D(14), STROBE_D(15)
#define STROBE_OPERANDS144 STROBE_OPERANDS128, STROBE_D(16), STROBE_D(17)
#define STROBE_OPERANDS160 STROBE_OPERANDS144, STROBE_D(18), STROBE_D(19)
#define STROBE_OPERANDS176 STROBE_OPERANDS160, STROBE_D(20), STROBE_D(21)
#define STROBE_OPERANDS192 STROBE_OPERANDS176, STROBE_D(22), STROBE_D(23)
#define STROBE_OPERANDS208 STROBE_OPERANDS192, STROBE_D(24), STROBE_D(25)
#define STROBE_OPERANDS224 STROBE_OPERANDS208, STROBE_D(26), STROBE_D(27)
#define STROBE_OPERANDS240 STROBE_OPERANDS224, STROBE_D(28), STROBE_D(29)
#define STROBE_OPERANDS256 STROBE_OPERANDS240, STROBE_D(30), STROBE_D(31)
// clang-format on

// Columns 8 * Columns = n; the operands after D have the numbers i0, i1, ...
template <class T, bool RowsAlongSum, int Columns>
struct Wgmma;
#define STROBE_WGMMA_OF(T, type, n, i0, i1, i2, i3, i4, i5, i6)                                   \
  template <bool RowsAlongSum>                                                                    \
  struct Wgmma<T, RowsAlongSum, n / 8> {                                                          \
    static STROBE_DEVICE void run(float (&d)[n / 8][4], uint64_t a, uint64_t b, int accumulate) { \
      asm volatile("{.reg .pred p; setp.ne.b32 p, %" #i2                                          \
                   ", 0; "                                                                        \
                   "wgmma.mma_async.sync.aligned.m64n" #n "k16.f32." type "." type                \
                   " {" STROBE_LIST##n "}, %" #i0 ", %" #i1 ", p, 1, 1, 0, %" #i3 ";}"            \
                   : STROBE_OPERANDS##n                                                           \
                   : "l"(a), "l"(b), "r"(accumulate), "n"(int(RowsAlongSum)));                    \
    }                                                                                             \
    static STROBE_DEVICE void run(float (&d)[n / 8][4], const uint32_t (&a)[4], uint64_t b,       \
                                  int accumulate) {                                               \
      asm volatile("{.reg .pred p; setp.ne.b32 p, %" #i5                                          \
                   ", 0; "                                                                        \
                   "wgmma.mma_async.sync.aligned.m64n" #n "k16.f32." type "." type                \
                   " {" STROBE_LIST##n "}, {%" #i0 ", %" #i1 ", %" #i2 ", %" #i3 "}, %" #i4       \
                                       ", p, 1, 1, %" #i6 ";}"                                    \
                   : STROBE_OPERANDS##n                                                           \
                   : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(accumulate),         \
                     "n"(int(RowsAlongSum)));                                                     \
    }                                                                                             \
  };
#define STROBE_WGMMA(...)                     \
  STROBE_WGMMA_OF(__half, "f16", __VA_ARGS__) \
  STROBE_WGMMA_OF(__nv_bfloat16, "bf16", __VA_ARGS__)
STROBE_WGMMA(16, 8, 9, 10, 11, 12, 13, 14)
STROBE_WGMMA(32, 16, 17, 18, 19, 20, 21, 22)
STROBE_WGMMA(48, 24, 25, 26, 27, 28, 29, 30)
STROBE_WGMMA(64, 32, 33, 34, 35, 36, 37, 38)
STROBE_WGMMA(80, 40, 41, 42, 43, 44, 45, 46)
STROBE_WGMMA(96, 48, 49, 50, 51, 52, 53, 54)
STROBE_WGMMA(112, 56, 57, 58, 59, 60, 61, 62)
STROBE_WGMMA(128, 64, 65, 66, 67, 68, 69, 70)
STROBE_WGMMA(144, 72, 73, 74, 75, 76, 77, 78)
STROBE_WGMMA(160, 80, 81, 82, 83, 84, 85, 86)
STROBE_WGMMA(176, 88, 89, 90, 91, 92, 93, 94)
STROBE_WGMMA(192, 96, 97, 98, 99, 100, 101, 102)
STROBE_WGMMA(208, 104, 105, 106, 107, 108, 109, 110)
STROBE_WGMMA(224, 112, 113, 114, 115, 116, 117, 118)
STROBE_WGMMA(240, 120, 121, 122, 123, 124, 125, 126)
STROBE_WGMMA(256, 128, 129, 130, 131, 132, 133, 134)

template <class T, bool RowsAlongSum, int Columns>
STROBE_DEVICE void wgmma(float (&d)[Columns][4], uint64_t a, uint64_t b, bool accumulate) {
  Wgmma<T, RowsAlongSum, Columns>::run(d, a, b, accumulate);
}
template <class T, bool RowsAlongSum, int Columns>
STROBE_DEVICE void wgmma(float (&d)[Columns][4], const uint32_t (&a)[4], uint64_t b,
                         bool accumulate) {
  Wgmma<T, RowsAlongSum, Columns>::run(d, a, b, accumulate);
}

// clang-format off
#undef STROBE_R0
#undef STROBE_R1
#undef STROBE_R2
#undef STROBE_R3
#undef STROBE_R4
#undef STROBE_R5
#undef STROBE_R6
#undef STROBE_R7
#undef STROBE_R8
#undef STROBE_R9
#undef STROBE_R10
#undef STROBE_R11
#undef STROBE_R12
#undef STROBE_R13
#undef STROBE_R14
#undef STROBE_R15
#undef STROBE_LIST16
#undef STROBE_OPERANDS16
#undef STROBE_LIST32
#undef STROBE_OPERANDS32
#undef STROBE_LIST48
#undef STROBE_OPERANDS48
#undef STROBE_LIST64
#undef STROBE_OPERANDS64
#undef STROBE_LIST80
#undef STROBE_OPERANDS80
#undef STROBE_LIST96
#undef STROBE_OPERANDS96
#undef STROBE_LIST112
#undef STROBE_OPERANDS112
#undef STROBE_LIST128
#undef STROBE_OPERANDS128
#undef STROBE_LIST144
#undef STROBE_OPERANDS144
#undef STROBE_LIST160
#undef STROBE_OPERANDS160
#undef STROBE_LIST176
#undef STROBE_OPERANDS176
#undef STROBE_LIST192
#undef STROBE_OPERANDS192
#undef STROBE_LIST208
#undef STROBE_OPERANDS208
#undef STROBE_LIST224
#undef STROBE_OPERANDS224
#undef STROBE_LIST240
#undef STROBE_OPERANDS240
#undef STROBE_LIST256
#undef STROBE_OPERANDS256
#undef STROBE_D
#undef STROBE_WGMMA
#undef STROBE_WGMMA_OF
// clang-format on

#endif

}  // namespace ptx
}  // namespace STROBE_ABI
}  // namespace strobe
