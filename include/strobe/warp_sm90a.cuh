// SPDX-License-Identifier: MIT
// What one warpgroup does with one key tile on wgmma: S = Q K^T, P V and the sign of Q. What is the
// same for one warp's rows, scores and masks, rounding and storing, is warp_sm80.cuh's. Layer:
// warp.
//
// C, a kernel's compile-time numbers, has T, head_dim, block_q, block_kv, head_panels, key_tiles
// and value_tiles. Tiles lie in shared memory as tile/load_tma.cuh says. Everything here is called
// by whole warpgroups.
#pragma once

#include "ptx/barrier.cuh"
#include "ptx/wgmma.cuh"
#include "tile/load_tma.cuh"
#include "warp_sm80.cuh"

namespace strobe {
inline namespace STROBE_ABI {
namespace warp {

/// Q of the warpgroup's 64 rows times the sign of a scale that is not positive, in shared memory.
/// `barrier` is a named barrier of its own.
template <class C>
STROBE_DEVICE void apply_sign(uint4* rows, float scale, int thread, int barrier) {
  const uint32_t keep = scale < 0.f ? 0xffffffffu : 0u, flip = scale < 0.f ? 0x80008000u : 0u;
  for (int i = thread; i < C::head_panels * 64 * 8; i += 128) {
    uint4& chunk = rows[i / 512 * C::block_q * 8 + i % 512];
    chunk = make_uint4((chunk.x & keep) ^ flip, (chunk.y & keep) ^ flip, (chunk.z & keep) ^ flip,
                       (chunk.w & keep) ^ flip);
  }
  ptx::fence_proxy_async();
  ptx::barrier_sync(barrier, 128);
}

/// S = Q K^T of the warpgroup's 64 rows: issued, not waited for.
template <class C>
STROBE_DEVICE void issue_qk(float (&s)[C::key_tiles][4], uint32_t q_smem, uint32_t k_smem) {
  const uint64_t q = ptx::wgmma_operand(q_smem), k = ptx::wgmma_operand(k_smem);
  ptx::wgmma_fence();
  STROBE_UNROLL
  for (int d = 0; d < C::head_dim / 16; ++d) {
    const uint32_t in_panel = uint32_t(d % 4 * 32);
    ptx::wgmma<typename C::T, false>(
        s, ptx::wgmma_advance(q, uint32_t(d / 4 * C::block_q * 128) + in_panel),
        ptx::wgmma_advance(k, uint32_t(d / 4 * C::block_kv * 128) + in_panel), d > 0);
  }
  ptx::wgmma_commit();
}
/// O += P V: issued, not waited for.
template <class C>
STROBE_DEVICE void issue_pv(float (&o)[C::value_tiles][4], const uint32_t (&p)[C::key_tiles / 2][4],
                            uint32_t v_smem) {
  const uint64_t v = ptx::wgmma_operand(v_smem, C::block_kv * 128);
  ptx::wgmma_fence();
  STROBE_UNROLL
  for (int k = 0; k < C::key_tiles / 2; ++k)
    ptx::wgmma<typename C::T, true>(o, p[k], ptx::wgmma_advance(v, uint32_t(k * 2048)), true);
  ptx::wgmma_commit();
}

}  // namespace warp
}  // namespace STROBE_ABI
}  // namespace strobe
