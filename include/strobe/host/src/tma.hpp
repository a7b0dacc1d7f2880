// SPDX-License-Identifier: MIT
// Copies of tiles (TMA) in flight.
// Layer: host execution, internal.
#pragma once

#include <cstdint>

#include "../site.hpp"

namespace strobe {
inline namespace STROBE_ABI {
namespace host {

// What encode_tensor_map was told; dimension 0 is contiguous, elements have 16 bits.
struct TensorDescription {
  unsigned char* base;
  int rank;
  uint64_t extents[5];
  uint64_t strides[5];  // bytes
  uint32_t box[5];
};

struct TileCopy {
  TensorDescription tensor;
  int64_t at[5];     // of the box's first element
  uint32_t shared;   // offset in dynamic shared memory
  uint32_t bytes;    // of the box
  uint32_t barrier;  // of a load: offset of its mbarrier
  uint32_t group;    // of a store: among its thread's
  uint32_t number;   // of a store: among its warp's
  bool done;         // of a store: it took place already (eager), unknown to the kernel
  Site site;
};

}  // namespace host
}  // namespace STROBE_ABI
}  // namespace strobe
