// SPDX-License-Identifier: MIT
// mbarrier: a barrier in shared memory that counts arrivals of threads and bytes of asynchronous
// copies, and flips its phase when both are complete.
// Layer: ptx. PTX ISA 8.0, sm_90. Source: PTX ISA, "Parallel Synchronization and Communication
// Instructions: mbarrier".
//
// A barrier is 8 bytes, aligned to 8. Its phases are numbered 0, 1, 0, ..: waiting for parity p
// returns once a phase of that parity is complete, at once if the running phase is of the other
// parity. So a consumer's n-th wait on a barrier is for parity n % 2, and a producer that waits for
// a buffer that was never filled waits for parity 1.
#pragma once

#include "prelude.cuh"

namespace strobe {
inline namespace STROBE_ABI {
namespace ptx {

// Makes 8 bytes of shared memory a barrier whose phases end after `arrivals` arrivals. One thread;
// then mbarrier_fence_init by the same thread and __syncthreads before anybody uses it.
//   mbarrier.init.shared::cta.b64 [barrier], arrivals;
STROBE_DEVICE void mbarrier_init(uint32_t barrier_smem, uint32_t arrivals STROBE_AND_SITE) {
#if STROBE_HOST_EXECUTION
  host::mbarrier_init(barrier_smem, arrivals, site);
#else
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(barrier_smem), "r"(arrivals)
               : "memory");
#endif
}

// Makes initialised barriers visible to the copy engine (the async proxy).
//   fence.mbarrier_init.release.cluster;
STROBE_DEVICE void mbarrier_fence_init() {
#if STROBE_HOST_EXECUTION
  host::mbarrier_fence_init();
#else
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
#endif
}

// One arrival. What the thread did before is ordered before what waiters do after the phase.
//   mbarrier.arrive.shared::cta.b64 _, [barrier];
STROBE_DEVICE void mbarrier_arrive(uint32_t barrier_smem STROBE_AND_SITE) {
#if STROBE_HOST_EXECUTION
  host::mbarrier_arrive(barrier_smem, site);
#else
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(barrier_smem) : "memory");
#endif
}

// One arrival, and the phase also waits for `bytes` more bytes of copies.
//   mbarrier.arrive.expect_tx.shared::cta.b64 _, [barrier], bytes;
STROBE_DEVICE void mbarrier_arrive_expect(uint32_t barrier_smem, uint32_t bytes STROBE_AND_SITE) {
#if STROBE_HOST_EXECUTION
  host::mbarrier_arrive_expect(barrier_smem, bytes, site);
#else
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier_smem),
               "r"(bytes)
               : "memory");
#endif
}

// Waits until a phase of this parity is complete. What arrived threads did before and what copies
// wrote is visible to the caller. Any thread, for itself.
//   mbarrier.try_wait.parity.shared::cta.b64 done, [barrier], parity;  in a loop
STROBE_DEVICE void mbarrier_wait(uint32_t barrier_smem, uint32_t parity STROBE_AND_SITE) {
#if STROBE_HOST_EXECUTION
  host::mbarrier_wait(barrier_smem, parity, site);
#else
  asm volatile(
      "{\n"
      ".reg .pred done;\n"
      "again:\n"
      "mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n"
      "@done bra finished;\n"
      "bra again;\n"
      "finished:\n"
      "}\n" ::"r"(barrier_smem),
      "r"(parity)
      : "memory");
#endif
}

}  // namespace ptx
}  // namespace STROBE_ABI
}  // namespace strobe
