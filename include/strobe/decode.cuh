// SPDX-License-Identifier: MIT
/// @file
/// Decode: attention of the last few tokens of a sequence over all its keys. Layer: host entry;
/// checks, chooses, launches.
#pragma once

#include <cmath>

#include "attention.hpp"
#include "detail/check.hpp"
#include "detail/launch.cuh"
#include "device.cuh"
#include "kernel/decode_sm80.cuh"

namespace strobe {
inline namespace STROBE_ABI {

/// Most query tokens a sequence that decode takes; longer ones are prefill's.
inline constexpr int max_decode_q_len = 16;

namespace detail {

/// The packed rows of a KV head fit one 16-row tile (each warp then walks keys of its own), or come
/// in blocks of 64.
inline int decode_row_warps(const Bounds& bounds) noexcept {
  return int64_t(bounds.q_len) * (bounds.q_heads / bounds.kv_heads) <= 16 ? 1 : 4;
}

template <class Attention>
inline constexpr int decode_key_bytes = (Attention::compiled_head_dim +
                                         Attention::compiled_value_dim) *
                                        int(sizeof(typename Attention::kv_type::value_type));

/// Blocks that fit on a multiprocessor by their registers and shared memory; each block costs a kB
/// of the latter besides.
template <class Attention, int RowWarps>
Machine decode_machine(const Device& device) noexcept {
  using C = kernel::DecodeSm80<Attention, RowWarps>;
  const int fit = (device.shared_bytes_per_block + 1024) / (C::shared_bytes + 1024);
  return {device.sm_count, max_of(min_of(fit, C::blocks_per_sm), 1)};
}
/// Dynamic shared memory that leaves room for `resident` blocks a multiprocessor and no more.
template <class Attention, int RowWarps>
int decode_shared_bytes(const Device& device, int resident) noexcept {
  using C = kernel::DecodeSm80<Attention, RowWarps>;
  if (resident == decode_machine<Attention, RowWarps>(device).blocks_per_sm) return C::shared_bytes;
  return ((device.shared_bytes_per_block + 1024) / resident - 1024) / 128 * 128;
}
template <class Attention>
Machine decode_machine(const Bounds& bounds, const Device& device) noexcept {
  return decode_row_warps(bounds) == 1 ? decode_machine<Attention, 1>(device)
                                       : decode_machine<Attention, 4>(device);
}

template <class Attention>
int64_t decode_blocks(const Bounds& bounds, const Device& device) noexcept {
  return DecodeSchedule::blocks(bounds, decode_machine<Attention>(bounds, device),
                                16 * decode_row_warps(bounds), decode_key_bytes<Attention>);
}

template <class Attention>
DecodeSchedule decode_schedule(const Bounds& bounds, const Device& device) noexcept {
  return DecodeSchedule(bounds, decode_machine<Attention>(bounds, device),
                        16 * decode_row_warps(bounds), decode_key_bytes<Attention>,
                        Attention::policy_type::reduction.chunk);
}

}  // namespace detail

/// Bytes of workspace a decode within these bounds needs: a pure function; 0 for bounds that have
/// no rows or are not legal.
template <class Attention>
size_t decode_workspace_bytes(const Bounds& bounds, const Device& device) noexcept {
  if (detail::has_no_rows(bounds) || bounds.kv_heads <= 0 || bounds.q_heads % bounds.kv_heads != 0)
    return 0;
  const DecodeSchedule schedule = detail::decode_schedule<Attention>(bounds, device);
  if (schedule.partials == 0) return 0;
  const int rows = 16 * detail::decode_row_warps(bounds);
  return workspace_header_bytes +
         size_t(DecodeSchedule::row_groups(bounds, rows)) * size_t(schedule.partials) *
             size_t(rows) * size_t(state_floats(Attention::compiled_value_dim)) * sizeof(float);
}

namespace detail {

template <class Attention>
static Status check_decode(const Attention& a, const Device& device) noexcept {
  using Narrow = kernel::DecodeSm80<Attention, 1>;
  using Wide = kernel::DecodeSm80<Attention, 4>;
  Status status = check_attention(a);
  if (!status) return status;
  if (!(status = check_device(device))) return status;
  if (a.bounds.q_len > max_decode_q_len)
    return unsupported() << "bounds.q_len is " << a.bounds.q_len << "; decode takes at most "
                         << max_decode_q_len << " query tokens a sequence, prefill any number";
  if (device.compute_capability < 80)
    return unsupported() << "device.compute_capability is " << device.compute_capability
                         << "; strobe's kernels need 80 (8.0) or newer";
  const int shared_bytes =
      Narrow::shared_bytes > Wide::shared_bytes ? Narrow::shared_bytes : Wide::shared_bytes;
  if (device.shared_bytes_per_block < shared_bytes)
    return unsupported() << "the kernel needs " << shared_bytes
                         << " bytes of shared memory a block but device.shared_bytes_per_block is "
                         << device.shared_bytes_per_block;
  if (varies_by_head<typename Attention::mask_type>(0) && a.bounds.q_heads != a.bounds.kv_heads)
    return unsupported() << "the mask varies by head, but decode packs the "
                         << a.bounds.q_heads / (a.bounds.kv_heads + !a.bounds.kv_heads)
                         << " query heads of a KV head into one block; use prefill";
  if (has_no_rows(a.bounds)) return {};
  const int rows = 16 * decode_row_warps(a.bounds);
  const int64_t blocks = decode_blocks<Attention>(a.bounds, device);
  if (blocks > 0x7fffffff)
    return unsupported() << "bounds need " << blocks
                         << " thread blocks; a launch has at most 2147483647";
  const DecodeSchedule schedule = decode_schedule<Attention>(a.bounds, device);
  const int64_t counters =
      saturating_multiply(DecodeSchedule::row_groups(a.bounds, rows), schedule.counters);
  if (schedule.partials > 0 && counters > int64_t(workspace_header_bytes / 4))
    return unsupported() << "bounds need " << counters << " arrival counters; a workspace has "
                         << uint64_t(workspace_header_bytes / 4)
                         << ": fewer sequences a call, or fewer bounds.kv_splits";
  return {};
}

template <class Attention, int RowWarps>
static Status prepare_decode(const Device& device) noexcept {
  static ReadyDevices ready{0};
  const int fit = decode_machine<Attention, RowWarps>(device).blocks_per_sm;
  return prepare(&kernel::decode_sm80<Attention, RowWarps>,
                 decode_shared_bytes<Attention, RowWarps>(device, fit > 2 ? fit - 1 : fit), device,
                 ready);
}

template <class Attention, int RowWarps>
static Status launch_decode(const Attention& a, const Device& device, const Workspace& workspace,
                            cudaStream_t stream) noexcept {
  using C = kernel::DecodeSm80<Attention, RowWarps>;
  if (const Status status = prepare_decode<Attention, RowWarps>(device); !status) return status;
  auto* const bytes = static_cast<unsigned char*>(workspace.data);
  const kernel::DecodeParams<Attention> params{
      a, decode_schedule<Attention>(a.bounds, device),
      a.scale.given ? a.scale.value : 1.f / std::sqrt(static_cast<float>(a.head_dim)),
      reinterpret_cast<uint32_t*>(bytes),
      reinterpret_cast<float*>(bytes + (bytes != nullptr ? workspace_header_bytes : 0))};
  const int64_t blocks = decode_blocks<Attention>(a.bounds, device);
  const int resident =
      DecodeSchedule::resident_blocks(blocks, decode_machine<Attention, RowWarps>(device));
  return launch(&kernel::decode_sm80<Attention, RowWarps>, int(blocks), C::threads,
                decode_shared_bytes<Attention, RowWarps>(device, resident), stream, params);
}

}  // namespace detail

/// Whether decode(a, ..) would launch; see prefill_supported.
template <class Attention>
static Status decode_supported(const Attention& a, const Device& device) noexcept {
  const Status status = detail::check_decode(a, device);
  if (!status || detail::has_no_rows(a.bounds)) return status;
  return detail::decode_row_warps(a.bounds) == 1 ? detail::prepare_decode<Attention, 1>(device)
                                                 : detail::prepare_decode<Attention, 4>(device);
}

namespace detail {
template <class Attention, int RowWarps>
static KernelChoice describe_decode(const Attention& a, const Device& device) noexcept {
  using C = kernel::DecodeSm80<Attention, RowWarps>;
  const DecodeSchedule schedule = decode_schedule<Attention>(a.bounds, device);
  Sentence sentence(Code::ok);
  sentence << "decode_sm80 (mma.sync), " << C::rows << " packed rows a block, "
           << (C::teams > 1 ? "each warp with " : "all warps sharing ") << C::block_kv
           << "-key tiles" << (C::teams > 1 ? " of its own" : "") << ", keys in up to "
           << schedule.parts << " parts, ";
  return chosen(
      Family::sm80, sentence, C::shared_bytes,
      device.compute_capability == 90 ? "decode has no kernel of its own there" : nullptr);
}
}  // namespace detail

/// The kernel decode(a, ..) would launch.
template <class Attention>
static KernelChoice decode_kernel(const Attention& a, const Device& device) noexcept {
  const Status status = decode_supported(a, device);
  if (!status) return {status, Family::sm80, 0, {}};
  if (detail::has_no_rows(a.bounds)) {
    KernelChoice choice;
    std::memcpy(choice.text, "none: the bounds have no query rows", 36);
    return choice;
  }
  return detail::decode_row_warps(a.bounds) == 1 ? detail::describe_decode<Attention, 1>(a, device)
                                                 : detail::describe_decode<Attention, 4>(a, device);
}

/// The same result as prefill, for q_len up to max_decode_q_len: K and V are read once per KV head
/// (once per 64 packed rows), split over the machine, and the parts folded in key order by the last
/// block to arrive: no float atomics, the same bits every run. Needs decode_workspace_bytes of
/// workspace, its header cleared once by init_workspace. Streams, graphs, errors: see prefill.
template <class Attention>
static Status decode(const Attention& a, const Device& device, const Workspace& workspace,
                     cudaStream_t stream) noexcept {
  Status status = detail::check_decode(a, device);
  if (!status) return status;
  if (!(status = detail::check_workspace(workspace,
                                         decode_workspace_bytes<Attention>(a.bounds, device))))
    return status;
  if (detail::has_no_rows(a.bounds)) return {};
  return detail::decode_row_warps(a.bounds) == 1
             ? detail::launch_decode<Attention, 1>(a, device, workspace, stream)
             : detail::launch_decode<Attention, 4>(a, device, workspace, stream);
}

}  // namespace STROBE_ABI
}  // namespace strobe
