// SPDX-License-Identifier: MIT
// Whether code for 9.0a, which has wgmma, was compiled in. Layer: detail, host side of .cuh files.
#pragma once

#include "launch.cuh"

namespace strobe {
inline namespace STROBE_ABI {

namespace kernel {

#if !STROBE_HOST_EXECUTION
/// Never launched. What cudaFuncGetAttributes says of its shared memory tells whether this file was
/// compiled for 9.0a: for the host 90 and 90a look alike.
static __global__ void built_for_sm90a(int* bytes) {
#if STROBE_HAS_SM90A
  __shared__ int marker;
  if (threadIdx.x == 0) marker = int(blockIdx.x);
  __syncthreads();
  *bytes = marker;
#else
  (void)bytes;
#endif
}
#endif

}  // namespace kernel

namespace detail {

/// Whether this file was compiled for 9.0a, asked of the current device, which has to be `device`.
/// Only a yes is remembered: a no may come of an error or of another device, which prepare()
/// reports.
static inline bool has_sm90a_code(const Device& device) noexcept {
#if STROBE_HOST_EXECUTION
  (void)device;
  return true;
#else
  static ReadyDevices known{0};
  const uint64_t bit = device.ordinal < 64 ? uint64_t(1) << device.ordinal : 0;
  if ((known.load(std::memory_order_acquire) & bit) != 0) return true;
  int current = -1;
  cudaFuncAttributes attributes{};
  cudaError_t error = cudaGetDevice(&current);
  if (error == cudaSuccess && current == device.ordinal)
    error =
        cudaFuncGetAttributes(&attributes, reinterpret_cast<const void*>(&kernel::built_for_sm90a));
  if (error != cudaSuccess) (void)cudaGetLastError();
  if (error != cudaSuccess || current != device.ordinal || attributes.sharedSizeBytes == 0)
    return false;
  known.fetch_or(bit, std::memory_order_release);
  return true;
#endif
}

}  // namespace detail
}  // namespace STROBE_ABI
}  // namespace strobe
