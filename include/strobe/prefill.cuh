// SPDX-License-Identifier: MIT
/// @file
/// Prefill: attention of many query rows a sequence. Layer: host entry; checks, chooses the kernel,
/// launches it. On 9.0 that is kernel/prefill_sm90a.cuh where it is built and can do what is asked
/// for, everywhere else kernel/prefill_sm80.cuh.
#pragma once

#include <cmath>

#include "attention.hpp"
#include "detail/check.hpp"
#include "detail/launch.cuh"
#include "detail/sm90a.cuh"
#include "detail/tensor_map.cuh"
#include "device.cuh"
#include "kernel/prefill_sm80.cuh"
#include "kernel/prefill_sm90a.cuh"

namespace strobe {
inline namespace STROBE_ABI {

/// Bytes of workspace a prefill within these bounds makes use of: a pure function. On 9.0 the
/// header alone, whose counter lets multiprocessors take query tiles as they become free; elsewhere
/// nothing. Workspace{} is legal too and costs some per cent under uneven masks: each
/// multiprocessor then has its share from the start. The results are the same, bit for bit.
template <class Attention>
constexpr size_t prefill_workspace_bytes(const Bounds&, const Device& device) noexcept {
  return kernel::PrefillSm90a<Attention>::exists && device.compute_capability == 90
             ? workspace_header_bytes
             : 0;
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
static Status prepare_prefill_sm80(const Device& device) noexcept {
  static ReadyDevices ready{0};
  return prepare(&kernel::prefill_sm80<Attention>, kernel::PrefillSm80<Attention>::shared_bytes,
                 device, ready);
}

/// The maps of one tensor, in boxes of `rows`, 8 and 1. False where TMA cannot describe it.
template <class T>
static bool encode_tile_maps(tile::TileMaps& maps, const View<T>& view, int dim, int tokens,
                             int heads, int batch, int rows) noexcept {
  maps.tokens = tokens;
  // A stride whose extent is 1 is not looked at, and may be anything.
  const auto stride_bytes = [](int64_t stride, int64_t extent) {
    return extent > 1 ? uint64_t(stride) * sizeof(T) : uint64_t(16);
  };
  TensorMapShape shape{view.data,
                       4,
                       {uint64_t(dim), uint64_t(tokens), uint64_t(heads), uint64_t(batch)},
                       {stride_bytes(view.token, tokens), stride_bytes(view.head, heads),
                        stride_bytes(view.batch, batch)},
                       {64, uint32_t(rows), 1, 1, 1}};
  bool described = true;
  for (ptx::TensorMap* map : {&maps.whole, &maps.eight, &maps.one}) {
    described = described && encode_tensor_map(*map, shape).ok();
    shape.box[1] = map == &maps.whole ? 8 : 1;
  }
  return described;
}

template <class Attention>
static float scale_of(const Attention& a) noexcept {
  return a.scale.given ? a.scale.value : 1.f / std::sqrt(static_cast<float>(a.head_dim));
}

/// Whether every query tile of a call has about as much to do.
template <class Attention>
static bool has_even_tiles(const Attention& a) noexcept {
  return detail::is_same<typename Attention::mask_type, Full> && a.lengths.q_lens == nullptr &&
         a.lengths.kv_lens == nullptr && a.lengths.q_offsets == nullptr &&
         a.lengths.kv_offsets == nullptr;
}

/// How long a launch takes, in pairs of a row and a key that a multiprocessor multiplies: turns of
/// the machine, times what it has at a time. Uneven tiles are taken for a causal mask's, which end
/// with their rows but are walked whole.
template <class C>
static double prefill_cost(const Bounds& bounds, int sm_count, bool even) noexcept {
  const double tiles = double(PersistentSchedule::tiles_of(bounds, C::block_q));
  const int at_once = tiles > sm_count ? C::tile_shape.blocks_per_sm : 1;
  const double slots = double(sm_count) * at_once, turns = tiles / slots;
  const double keys = even ? bounds.kv_len : double(bounds.kv_len) + C::block_q + C::block_kv;
  // One consumer alone leaves the tensor cores idle under its softmax: 0.55 of the rate of three,
  // two such blocks 0.83 (D 64, H200, docs/tuning.md).
  const double rate = C::consumers > 1 ? 1 : at_once > 1 ? 0.83 : 0.55;
  double time = even || turns < 1 ? std::ceil(turns) : turns;
  if (even && turns > 1) {
    // By the same rates a head's last tile takes 0.4 of a whole one's time and the rest by how many
    // of its consumers have rows. Such tiles fill gaps: half a turn lost at the end is a guess that
    // chose right in the shapes measured (docs/tuning.md).
    const int last_rows = bounds.q_len % C::block_q, with_rows = ceil_div(last_rows, 64);
    const double missing = last_rows > 0 ? 0.6 * (C::consumers - with_rows) / C::consumers : 0,
                 q_tiles = ceil_div(bounds.q_len, C::block_q);
    if (missing > 0) time = std::fmin(time, turns * (1 - missing / q_tiles) + 0.5);
  }
  return time * keys * C::block_q * at_once / rate;
}

/// The kernel of a call, ready to be launched.
template <class Attention>
struct PrefillPlan {
  Status status;
  Family family = Family::sm80;
  const char* why_portable = nullptr;  ///< on 9.0
  kernel::PrefillSm90aParams<Attention> params;

  explicit PrefillPlan(const Attention& a) noexcept
      : params{{}, {}, {}, a, {}, nullptr, scale_of(a)} {}
};

/// Fills in the 9.0 kernel's parameters and returns null, or says why it does not run this call.
template <Family Size, class Attention>
static const char* plan_prefill_sm90a(PrefillPlan<Attention>& plan, const Attention& a,
                                      const Device& device) noexcept {
  using C = kernel::PrefillSm90a<Attention, Size>;
  const Bounds& bounds = a.bounds;
  kernel::PrefillSm90aParams<Attention>& params = plan.params;
  if (device.shared_bytes_per_block < C::shared_bytes)
    return "device.shared_bytes_per_block is too small for its kernel";
  if (!has_sm90a_code(device)) return "this file was not compiled for 90a";
  if (bounds.kv_len == 0) return "there are no keys";
  if (PersistentSchedule::tiles_of(bounds, C::block_q) > 0x7fffffff)
    return "there are too many query tiles";
  // How many tokens a packed tensor has is known to the device alone, so its maps promise as many
  // as an int counts, and the kernel never asks for one that is not there.
  constexpr int unknown = 0x7fffffff;
  const bool q_packed = a.lengths.q_offsets != nullptr, kv_packed = a.lengths.kv_offsets != nullptr;
  const int q_tokens = q_packed ? unknown : bounds.q_len, q_batch = q_packed ? 1 : bounds.batch,
            kv_tokens = kv_packed ? unknown : bounds.kv_len,
            kv_batch = kv_packed ? 1 : bounds.batch;
  if (!encode_tile_maps(params.q, a.q, a.head_dim, q_tokens, bounds.q_heads, q_batch, C::block_q))
    return "TMA cannot describe q";
  if (!encode_tile_maps(params.k, a.kv.k, a.head_dim, kv_tokens, bounds.kv_heads, kv_batch,
                        C::block_kv))
    return "TMA cannot describe kv.k";
  if (!encode_tile_maps(params.v, a.kv.v, a.value_dim, kv_tokens, bounds.kv_heads, kv_batch,
                        C::block_kv))
    return "TMA cannot describe kv.v";
  params.schedule =
      PersistentSchedule(bounds, C::block_q, 2 * (a.head_dim + a.value_dim),
                         device.sm_count * C::tile_shape.blocks_per_sm, has_even_tiles(a));
  static ReadyDevices ready{0};
  plan.status = prepare(&kernel::prefill_sm90a<Attention, Size>, C::shared_bytes, device, ready);
  plan.family = Size;
  return nullptr;
}

/// Chooses after check_prefill; never for calls without rows.
template <class Attention>
static void plan_prefill(PrefillPlan<Attention>& plan, const Attention& a,
                         const Device& device) noexcept {
  if (device.compute_capability == 90) {
    using Large = kernel::PrefillSm90a<Attention, Family::sm90a>;
    using Small = kernel::PrefillSm90a<Attention, Family::sm90a_small>;
    if constexpr (!Large::exists) {
      plan.why_portable = "its kernel has no paged K and V, no Reduction::fixed, no split_p";
    } else {
      const bool even = has_even_tiles(a);
      if constexpr (Small::exists) {
        if (prefill_cost<Small>(a.bounds, device.sm_count, even) <
            prefill_cost<Large>(a.bounds, device.sm_count, even))
          plan.why_portable = plan_prefill_sm90a<Family::sm90a_small>(plan, a, device);
      }
      if (plan.family == Family::sm80)
        plan.why_portable = plan_prefill_sm90a<Family::sm90a>(plan, a, device);
    }
    if (plan.family != Family::sm80) return;
  }
  plan.status = prepare_prefill_sm80<Attention>(device);
}

template <Family Size, class Attention>
static Status launch_prefill_sm90a(PrefillPlan<Attention>& plan, const Device& device,
                                   const Workspace& workspace, cudaStream_t stream) noexcept {
  using C = kernel::PrefillSm90a<Attention, Size>;
  plan.params.counter = static_cast<uint32_t*>(workspace.data);
  const int blocks =
      min_of(plan.params.schedule.tiles(), device.sm_count * C::tile_shape.blocks_per_sm);
  return launch(&kernel::prefill_sm90a<Attention, Size>, blocks, C::threads, C::shared_bytes,
                stream, plan.params);
}

template <Family Size, class Attention>
static KernelChoice describe_prefill_sm90a() noexcept {
  using C = kernel::PrefillSm90a<Attention, Size>;
  Sentence sentence(Code::ok);
  sentence << "prefill_sm90a (wgmma, TMA), " << C::block_q << " x " << C::block_kv << " tiles, "
           << C::consumers
           << (C::consumers == 1 ? " consumer warpgroup, " : " consumer warpgroups, ")
           << C::q_buffers << " of Q, " << C::k_stages << " of K and " << C::v_stages
           << " of V in shared memory, " << C::tile_shape.blocks_per_sm << " a multiprocessor, ";
  return chosen(Size, sentence, C::shared_bytes, nullptr);
}

}  // namespace detail

/// Whether prefill(a, ..) would launch: every check, nothing launched, device memory untouched. The
/// pointers of `a` are looked at (null, alignment), never followed.
template <class Attention>
static Status prefill_supported(const Attention& a, const Device& device) noexcept {
  const Status status = detail::check_prefill(a, device);
  if (!status) return status;
  if (detail::has_no_rows(a.bounds)) return detail::prepare_prefill_sm80<Attention>(device);
  detail::PrefillPlan<Attention> plan(a);
  detail::plan_prefill(plan, a, device);
  return plan.status;
}

/// The kernel prefill(a, ..) would launch.
template <class Attention>
static KernelChoice prefill_kernel(const Attention& a, const Device& device) noexcept {
  using C = kernel::PrefillSm80<Attention>;
  const Status status = detail::check_prefill(a, device);
  if (!status) return {status, Family::sm80, 0, {}};
  detail::PrefillPlan<Attention> plan(a);
  if (!detail::has_no_rows(a.bounds)) detail::plan_prefill(plan, a, device);
  if (!plan.status) return {plan.status, Family::sm80, 0, {}};
  if (plan.family == Family::sm90a)
    return detail::describe_prefill_sm90a<Family::sm90a, Attention>();
  if (plan.family == Family::sm90a_small)
    return detail::describe_prefill_sm90a<Family::sm90a_small, Attention>();
  detail::Sentence sentence(Code::ok);
  sentence << "prefill_sm80 (mma.sync), " << C::block_q << " x " << C::block_kv << " tiles, "
           << C::tile.warps << " warps, ";
  return detail::chosen(Family::sm80, sentence, C::shared_bytes, plan.why_portable);
}

/// O = attention of every query row, and LSE where a.lse.data is not null. See Attention for
/// shapes, Lengths for what is read on the device. Asynchronous on `stream`, allocates nothing,
/// synchronises nothing, capturable in a CUDA graph; the launch depends on a.bounds, `device` and
/// the tensors' addresses and strides alone. Rows past a sequence's q_len are not written.
/// `workspace`: of prefill_workspace_bytes and initialised (init_workspace), or Workspace{}.
/// `device` must be the current one; on 9.0 a smaller sm_count than its own leaves multiprocessors
/// to other work and changes no bit. Errors: invalid (names the field), unsupported (no kernel for
/// it), launch_failed (CUDA's error; it is not left pending).
template <class Attention>
static Status prefill(const Attention& a, const Device& device, const Workspace& workspace,
                      cudaStream_t stream) noexcept {
  Status status = detail::check_prefill(a, device);
  if (!status) return status;
  const bool none_given = workspace.data == nullptr && workspace.bytes == 0;
  if (!(status = detail::check_workspace(
            workspace, none_given ? 0 : prefill_workspace_bytes<Attention>(a.bounds, device))))
    return status;
  if (detail::has_no_rows(a.bounds)) return {};
  detail::PrefillPlan<Attention> plan(a);
  detail::plan_prefill(plan, a, device);
  if (!plan.status) return plan.status;
  if constexpr (kernel::PrefillSm90a<Attention>::exists) {
    if (plan.family == Family::sm90a)
      return detail::launch_prefill_sm90a<Family::sm90a>(plan, device, workspace, stream);
  }
  if constexpr (kernel::PrefillSm90a<Attention, Family::sm90a_small>::exists) {
    if (plan.family == Family::sm90a_small)
      return detail::launch_prefill_sm90a<Family::sm90a_small>(plan, device, workspace, stream);
  }
  using C = kernel::PrefillSm80<Attention>;
  const kernel::PrefillParams<Attention> params{a, PrefillSchedule(a.bounds, C::block_q),
                                                detail::scale_of(a)};
  return detail::launch(&kernel::prefill_sm80<Attention>,
                        int(PrefillSchedule::blocks(a.bounds, C::block_q)), C::threads,
                        C::shared_bytes, stream, params);
}

}  // namespace STROBE_ABI
}  // namespace strobe
