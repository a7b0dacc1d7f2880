// SPDX-License-Identifier: MIT
/// @file
/// Merge: attention over all keys from attention over parts of them. Layer: host entry. For chunked
/// prefill, shared prefixes (attend the prefix once, merge with each suffix), context parallelism.
#pragma once

#include "detail/check.hpp"
#include "detail/launch.cuh"
#include "device.cuh"
#include "kernel/merge.cuh"

namespace strobe {
inline namespace STROBE_ABI {

/// `parts` results of the same queries over disjoint sets of keys. Part i's O is at o.data + i *
/// o_part, its LSE (natural logarithm, -infinity where it saw no key) at lse.data + i * lse_part.
/// In, Out: float, `__half` or `__nv_bfloat16`.
template <class In, class Out = In>
struct Merge {
  static_assert(detail::is_element<In> || detail::is_same<In, float>,
                "Merge: In, the type of the parts, is float, __half or __nv_bfloat16");
  static_assert(detail::is_element<Out> || detail::is_same<Out, float>,
                "Merge: Out, the type of merged_o, is float, __half or __nv_bfloat16");

  View<const In> o;       ///< [batch, tokens, heads, value_dim] of part 0
  int64_t o_part = 0;     ///< elements from part to part
  View<const float> lse;  ///< [batch, tokens, heads] of part 0
  int64_t lse_part = 0;
  View<Out> merged_o;      ///< may be part 0 itself if Out is In
  View<float> merged_lse;  ///< data may be null; may be part 0 itself
  int parts = 0;
  int batch = 0;
  int tokens = 0;
  int heads = 0;
  int value_dim = 0;  ///< a multiple of 8
};

namespace detail {

template <class In, class Out>
bool has_no_rows(const Merge<In, Out>& m) noexcept {
  return m.batch == 0 || m.tokens == 0 || m.heads == 0;
}

template <class In, class Out>
Status check_merge(const Merge<In, Out>& m, const Device& device) noexcept {
  Status s;
  if (!(s = check_length("parts", m.parts))) return s;
  if (!(s = check_length("batch", m.batch))) return s;
  if (!(s = check_length("tokens", m.tokens))) return s;
  if (!(s = check_length("heads", m.heads))) return s;
  if (m.value_dim < 8 || m.value_dim % 8 != 0)
    return invalid() << "value_dim is " << m.value_dim << "; it must be a positive multiple of 8";
  if (!(s = check_device(device))) return s;
  if (has_no_rows(m)) return {};
  const Extents extents{m.batch, m.tokens, m.heads};
  if (m.parts > 0) {
    if (!(s = check_view("o", m.o, extents, false, 16))) return s;
    if (!(s = check_view("lse", m.lse, extents, false, 4))) return s;
    if (m.parts > 1 && m.o_part % int64_t(16 / sizeof(In)) != 0)
      return invalid() << "o_part is " << m.o_part << "; it must be a multiple of "
                       << unsigned(16 / sizeof(In)) << " elements (16 bytes)";
  }
  if (!(s = check_view("merged_o", m.merged_o, extents, true, 16))) return s;
  if (m.merged_lse.data != nullptr &&
      !(s = check_view("merged_lse", m.merged_lse, extents, true, 4)))
    return s;
  if (double(m.batch) * m.tokens * m.heads > 8e9)
    return unsupported() << "batch * tokens * heads is more than 8000000000 rows";
  return {};
}

template <class In, class Out>
static Status prepare_merge(const Device& device) noexcept {
  static ReadyDevices ready{0};
  return prepare(&kernel::merge_rows<Merge<In, Out>>, 0, device, ready);
}

}  // namespace detail

/// Whether merge(m, ..) would launch; see prefill_supported. There is one merge kernel, for every
/// device.
template <class In, class Out>
static Status merge_supported(const Merge<In, Out>& m, const Device& device) noexcept {
  const Status status = detail::check_merge(m, device);
  return status.ok() && !detail::has_no_rows(m) ? detail::prepare_merge<In, Out>(device) : status;
}

/// Merges on `stream`: merged O = sum of exp(LSE_i - merged LSE) O_i, merged LSE = log of the sum
/// of exp(LSE_i). Associative within rounding; parts that saw no key change nothing, whatever their
/// O holds; a row none of whose parts saw a key gives 0 and -infinity. Asynchronous, capturable,
/// allocates nothing. Errors: invalid (names the field), unsupported, launch_failed.
template <class In, class Out>
static Status merge(const Merge<In, Out>& m, const Device& device, cudaStream_t stream) noexcept {
  const Status status = merge_supported(m, device);
  if (!status || detail::has_no_rows(m)) return status;
  const int64_t rows = int64_t(m.batch) * m.tokens * m.heads,
                rows_a_block = kernel::merge_threads / 32;
  return detail::launch(&kernel::merge_rows<Merge<In, Out>>,
                        int((rows + rows_a_block - 1) / rows_a_block), kernel::merge_threads, 0,
                        stream, m);
}

}  // namespace STROBE_ABI
}  // namespace strobe
