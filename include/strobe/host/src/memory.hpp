// SPDX-License-Identifier: MIT
// From a 32-bit shared address to bytes, checked.
// Layer: host execution, internal.
#pragma once

#include "engine.hpp"

namespace strobe {
inline namespace STROBE_ABI {
namespace host {

[[noreturn]] void bad_shared_address(uint32_t address, uint32_t bytes, uint32_t alignment,
                                     const char* name, Site site);

// The offset of `bytes` bytes at a shared address; fails the launch if they are out of bounds or
// misaligned.
inline uint32_t shared_offset(uint32_t address, uint32_t bytes, uint32_t alignment,
                              const char* name, Site site) {
  const uint64_t end = uint64_t{address} + bytes;
  if (address < kSharedBase || end > kSharedBase + engine->launch->dynamic_shared_bytes ||
      address % alignment != 0) {
    bad_shared_address(address, bytes, alignment, name, site);
  }
  return address - kSharedBase;
}

// The 128-byte swizzle of TMA and wgmma: the row of eight within 1024 bytes changes the place of
// the 16-byte chunk within the row. Of addresses and offsets alike: dynamic shared memory begins at
// a multiple of 1024.
inline uint32_t swizzle_128(uint32_t offset) { return offset ^ (offset >> 7 & 7u) << 4; }

}  // namespace host
}  // namespace STROBE_ABI
}  // namespace strobe
