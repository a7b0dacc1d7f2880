// SPDX-License-Identifier: MIT
/// @file
/// The two things a caller asks of the CUDA runtime before the first call: facts about the device,
/// and a cleared workspace header. Layer: host entry.
#pragma once

#include <cstring>

#include "detail/check.hpp"
#include "detail/launch.cuh"
#include "policy.hpp"

namespace strobe {
inline namespace STROBE_ABI {

/// Fills `device` with the facts of the current CUDA device; call once, keep the result. Under host
/// execution: an emulated device of compute capability 8.0 with the shared memory of the smallest
/// cards (99 kB a block). `device` must not be null. Errors: launch_failed with CUDA's own error,
/// for instance where there is no GPU.
static inline Status current_device(Device* device) noexcept {
  if (device == nullptr) return detail::invalid() << "device is null";
#if STROBE_HOST_EXECUTION
  *device = Device{0, 80, 4, 99 * 1024};
#else
  int ordinal = 0, major = 0, minor = 0, sm_count = 0, shared_bytes = 0;
  cudaError_t error = cudaGetDevice(&ordinal);
  if (error == cudaSuccess)
    error = cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, ordinal);
  if (error == cudaSuccess)
    error = cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, ordinal);
  if (error == cudaSuccess)
    error = cudaDeviceGetAttribute(&sm_count, cudaDevAttrMultiProcessorCount, ordinal);
  if (error == cudaSuccess)
    error = cudaDeviceGetAttribute(&shared_bytes, cudaDevAttrMaxSharedMemoryPerBlockOptin, ordinal);
  if (error != cudaSuccess) return detail::cuda_failure("current_device", error);
  *device = Device{ordinal, major * 10 + minor, sm_count, shared_bytes};
#endif
  return {};
}

/// Clears the workspace header on `stream`; once after allocation, not before every call.
/// Asynchronous, capturable. `workspace.data`: 256-byte aligned; null with bytes 0 is legal and
/// does nothing. Errors: invalid, launch_failed.
static inline Status init_workspace(const Workspace& workspace, cudaStream_t stream) noexcept {
  const Status status = detail::check_workspace(workspace, 0);
  if (!status || workspace.data == nullptr) return status;
  if (workspace.bytes < workspace_header_bytes)
    return detail::invalid() << "workspace.bytes is " << uint64_t(workspace.bytes)
                             << "; the header alone needs " << uint64_t(workspace_header_bytes);
#if STROBE_HOST_EXECUTION
  (void)stream;
  std::memset(workspace.data, 0, workspace_header_bytes);
#else
  const cudaError_t error = cudaMemsetAsync(workspace.data, 0, workspace_header_bytes, stream);
  if (error != cudaSuccess) return detail::cuda_failure("cudaMemsetAsync", error);
#endif
  return {};
}

/// Which kernel a call gets, and why, in one sentence.
struct KernelChoice {
  Status status;  ///< not ok: no kernel, and `status.text` says why
  Family family = Family::sm80;
  int shared_bytes = 0;  ///< dynamic shared memory a block
  char text[Status::capacity] = {};
};

namespace detail {

/// Ends a sentence about a kernel. `why`: what the 9.0 kernel lacks where the portable one runs on
/// such a device, or null.
inline KernelChoice chosen(Family family, Sentence& sentence, int shared_bytes,
                           const char* why) noexcept {
  sentence << shared_bytes << " bytes of shared memory";
  if (family == Family::sm80) sentence << ": the portable kernel";
  if (why != nullptr) sentence << ", on 9.0 because " << why;
  KernelChoice choice{{}, family, shared_bytes, {}};
  std::memcpy(choice.text, Status(sentence).text, sizeof choice.text);
  return choice;
}

}  // namespace detail

}  // namespace STROBE_ABI
}  // namespace strobe
