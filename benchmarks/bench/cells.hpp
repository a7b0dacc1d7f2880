// SPDX-License-Identifier: MIT
// strobe's calls by spec. Each function lives in a translation unit of its own with its instances,
// so that they build side by side.
#pragma once

#include "../spec.hpp"
#include "gpu.hpp"
#include "resources.hpp"

namespace bench {

/// A call ready to be measured; valid until the next one is prepared.
struct Prepared {
  Call call;                    ///< decode: call i uses copy i of K and V, round and round
  std::string kernel;           ///< strobe's sentence about it
  Resources resources;          ///< of the kernel it launches
  void* output = nullptr;       ///< poisoned
  size_t output_count = 0;      ///< 16-bit values
  const void* cache = nullptr;  ///< decode: the first copy of K and V, the others behind it
};

/// A shape that has no instance here is a std::invalid_argument that names the field.
Prepared prepare_prefill_fp16(Gpu& gpu, const Spec& spec);
Prepared prepare_prefill_bf16(Gpu& gpu, const Spec& spec);
/// `copies` of K and V, each at an aligned() place. `kv_bound`: the length the host is told of, the
/// real one being in device memory; 0: the real one.
Prepared prepare_decode(Gpu& gpu, const Spec& spec, int copies, int64_t kv_bound);

/// Bytes of K and V in a strided cache, or in one of whole pages.
size_t cache_bytes(const Spec& spec);

}  // namespace bench
