// SPDX-License-Identifier: MIT
// Shared-memory addresses and the dynamic shared memory of a block.
// Layer: ptx. Source: CUDA C++ Programming Guide, "Dynamic shared memory"; PTX ISA, "Shared State
// Space".
#pragma once

#include "prelude.cuh"

// Declares `unsigned char* name`, the block's dynamic shared memory, aligned to 1024 bytes: what
// the 128-byte swizzle of TMA and wgmma needs, so that a tile's swizzle does not depend on where
// the tile lies. Every kernel of a program may use it: the array behind it has one name and one
// type, which `extern __shared__` demands within a translation unit and -rdc demands across them.
// Use it in the kernel itself or in a device function.
#if STROBE_HOST_EXECUTION
#define STROBE_DYNAMIC_SHARED(name) \
  [[maybe_unused]] unsigned char* name = ::strobe::host::dynamic_shared()
#else
#define STROBE_DYNAMIC_SHARED(name)                                        \
  extern __shared__ __align__(1024) unsigned char strobe_dynamic_shared[]; \
  [[maybe_unused]] unsigned char* name = strobe_dynamic_shared
#endif

namespace strobe {
inline namespace STROBE_ABI {
namespace ptx {

// The 32-bit shared-window address of a generic pointer into shared memory: what every `_smem`
// address parameter in this folder takes. Any thread. Host execution: dynamic shared memory starts
// at address 1024.
STROBE_DEVICE uint32_t shared_address(const void* pointer STROBE_AND_SITE) {
#if STROBE_HOST_EXECUTION
  return host::shared_address(pointer, site);
#else
  return static_cast<uint32_t>(__cvta_generic_to_shared(pointer));
#endif
}

}  // namespace ptx
}  // namespace STROBE_ABI
}  // namespace strobe
