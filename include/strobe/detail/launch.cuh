// SPDX-License-Identifier: MIT
// The one place that talks to the CUDA runtime: is there code for this device, and off it goes.
// Layer: detail, host side of .cuh files. Under host execution the same calls run the kernel on the
// CPU.
//
// Everything here is `static`: two shared objects built for different architectures each keep their
// own launchers, caches and kernels, which weak symbols would merge.
#pragma once

#include <cuda_runtime_api.h>

#include <atomic>

#include "../status.hpp"
#include "../types.hpp"
#if STROBE_HOST_EXECUTION
#include "../host/execution.hpp"
#endif

namespace strobe {
inline namespace STROBE_ABI {
namespace detail {

/// The architectures this translation unit was compiled for, as nvcc lists them: "800,900".
static constexpr const char* built_for() {
#if STROBE_HOST_EXECUTION
  return "host execution";
#elif defined(__CUDA_ARCH_LIST__)
  return STROBE_TEXT_OF(__CUDA_ARCH_LIST__);
#else
  return "no architecture: this file was not compiled by nvcc";
#endif
}

/// A CUDA error as a Status; clears the runtime's pending error, so that what was reported once is
/// not reported again.
static inline Status cuda_failure(const char* call, cudaError_t error) noexcept {
#if !STROBE_HOST_EXECUTION
  (void)cudaGetLastError();
  return Sentence(Code::launch_failed, error) << call << ": " << cudaGetErrorString(error);
#else
  return Sentence(Code::launch_failed, error) << call << ": " << host::failure().c_str();
#endif
}

/// What prepare() remembers of one kernel: a bit for each device it is ready on. A function-local
/// static of an internal function, safe from several threads: they can only do the same work twice.
using ReadyDevices = std::atomic<uint64_t>;

/// Makes sure that `kernel` has code for the current device, which has to be `device`, and may use
/// `shared_bytes` of dynamic shared memory. Asks the runtime once a device.
template <class Params>
static Status prepare(void (*kernel)(Params), int shared_bytes, const Device& device,
                      ReadyDevices& ready) noexcept {
#if STROBE_HOST_EXECUTION
  (void)kernel, (void)shared_bytes, (void)device, (void)ready;
  return {};
#else
  int current = -1;
  cudaError_t error = cudaGetDevice(&current);
  if (error != cudaSuccess) return cuda_failure("cudaGetDevice", error);
  if (current != device.ordinal)
    return invalid() << "device.ordinal is " << device.ordinal << " but the current device is "
                     << current;
  const uint64_t bit = device.ordinal < 64 ? uint64_t(1) << device.ordinal : 0;
  if ((ready.load(std::memory_order_acquire) & bit) != 0) return {};

  cudaFuncAttributes attributes;
  error = cudaFuncGetAttributes(&attributes, reinterpret_cast<const void*>(kernel));
  const bool no_code =
      error == cudaErrorInvalidDeviceFunction || error == cudaErrorNoKernelImageForDevice ||
      error == cudaErrorInvalidKernelImage || error == cudaErrorUnsupportedPtxVersion;
  if (no_code) (void)cudaGetLastError();
  if (no_code || (error == cudaSuccess && attributes.ptxVersion < 80)) {
    Status status = unsupported() << "no code for compute capability "
                                  << device.compute_capability / 10 << '.'
                                  << device.compute_capability % 10
                                  << " in this build (__CUDA_ARCH_LIST__ = " << built_for()
                                  << "); build for 80 or newer";
    if (no_code) status.cuda = error;
    return status;
  }
  if (error != cudaSuccess) return cuda_failure("cudaFuncGetAttributes", error);
  error = cudaFuncSetAttribute(reinterpret_cast<const void*>(kernel),
                               cudaFuncAttributeMaxDynamicSharedMemorySize, shared_bytes);
  if (error != cudaSuccess) return cuda_failure("cudaFuncSetAttribute", error);
  error = cudaFuncSetAttribute(reinterpret_cast<const void*>(kernel),
                               cudaFuncAttributePreferredSharedMemoryCarveout,
                               cudaSharedmemCarveoutMaxShared);
  if (error != cudaSuccess) return cuda_failure("cudaFuncSetAttribute", error);
  ready.fetch_or(bit, std::memory_order_release);
  return {};
#endif
}

/// Launches on `stream`; never synchronises. Under host execution the grid has run when it returns.
template <class Params>
static Status launch(void (*kernel)(Params), int blocks, int threads, int shared_bytes,
                     cudaStream_t stream, const Params& params) noexcept {
  const dim3 grid{unsigned(blocks), 1, 1}, block{unsigned(threads), 1, 1};
#if STROBE_HOST_EXECUTION
  (void)stream;
  const cudaError_t error = host::launch(kernel, grid, block, size_t(shared_bytes), params);
  return error == cudaSuccess ? Status{} : cuda_failure("host execution", error);
#else
  void* arguments[] = {const_cast<Params*>(&params)};
  const cudaError_t error = cudaLaunchKernel(reinterpret_cast<const void*>(kernel), grid, block,
                                             arguments, size_t(shared_bytes), stream);
  return error == cudaSuccess ? Status{} : cuda_failure("cudaLaunchKernel", error);
#endif
}

}  // namespace detail
}  // namespace STROBE_ABI
}  // namespace strobe
