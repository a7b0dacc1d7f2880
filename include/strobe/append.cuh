// SPDX-License-Identifier: MIT
/// @file
/// Append: new K and V rows into a strided or paged cache, optionally with rotary embedding of K
/// and Q. Layer: host entry.
#pragma once

#include "attention.hpp"
#include "detail/check.hpp"
#include "detail/launch.cuh"
#include "device.cuh"
#include "kernel/append.cuh"

namespace strobe {
inline namespace STROBE_ABI {

/// Rotary embedding from tables. dim: leading elements of a row that are rotated, a multiple of 16,
/// 0 for none. cos, sin: device memory, fp32, [positions, dim / 2], rows `stride` floats apart.
/// NeoX pairs element i with i + dim / 2, interleaved 2i with 2i + 1.
struct Rotary {
  const float* cos = nullptr;
  const float* sin = nullptr;
  int64_t stride = 0;
  int dim = 0;
  bool interleaved = false;
};

/// The new tokens of each sequence are its last ones: with the same bounds and lengths as the
/// attention that follows (kv_lens counts them already), row i stands at position i + kv_len -
/// q_len, and its K and V rows go there.
template <class T, class Kv = Strided<T>>
struct Append {
  static_assert(detail::is_element<T>,
                "Append: T, the type of the rows, is __half or __nv_bfloat16");
  static_assert(detail::has_value_type<Kv>,
                "Append: Kv is a KV source, such as Strided<T> or Paged<T> (kv.hpp)");
  static_assert(detail::holds<Kv, T>, "Append: the cache has the element type of the rows");

  using element_type = T;
  View<const T> k;  ///< [batch, q_len, kv_heads, head_dim], new rows, before rotation
  View<const T> v;  ///< [batch, q_len, kv_heads, value_dim]
  Kv kv;            ///< the cache, as attention reads it; written here
  View<T> q;        ///< [batch, q_len, q_heads, head_dim], rotated in place; data may be null
  Rotary rotary;
  Bounds bounds;
  Lengths lengths;
  int head_dim = 0;
  int value_dim = 0;
};

namespace detail {

inline bool has_nothing_to_append(const Bounds& bounds) noexcept {
  return bounds.batch == 0 || bounds.q_len == 0 || bounds.kv_len == 0;
}

template <class T, class Kv>
Status check_append(const Append<T, Kv>& a, const Device& device) noexcept {
  const Bounds& bounds = a.bounds;
  Status s;
  if (!(s = check_bounds(bounds))) return s;
  if (!(s = check_dim("head_dim", a.head_dim, 0x7fffffff, ""))) return s;  // of any size
  if (!(s = check_dim("value_dim", a.value_dim, 0x7fffffff, ""))) return s;
  if (a.rotary.dim < 0 || a.rotary.dim % 16 != 0 || a.rotary.dim > a.head_dim)
    return invalid() << "rotary.dim is " << a.rotary.dim
                     << "; it must be a multiple of 16 from 0 to head_dim, " << a.head_dim;
  if (a.rotary.dim > 0) {
    if (a.rotary.cos == nullptr) return invalid() << "rotary.cos is null";
    if (a.rotary.sin == nullptr) return invalid() << "rotary.sin is null";
    if (!(s = check_word_pointer("rotary.cos", a.rotary.cos))) return s;
    if (!(s = check_word_pointer("rotary.sin", a.rotary.sin))) return s;
    if (a.rotary.stride < a.rotary.dim / 2)
      return invalid() << "rotary.stride is " << a.rotary.stride << "; a row has "
                       << a.rotary.dim / 2 << " floats";
  }
  if (!(s = check_device(device))) return s;
  if (has_nothing_to_append(bounds)) return {};
  if (!(s = check_lengths(a.lengths))) return s;
  const Extents rows = query_extents(bounds, a.lengths, bounds.kv_heads);
  if (bounds.kv_heads > 0) {
    if (!(s = check_view("k", a.k, rows, false, 16))) return s;
    if (!(s = check_view("v", a.v, rows, false, 16))) return s;
    if (!(s = a.kv.check(bounds, a.lengths, /*written=*/true))) return s;
  }
  if (a.q.data != nullptr &&
      !(s = check_view("q", a.q, query_extents(bounds, a.lengths, bounds.q_heads), true, 16)))
    return s;
  const int64_t blocks = int64_t(bounds.batch) * bounds.q_len;
  if (blocks > 0x7fffffff)
    return unsupported() << "bounds.batch * bounds.q_len is " << blocks << "; at most 2147483647";
  const double chunks = (double(bounds.kv_heads) * (double(a.head_dim) + a.value_dim) +
                         double(bounds.q_heads) * a.head_dim) /
                        8;
  if (chunks > 1e9)
    return unsupported() << "bounds and dims need more than 8000000000 elements a token";
  return {};
}

template <class T, class Kv>
static Status prepare_append(const Device& device) noexcept {
  static ReadyDevices ready{0};
  return prepare(&kernel::append_rows<Append<T, Kv>>, 0, device, ready);
}

}  // namespace detail

/// Whether append(a, ..) would launch; see prefill_supported. There is one append kernel, for every
/// device.
template <class T, class Kv>
static Status append_supported(const Append<T, Kv>& a, const Device& device) noexcept {
  const Status status = detail::check_append(a, device);
  return status.ok() && !detail::has_nothing_to_append(a.bounds)
             ? detail::prepare_append<T, Kv>(device)
             : status;
}

/// Appends on `stream`. Asynchronous, capturable, allocates nothing; positions are read on the
/// device. New rows must not overlap the cache. A row whose position is below 0 is dropped. Errors:
/// invalid, unsupported, launch_failed.
template <class T, class Kv>
static Status append(const Append<T, Kv>& a, const Device& device, cudaStream_t stream) noexcept {
  const Status status = append_supported(a, device);
  if (!status || detail::has_nothing_to_append(a.bounds)) return status;
  return detail::launch(&kernel::append_rows<Append<T, Kv>>, a.bounds.batch * a.bounds.q_len,
                        kernel::append_threads, 0, stream, a);
}

}  // namespace STROBE_ABI
}  // namespace strobe
