// SPDX-License-Identifier: MIT
// TMA: the copy engine moves boxes of a tensor between global and shared memory; one thread asks.
// Layer: ptx. PTX ISA 8.0, sm_90. Source: PTX ISA, "Data Movement and Conversion Instructions:
// cp.async.bulk.tensor"; CUDA Driver API, "Tensor Map Object Management".
//
// A TensorMap says where the tensor lies, its extents, strides and the box (detail/tensor_map.cuh
// makes one). Coordinates are in elements, the contiguous dimension first and there a multiple of
// 16 bytes; what lies outside of the extents is loaded as zero and not stored. A load may begin at
// negative coordinates, a store may not: an H200 stops with an illegal instruction. With the
// 128-byte swizzle, chunk c (16 bytes) of row r of a box with rows of 128 bytes lands at chunk c ^
// (r % 8), if the box begins at a multiple of 1024 bytes: the swizzle is a function of the shared
// address.
#pragma once

#include "prelude.cuh"

namespace strobe {
inline namespace STROBE_ABI {
namespace ptx {

/// Layout and alignment of CUtensorMap, without <cuda.h>. Passed in a __grid_constant__ parameter.
struct alignas(64) TensorMap {
  uint64_t words[16];
};

/// What L2 should do with the lines of a copy. The numbers are what createpolicy.fractional gives
/// for the whole of an access.
enum class L2Hint : uint64_t {
  normal = 0x1000000000000000u,
  evict_first = 0x12f0000000000000u,  ///< read once
  evict_last = 0x14f0000000000000u,   ///< read by many blocks
};

// Starts the copy of one box into shared memory (128-byte aligned); its bytes, the whole box's,
// count at the barrier. One thread.
//   cp.async.bulk.tensor.{2..5}d.shared::cluster.global.mbarrier::complete_tx::bytes
//       .L2::cache_hint [dst], [map, {coordinates}], [barrier], hint;
template <int Rank>
STROBE_DEVICE void tma_load(uint32_t dst_smem, const TensorMap& map, const int (&at)[Rank],
                            uint32_t barrier_smem, L2Hint hint STROBE_AND_SITE) {
  static_assert(Rank >= 2 && Rank <= 5, "boxes of 2 to 5 dimensions");
#if STROBE_HOST_EXECUTION
  (void)hint;
  host::tma_load(dst_smem, &map, at, Rank, barrier_smem, site);
#else
  const uint64_t tensor = reinterpret_cast<uint64_t>(&map), policy = static_cast<uint64_t>(hint);
  if constexpr (Rank == 2) {
    asm volatile(
        "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes"
        ".L2::cache_hint [%0], [%1, {%3, %4}], [%2], %5;" ::"r"(dst_smem),
        "l"(tensor), "r"(barrier_smem), "r"(at[0]), "r"(at[1]), "l"(policy)
        : "memory");
  } else if constexpr (Rank == 3) {
    asm volatile(
        "cp.async.bulk.tensor.3d.shared::cluster.global.mbarrier::complete_tx::bytes"
        ".L2::cache_hint [%0], [%1, {%3, %4, %5}], [%2], %6;" ::"r"(dst_smem),
        "l"(tensor), "r"(barrier_smem), "r"(at[0]), "r"(at[1]), "r"(at[2]), "l"(policy)
        : "memory");
  } else if constexpr (Rank == 4) {
    asm volatile(
        "cp.async.bulk.tensor.4d.shared::cluster.global.mbarrier::complete_tx::bytes"
        ".L2::cache_hint [%0], [%1, {%3, %4, %5, %6}], [%2], %7;" ::"r"(dst_smem),
        "l"(tensor), "r"(barrier_smem), "r"(at[0]), "r"(at[1]), "r"(at[2]), "r"(at[3]), "l"(policy)
        : "memory");
  } else {
    asm volatile(
        "cp.async.bulk.tensor.5d.shared::cluster.global.mbarrier::complete_tx::bytes"
        ".L2::cache_hint [%0], [%1, {%3, %4, %5, %6, %7}], [%2], %8;" ::"r"(dst_smem),
        "l"(tensor), "r"(barrier_smem), "r"(at[0]), "r"(at[1]), "r"(at[2]), "r"(at[3]), "r"(at[4]),
        "l"(policy)
        : "memory");
  }
#endif
}

// Nothing on the device: says that bytes of a tile stay as they are, whatever that is, because what
// is computed from them is dropped. Host execution puts NaN there and checks the place as it does
// that of a load counted at the barrier.
STROBE_DEVICE void tma_leave_out(uint32_t dst_smem, uint32_t bytes,
                                 uint32_t barrier_smem STROBE_AND_SITE) {
#if STROBE_HOST_EXECUTION
  host::tma_leave_out(dst_smem, bytes, barrier_smem, site);
#else
  (void)dst_smem, (void)bytes, (void)barrier_smem;
#endif
}

// Starts the copy of one box from shared memory (128-byte aligned) to global memory, as part of the
// thread's next group. What threads wrote there needs fence_proxy_async by the writers and a
// barrier before. One thread.
//   cp.async.bulk.tensor.{2..5}d.global.shared::cta.bulk_group [map, {coordinates}], [src];
template <int Rank>
STROBE_DEVICE void tma_store(const TensorMap& map, const int (&at)[Rank],
                             uint32_t src_smem STROBE_AND_SITE) {
  static_assert(Rank >= 2 && Rank <= 5, "boxes of 2 to 5 dimensions");
#if STROBE_HOST_EXECUTION
  host::tma_store(&map, at, Rank, src_smem, site);
#else
  const uint64_t tensor = reinterpret_cast<uint64_t>(&map);
  if constexpr (Rank == 2) {
    asm volatile(
        "cp.async.bulk.tensor.2d.global.shared::cta.bulk_group [%0, {%2, %3}], [%1];" ::"l"(tensor),
        "r"(src_smem), "r"(at[0]), "r"(at[1])
        : "memory");
  } else if constexpr (Rank == 3) {
    asm volatile(
        "cp.async.bulk.tensor.3d.global.shared::cta.bulk_group [%0, {%2, %3, %4}], [%1];" ::"l"(
            tensor),
        "r"(src_smem), "r"(at[0]), "r"(at[1]), "r"(at[2])
        : "memory");
  } else if constexpr (Rank == 4) {
    asm volatile(
        "cp.async.bulk.tensor.4d.global.shared::cta.bulk_group [%0, {%2, %3, %4, %5}], [%1];" ::"l"(
            tensor),
        "r"(src_smem), "r"(at[0]), "r"(at[1]), "r"(at[2]), "r"(at[3])
        : "memory");
  } else {
    asm volatile(
        "cp.async.bulk.tensor.5d.global.shared::cta.bulk_group [%0, {%2, %3, %4, %5, %6}], [%1];" ::
            "l"(tensor),
        "r"(src_smem), "r"(at[0]), "r"(at[1]), "r"(at[2]), "r"(at[3]), "r"(at[4])
        : "memory");
  }
#endif
}

// Closes the calling thread's group of stores.
//   cp.async.bulk.commit_group;
STROBE_DEVICE void tma_store_commit() {
#if STROBE_HOST_EXECUTION
  host::tma_store_commit();
#else
  asm volatile("cp.async.bulk.commit_group;" ::: "memory");
#endif
}

// Waits until all but the calling thread's newest `Newest` groups of stores have read their shared
// memory, which may then be written again.
//   cp.async.bulk.wait_group.read N;
template <int Newest>
STROBE_DEVICE void tma_store_wait_read() {
#if STROBE_HOST_EXECUTION
  host::tma_store_wait_read(Newest);
#else
  asm volatile("cp.async.bulk.wait_group.read %0;" ::"n"(Newest) : "memory");
#endif
}

// Fetches the map itself, so that the first copy does not wait for it. One thread.
//   prefetch.tensormap [map];
STROBE_DEVICE void tma_prefetch(const TensorMap& map) {
#if STROBE_HOST_EXECUTION
  (void)map;
#else
  asm volatile("prefetch.tensormap [%0];" ::"l"(reinterpret_cast<uint64_t>(&map)) : "memory");
#endif
}

// Orders the calling thread's accesses to shared memory before those of the async proxy (TMA,
// wgmma) that a barrier puts after this.
//   fence.proxy.async.shared::cta;
STROBE_DEVICE void fence_proxy_async() {
#if STROBE_HOST_EXECUTION
  host::fence_proxy_async();
#else
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
#endif
}

}  // namespace ptx
}  // namespace STROBE_ABI
}  // namespace strobe
