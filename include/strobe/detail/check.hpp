// SPDX-License-Identifier: MIT
// The checks every attention entry makes before anything is launched. Layer: detail, host only;
// looks at arguments alone, never at device memory. Each sentence names the field and the value.
#pragma once

#include "../attention.hpp"
#include "check_view.hpp"
#include "math.hpp"

namespace strobe {
inline namespace STROBE_ABI {
namespace detail {

inline constexpr int max_length = 1 << 30;  // positions q + kv_len - q_len stay within int

inline Status check_length(const char* name, int value) noexcept {
  if (value < 0) return invalid() << name << " is " << value << "; it must be >= 0";
  if (value > max_length)
    return invalid() << name << " is " << value << "; it must be <= " << max_length;
  return {};
}

inline Status check_dim(const char* name, int value, int compiled,
                        const char* compiled_name) noexcept {
  if (value < 8 || value % 8 != 0)
    return invalid() << name << " is " << value << "; it must be a positive multiple of 8";
  if (value > compiled)
    return invalid() << name << " is " << value << "; this instance was compiled for "
                     << compiled_name << " = " << compiled;
  return {};
}

inline Status check_workspace(const Workspace& workspace, size_t needed) noexcept {
  if (workspace.data == nullptr && workspace.bytes != 0)
    return invalid() << "workspace.data is null but workspace.bytes is "
                     << uint64_t(workspace.bytes);
  if (reinterpret_cast<uintptr_t>(workspace.data) % 256 != 0)
    return invalid() << "workspace.data is " << static_cast<const void*>(workspace.data)
                     << "; it must be aligned to 256 bytes";
  if (workspace.bytes < needed)
    return invalid() << "workspace.bytes is " << uint64_t(workspace.bytes) << "; this call needs "
                     << uint64_t(needed);
  return {};
}

inline Status check_device(const Device& device) noexcept {
  if (device.ordinal < 0)
    return invalid() << "device.ordinal is " << device.ordinal << "; it must be >= 0";
  if (device.compute_capability <= 0 || device.sm_count <= 0 || device.shared_bytes_per_block <= 0)
    return invalid() << "device is not filled in (compute_capability " << device.compute_capability
                     << ", sm_count " << device.sm_count << ", shared_bytes_per_block "
                     << device.shared_bytes_per_block << "); take it from strobe::current_device";
  return {};
}

/// No query rows at all: nothing is launched, and no pointer is looked at.
inline bool has_no_rows(const Bounds& bounds) noexcept {
  return bounds.batch == 0 || bounds.q_len == 0 || bounds.q_heads == 0;
}

inline Status check_bounds(const Bounds& bounds) noexcept {
  Status s;
  if (!(s = check_length("bounds.batch", bounds.batch))) return s;
  if (!(s = check_length("bounds.q_len", bounds.q_len))) return s;
  if (!(s = check_length("bounds.kv_len", bounds.kv_len))) return s;
  if (!(s = check_length("bounds.q_heads", bounds.q_heads))) return s;
  if (!(s = check_length("bounds.kv_heads", bounds.kv_heads))) return s;
  return check_length("bounds.kv_splits", bounds.kv_splits);
}

inline Status check_lengths(const Lengths& lengths) noexcept {
  Status s;
  if (!(s = check_word_pointer("lengths.q_offsets", lengths.q_offsets))) return s;
  if (!(s = check_word_pointer("lengths.q_lens", lengths.q_lens))) return s;
  if (!(s = check_word_pointer("lengths.kv_offsets", lengths.kv_offsets))) return s;
  return check_word_pointer("lengths.kv_lens", lengths.kv_lens);
}

/// Extents of Q, O and LSE. Packed tokens have no batch stride, and count as more than one.
inline Extents query_extents(const Bounds& bounds, const Lengths& lengths, int heads) noexcept {
  const bool packed = lengths.q_offsets != nullptr;
  return {packed ? 1 : bounds.batch, packed ? 2 : bounds.q_len, heads};
}

/// Everything about `a` that can be wrong, whatever the kernel.
template <class Attention>
Status check_attention(const Attention& a) noexcept {
  const Bounds& bounds = a.bounds;
  Status s;
  if (!(s = check_bounds(bounds))) return s;
  if (!(s = check_dim("head_dim", a.head_dim, Attention::compiled_head_dim, "HeadDim"))) return s;
  if (!(s = check_dim("value_dim", a.value_dim, Attention::compiled_value_dim, "ValueDim")))
    return s;
  if (has_no_rows(bounds)) return {};
  if (bounds.kv_heads == 0)
    return invalid() << "bounds.kv_heads is 0 but bounds.q_heads is " << bounds.q_heads;
  if (bounds.q_heads % bounds.kv_heads != 0)
    return invalid() << "bounds.q_heads is " << bounds.q_heads
                     << "; it must be a multiple of bounds.kv_heads, " << bounds.kv_heads;
  if (a.scale.given && !is_finite(a.scale.value))
    return invalid() << "scale is " << a.scale.value << "; it must be finite";
  if (!(s = check_lengths(a.lengths))) return s;

  const Extents q = query_extents(bounds, a.lengths, bounds.q_heads);
  if (!(s = check_view("q", a.q, q, false, 16))) return s;
  if (!(s = check_view("o", a.o, q, true, 16))) return s;
  if (a.lse.data != nullptr && !(s = check_view("lse", a.lse, q, true, 4))) return s;
  if (bounds.kv_len > 0 && !(s = a.kv.check(bounds, a.lengths))) return s;
  if (!(s = check_noun(a.mask, bounds, 0))) return s;
  return check_noun(a.score, bounds, 0);
}

}  // namespace detail
}  // namespace STROBE_ABI
}  // namespace strobe
