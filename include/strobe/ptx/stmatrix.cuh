// SPDX-License-Identifier: MIT
// stmatrix: a warp stores mma fragments to shared memory as 8x8 matrices of 16-bit elements.
// Layer: ptx. PTX ISA 7.8, sm_90: only kernels compiled for Hopper and newer may call it. Source:
// PTX ISA, "Warp-level matrix store instruction: stmatrix".
#pragma once

#include "prelude.cuh"

namespace strobe {
inline namespace STROBE_ABI {
namespace ptx {

// Called by a whole warp, converged. Lane i passes the address of row i % 8 of matrix i / 8
// (16-byte aligned); the layout of the registers is ldmatrix_x4's. The bytes are visible to other
// threads after a barrier.
//   stmatrix.sync.aligned.m8n8.x4.shared.b16 [address], {r0, r1, r2, r3};
STROBE_DEVICE void stmatrix_x4(uint32_t address_smem, const uint32_t (&r)[4] STROBE_AND_SITE) {
#if STROBE_HOST_EXECUTION
  host::store_matrices<4, false>(address_smem, r, site);
#else
  asm volatile(
      "stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(address_smem),
      "r"(r[0]), "r"(r[1]), "r"(r[2]), "r"(r[3])
      : "memory");
#endif
}

}  // namespace ptx
}  // namespace STROBE_ABI
}  // namespace strobe
