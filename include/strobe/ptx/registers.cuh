// SPDX-License-Identifier: MIT
// setmaxnreg: warpgroups of one block hand registers to each other.
// Layer: ptx. PTX ISA 8.0, sm_90a. Source: PTX ISA, "Miscellaneous Instructions: setmaxnreg".
//
// The kernel needs __launch_bounds__(threads, 1), so that it starts with a known number of
// registers a thread; increases wait until decreases of other warps have freed enough.
#pragma once

#include "prelude.cuh"

namespace strobe {
inline namespace STROBE_ABI {
namespace ptx {

// Registers a thread from here on, a multiple of 8 from 24 to 256. Called by whole warpgroups.
//   setmaxnreg.{inc | dec}.sync.aligned.u32 Registers;
template <int Registers>
STROBE_DEVICE void more_registers() {
  static_assert(Registers % 8 == 0 && Registers >= 24 && Registers <= 256, "see above");
#if !STROBE_HOST_EXECUTION
  asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(Registers));
#endif
}
template <int Registers>
STROBE_DEVICE void fewer_registers() {
  static_assert(Registers % 8 == 0 && Registers >= 24 && Registers <= 256, "see above");
#if !STROBE_HOST_EXECUTION
  asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(Registers));
#endif
}

}  // namespace ptx
}  // namespace STROBE_ABI
}  // namespace strobe
