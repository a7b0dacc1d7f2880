// SPDX-License-Identifier: MIT
// cp.async: copies from global to shared memory that do not pass through registers.
// Layer: ptx. PTX ISA 7.0 (the L2 prefetch hint 7.4), sm_80. Source: PTX ISA, "Data Movement and
// Conversion Instructions: cp.async", "cp.async.commit_group", "cp.async.wait_group".
//
// A thread's copies belong to the group of its next commit. After wait<N> the copies of all but the
// thread's N newest groups have landed, visible to *this thread alone*; a barrier makes them
// visible to the block. The copy and the commit are `volatile` without a "memory" clobber: they
// keep their order among themselves and against barriers, and plain accesses may still move past
// them. The wait has the clobber, because plain loads of the copied bytes must stay below it.
#pragma once

#include "prelude.cuh"

namespace strobe {
inline namespace STROBE_ABI {
namespace ptx {

// Starts the copy of 16 bytes, both addresses 16-byte aligned. Called by one thread, for itself.
// valid == false writes 16 zero bytes and reads nothing: src_gmem may then be any pointer, even
// null.
//   cp.async.cg.shared.global.L2::128B [dst], [src], 16, src_bytes;
// .cg keeps the line out of L1: tiles are read from shared memory, once.
STROBE_DEVICE void cp_async_16(uint32_t dst_smem, const void* src_gmem,
                               bool valid STROBE_AND_SITE) {
#if STROBE_HOST_EXECUTION
  host::cp_async(dst_smem, src_gmem, 16, valid ? 16 : 0, site);
#else
  const int src_bytes = valid ? 16 : 0;
  asm volatile("cp.async.cg.shared.global.L2::128B [%0], [%1], 16, %2;" ::"r"(dst_smem),
               "l"(src_gmem), "r"(src_bytes));
#endif
}

// Closes the calling thread's current group, empty or not.
//   cp.async.commit_group;
STROBE_DEVICE void cp_async_commit() {
#if STROBE_HOST_EXECUTION
  host::cp_async_commit();
#else
  asm volatile("cp.async.commit_group;");
#endif
}

// Waits until at most `Newest` groups of the calling thread, the newest, are in flight.
//   cp.async.wait_group N;
template <int Newest>
STROBE_DEVICE void cp_async_wait() {
  static_assert(Newest >= 0, "a number of groups");
#if STROBE_HOST_EXECUTION
  host::cp_async_wait(Newest);
#else
  asm volatile("cp.async.wait_group %0;" ::"n"(Newest) : "memory");
#endif
}

}  // namespace ptx
}  // namespace STROBE_ABI
}  // namespace strobe
