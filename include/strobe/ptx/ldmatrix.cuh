// SPDX-License-Identifier: MIT
// ldmatrix: a warp loads 8x8 matrices of 16-bit elements from shared memory into mma fragments.
// Layer: ptx. PTX ISA 6.5, sm_75. Source: PTX ISA, "Warp-level matrix load instruction: ldmatrix".
//
// Called by a whole warp, converged. Lane i passes the address of row i % 8 of matrix i / 8 (x2:
// lanes 16..31 pass any valid address, which is not read); a row is 16 contiguous bytes, 16-byte
// aligned. Register m gets matrix m: lane l holds the elements
//           r[m] bits 0..15            r[m] bits 16..31
//   plain   row l/4, column l%4*2      row l/4,     column l%4*2 + 1
//   _trans  row l%4*2, column l/4      row l%4*2+1, column l/4
//
// `volatile` without a "memory" clobber: the load must stay on its side of barriers and of
// cp_async_wait, which are volatile or have side effects themselves, so their order is kept. There
// is nothing to order against plain accesses: other lanes write what a lane reads here, so a
// barrier always lies between. A clobber would only keep the compiler from holding unrelated values
// in registers across the load.
#pragma once

#include "prelude.cuh"

namespace strobe {
inline namespace STROBE_ABI {
namespace ptx {

// ldmatrix.sync.aligned.m8n8.x4.shared.b16 {r0, r1, r2, r3}, [address];
STROBE_DEVICE void ldmatrix_x4(uint32_t (&r)[4], uint32_t address_smem STROBE_AND_SITE) {
#if STROBE_HOST_EXECUTION
  host::load_matrices<4, false>(r, address_smem, site);
#else
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(address_smem));
#endif
}

// ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {r0, r1, r2, r3}, [address];
STROBE_DEVICE void ldmatrix_x4_trans(uint32_t (&r)[4], uint32_t address_smem STROBE_AND_SITE) {
#if STROBE_HOST_EXECUTION
  host::load_matrices<4, true>(r, address_smem, site);
#else
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(address_smem));
#endif
}

// ldmatrix.sync.aligned.m8n8.x2.shared.b16 {r0, r1}, [address];
STROBE_DEVICE void ldmatrix_x2(uint32_t (&r)[2], uint32_t address_smem STROBE_AND_SITE) {
#if STROBE_HOST_EXECUTION
  host::load_matrices<2, false>(r, address_smem, site);
#else
  asm volatile("ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%0, %1}, [%2];"
               : "=r"(r[0]), "=r"(r[1])
               : "r"(address_smem));
#endif
}

// ldmatrix.sync.aligned.m8n8.x2.trans.shared.b16 {r0, r1}, [address];
STROBE_DEVICE void ldmatrix_x2_trans(uint32_t (&r)[2], uint32_t address_smem STROBE_AND_SITE) {
#if STROBE_HOST_EXECUTION
  host::load_matrices<2, true>(r, address_smem, site);
#else
  asm volatile("ldmatrix.sync.aligned.m8n8.x2.trans.shared.b16 {%0, %1}, [%2];"
               : "=r"(r[0]), "=r"(r[1])
               : "r"(address_smem));
#endif
}

}  // namespace ptx
}  // namespace STROBE_ABI
}  // namespace strobe
