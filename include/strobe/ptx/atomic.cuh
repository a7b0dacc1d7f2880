// SPDX-License-Identifier: MIT
// Atomics on global memory that order other accesses: how blocks of one launch hand data to each
// other.
// Layer: ptx. PTX ISA 6.0, sm_70. Called by one thread, for itself. Source: PTX ISA, "Memory
// Consistency Model" and "Parallel Synchronization and Communication Instructions: atom"; "Data
// Movement: ld, st".
//
// A block publishes with: plain stores; __syncthreads(); one thread's release. It receives with:
// one thread's acquire; __syncthreads(); plain loads by all. Both barriers are needed: release and
// acquire order what is ordered before and after *the calling thread's* operation.
#pragma once

#include "prelude.cuh"

namespace strobe {
inline namespace STROBE_ABI {
namespace ptx {

// Returns the old value; stores old >= wrap ? 0 : old + 1. With wrap = n - 1 the n-th arrival gets
// n - 1 and leaves the counter at 0 for the next launch.
//   atom.acq_rel.gpu.global.inc.u32 old, [pointer], wrap;
STROBE_DEVICE uint32_t atomic_inc_acq_rel(uint32_t* pointer, uint32_t wrap STROBE_AND_SITE) {
#if STROBE_HOST_EXECUTION
  return host::atomic_update(
      pointer, [wrap](uint32_t old) { return old >= wrap ? 0u : old + 1u; },
      host::Ordering::acq_rel, site);
#else
  uint32_t old;
  asm volatile("atom.acq_rel.gpu.global.inc.u32 %0, [%1], %2;"
               : "=r"(old)
               : "l"(__cvta_generic_to_global(pointer)), "r"(wrap)
               : "memory");
  return old;
#endif
}

// Returns the old value; stores old + value.
//   atom.acq_rel.gpu.global.add.u32 old, [pointer], value;
STROBE_DEVICE uint32_t atomic_add_acq_rel(uint32_t* pointer, uint32_t value STROBE_AND_SITE) {
#if STROBE_HOST_EXECUTION
  return host::atomic_update(
      pointer, [value](uint32_t old) { return old + value; }, host::Ordering::acq_rel, site);
#else
  uint32_t old;
  asm volatile("atom.acq_rel.gpu.global.add.u32 %0, [%1], %2;"
               : "=r"(old)
               : "l"(__cvta_generic_to_global(pointer)), "r"(value)
               : "memory");
  return old;
#endif
}

// ld.acquire.gpu.global.u32 value, [pointer];
STROBE_DEVICE uint32_t load_acquire(const uint32_t* pointer STROBE_AND_SITE) {
#if STROBE_HOST_EXECUTION
  return host::atomic_load(pointer, host::Ordering::acquire, site);
#else
  uint32_t value;
  asm volatile("ld.acquire.gpu.global.u32 %0, [%1];"
               : "=r"(value)
               : "l"(__cvta_generic_to_global(pointer))
               : "memory");
  return value;
#endif
}

// st.release.gpu.global.u32 [pointer], value;
STROBE_DEVICE void store_release(uint32_t* pointer, uint32_t value STROBE_AND_SITE) {
#if STROBE_HOST_EXECUTION
  host::atomic_store(pointer, value, host::Ordering::release, site);
#else
  asm volatile("st.release.gpu.global.u32 [%0], %1;" ::"l"(__cvta_generic_to_global(pointer)),
               "r"(value)
               : "memory");
#endif
}

// Inside every loop that waits for another thread or block to change memory. On the device a short
// sleep that leaves the memory system to others; under host execution it lets the others run at
// all, and a wait that nobody can end is reported as a deadlock. PTX ISA 6.3, sm_70.
//   nanosleep.u32 20;
STROBE_DEVICE void spin_pause(STROBE_SITE) {
#if STROBE_HOST_EXECUTION
  host::yield(site);
#else
  asm volatile("nanosleep.u32 20;");
#endif
}

}  // namespace ptx
}  // namespace STROBE_ABI
}  // namespace strobe
