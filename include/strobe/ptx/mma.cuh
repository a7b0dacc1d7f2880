// SPDX-License-Identifier: MIT
// mma.sync: a warp multiplies 16-bit matrices and accumulates in fp32.
// Layer: ptx. PTX ISA 7.0, sm_80. Source: PTX ISA, "Matrix Fragments for mma.m16n8k16 with
// floating point type".
//
// D (16x8) += A (16x16) * B (16x8). With g = lane / 4 and t = lane % 4, lane holds
//   a[0]  A[g    ][2t], A[g    ][2t + 1]      b0  B[2t    ][g], B[2t + 1][g]
//   a[1]  A[g + 8][2t], A[g + 8][2t + 1]      b1  B[2t + 8][g], B[2t + 9][g]
//   a[2]  A[g    ][2t + 8], A[g    ][2t + 9]
//   a[3]  A[g + 8][2t + 8], A[g + 8][2t + 9]
//   d[0]  D[g    ][2t]     d[1]  D[g    ][2t + 1]
//   d[2]  D[g + 8][2t]     d[3]  D[g + 8][2t + 1]
// In a 32-bit register the element named first lies in bits 0..15.
// So ldmatrix_x4 of the four 8x8 quarters of A (upper left, lower left, upper right, lower right)
// gives a[0..3], and ldmatrix of B stored as rows of n (K in a QK product) or ldmatrix_trans of B
// stored as rows of k (V) gives b.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include "prelude.cuh"

namespace strobe {
inline namespace STROBE_ABI {
namespace ptx {

// d += a * b. Called by a whole warp, converged. T is __half or __nv_bfloat16.
//   mma.sync.aligned.m16n8k16.row.col.f32.{f16.f16 | bf16.bf16}.f32 {d}, {a}, {b}, {d};
// Neither volatile nor clobbering: it reads and writes registers only, and the compiler must be
// free to spread the products between loads and exponentials.
template <class T>
STROBE_DEVICE void mma_m16n8k16(float (&d)[4], const uint32_t (&a)[4], uint32_t b0,
                                uint32_t b1 STROBE_AND_SITE);

#if STROBE_HOST_EXECUTION

template <>
STROBE_DEVICE void mma_m16n8k16<__half>(float (&d)[4], const uint32_t (&a)[4], uint32_t b0,
                                        uint32_t b1, host::Site site) {
  host::mma_m16n8k16(host::Element::f16, d, a, b0, b1, site);
}
template <>
STROBE_DEVICE void mma_m16n8k16<__nv_bfloat16>(float (&d)[4], const uint32_t (&a)[4], uint32_t b0,
                                               uint32_t b1, host::Site site) {
  host::mma_m16n8k16(host::Element::bf16, d, a, b0, b1, site);
}

#else

template <>
STROBE_DEVICE void mma_m16n8k16<__half>(float (&d)[4], const uint32_t (&a)[4], uint32_t b0,
                                        uint32_t b1) {
  asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 "
      "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}
template <>
STROBE_DEVICE void mma_m16n8k16<__nv_bfloat16>(float (&d)[4], const uint32_t (&a)[4], uint32_t b0,
                                               uint32_t b1) {
  asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 "
      "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

#endif

}  // namespace ptx
}  // namespace STROBE_ABI
}  // namespace strobe
