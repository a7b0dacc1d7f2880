// SPDX-License-Identifier: MIT
// Prefill: attention of many query rows a sequence. Layer: host entry; checks, chooses the kernel,
// launches it.
#pragma once

#include <cmath>

#include "attention.hpp"
#include "detail/check.hpp"
#include "detail/launch.cuh"
#include "device.cuh"
#include "kernel/prefill_sm80.cuh"

namespace strobe {
inline namespace STROBE_ABI {

/// Bytes of workspace a prefill within these bounds needs: a pure function. The portable kernel
/// needs none, and 0 bytes may come as Workspace{}; kernels to come will need some, so ask.
template <class Attention>
constexpr size_t prefill_workspace_bytes(const Bounds&, const Device&) noexcept {
  return 0;
}

namespace detail {

template <class Attention>
static Status check_prefill(const Attention& a, const Device& device) noexcept {
  using C = kernel::PrefillSm80<Attention>;
  Status status = check_attention(a);
  if (!status) return status;
  if (!(status = check_device(device))) return status;
  if (device.compute_capability < 80)
    return unsupported() << "device.compute_capability is " << device.compute_capability
                         << "; strobe's kernels need 80 (8.0) or newer";
  if (device.shared_bytes_per_block < C::shared_bytes)
    return unsupported() << "the kernel needs " << C::shared_bytes
                         << " bytes of shared memory a block but device.shared_bytes_per_block is "
                         << device.shared_bytes_per_block;
  if (!has_no_rows(a.bounds) && PrefillSchedule::blocks(a.bounds, C::block_q) > 0x7fffffff)
    return unsupported() << "bounds need " << PrefillSchedule::blocks(a.bounds, C::block_q)
                         << " thread blocks; a launch has at most 2147483647";
  return {};
}

template <class Attention>
static Status prepare_prefill(const Device& device) noexcept {
  static ReadyDevices ready{0};
  return prepare(&kernel::prefill_sm80<Attention>, kernel::PrefillSm80<Attention>::shared_bytes,
                 device, ready);
}

}  // namespace detail

/// Whether prefill(a, ..) would launch: every check, nothing launched, device memory untouched. The
/// pointers of `a` are looked at (null, alignment), never followed.
template <class Attention>
static Status prefill_supported(const Attention& a, const Device& device) noexcept {
  const Status status = detail::check_prefill(a, device);
  return status.ok() ? detail::prepare_prefill<Attention>(device) : status;
}

/// The kernel prefill(a, ..) would launch.
template <class Attention>
static KernelChoice prefill_kernel(const Attention& a, const Device& device) noexcept {
  using C = kernel::PrefillSm80<Attention>;
  const Status status = prefill_supported(a, device);
  if (!status) return {status, Family::sm80, 0, {}};
  detail::Sentence sentence(Code::ok);
  sentence << "prefill_sm80 (mma.sync), " << C::block_q << " x " << C::block_kv << " tiles, "
           << C::tile.warps << " warps, ";
  return detail::portable_choice(sentence, C::shared_bytes, device);
}

/// O = attention of every query row, and LSE where a.lse.data is not null. See Attention for
/// shapes, Lengths for what is read on the device. Asynchronous on `stream`, allocates nothing,
/// synchronises nothing, capturable in a CUDA graph; the launch depends on a.bounds and `device`
/// alone. Rows past a sequence's q_len are not written. `device` must be the current one. Errors:
/// invalid (names the field), unsupported (no kernel for it), launch_failed (CUDA's error; it is
/// not left pending).
template <class Attention>
static Status prefill(const Attention& a, const Device& device, const Workspace& workspace,
                      cudaStream_t stream) noexcept {
  using C = kernel::PrefillSm80<Attention>;
  Status status = detail::check_prefill(a, device);
  if (!status) return status;
  if (!(status = detail::check_workspace(workspace,
                                         prefill_workspace_bytes<Attention>(a.bounds, device))))
    return status;
  if (detail::has_no_rows(a.bounds)) return {};
  if (!(status = detail::prepare_prefill<Attention>(device))) return status;
  const kernel::PrefillParams<Attention> params{
      a, PrefillSchedule(a.bounds, C::block_q),
      a.scale.given ? a.scale.value : 1.f / std::sqrt(static_cast<float>(a.head_dim))};
  return detail::launch(&kernel::prefill_sm80<Attention>,
                        int(PrefillSchedule::blocks(a.bounds, C::block_q)), C::threads,
                        C::shared_bytes, stream, params);
}

}  // namespace STROBE_ABI
}  // namespace strobe
