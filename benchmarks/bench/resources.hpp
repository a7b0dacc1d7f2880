// SPDX-License-Identifier: MIT
// What a kernel of this binary takes of a multiprocessor: asked of the runtime, so that it is the
// shipped code that answers and not a compiler's log.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "gpu.hpp"

namespace bench {

/// A launch, as strobe makes it for one shape. A block's warps are key_warps teams that walk key
/// tiles of their own; the row_warps of a team share its tiles and split the rows. Warps that only
/// load are in neither.
struct Launch {
  const char* kernel = "";  ///< its name in the source
  int64_t blocks = 0;
  int threads = 0;
  int dynamic_shared_bytes = 0;
  int block_q = 0;   ///< query rows of a block; decode: packed rows
  int block_kv = 0;  ///< keys of a tile
  int row_warps = 0, key_warps = 0;
  int parts = 1;  ///< that the keys are cut into
  int compiled_head_dim = 0;
};

struct Resources {
  Launch launch;
  int registers = 0;    ///< a thread
  int local_bytes = 0;  ///< a thread: spilled registers
  int static_shared_bytes = 0;
  int blocks_per_sm = 0;  ///< that a multiprocessor can hold of this launch
  int binary_version = 0, ptx_version = 0;
};

/// `kernel` must be ready on the current device, as it is after strobe's *_kernel or *_supported.
Resources resources_of(const void* kernel, const Launch& launch);

/// A context, the device's limits and one entry a shape, as JSON.
using Facts = std::vector<std::pair<std::string, std::string>>;
std::string resources_json(const Gpu& gpu, const Facts& context,
                           const std::vector<std::pair<std::string, Resources>>& shapes);

}  // namespace bench
