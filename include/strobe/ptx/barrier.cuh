// SPDX-License-Identifier: MIT
// Named barriers: some of a block's warps meet, the others run on.
// Layer: ptx. PTX ISA 2.0, sm_20. Source: PTX ISA, "Parallel Synchronization and Communication
// Instructions: bar, barrier".
#pragma once

#include "prelude.cuh"

namespace strobe {
inline namespace STROBE_ABI {
namespace ptx {

// Waits at barrier `id` until `threads` threads (a multiple of 32) have arrived or waited there,
// then the barrier is free again. Called by whole warps, converged. id 0 is __syncthreads':
// use 1..15. Memory accesses of all who came are ordered, as with __syncthreads.
//   bar.sync id, threads;
STROBE_DEVICE void barrier_sync(int id, int threads STROBE_AND_SITE) {
#if STROBE_HOST_EXECUTION
  host::named_barrier(id, threads, /*wait=*/true, site);
#else
  asm volatile("bar.sync %0, %1;" ::"r"(id), "r"(threads) : "memory");
#endif
}

// Counts the calling warp in at barrier `id` and does not wait: what it wrote before is visible to
// those who wait there. `threads` counts both sides. Called by whole warps, converged.
//   bar.arrive id, threads;
STROBE_DEVICE void barrier_arrive(int id, int threads STROBE_AND_SITE) {
#if STROBE_HOST_EXECUTION
  host::named_barrier(id, threads, /*wait=*/false, site);
#else
  asm volatile("bar.arrive %0, %1;" ::"r"(id), "r"(threads) : "memory");
#endif
}

}  // namespace ptx
}  // namespace STROBE_ABI
}  // namespace strobe
