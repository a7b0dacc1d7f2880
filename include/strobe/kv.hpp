// SPDX-License-Identifier: MIT
// KV sources: where the K and V rows of a sequence live. Layer: noun, host and device, no kernels.
//
// A source has `using value_type` and is bound once per thread block to one KV head of one
// sequence:
//
//   Bound bind(const Sequence& sequence, int kv_head) const;
//   const value_type* Bound::k_row(int i) const;   // row of key i, 0 <= i < kv_len, 16-byte
//   aligned const value_type* Bound::v_row(int i) const;
//
// and, on the host, `Status check(const Bounds&, const Lengths&) const` looks at its pointers and
// strides.
//
// K and V are independent: own base, own strides; V may be a view of K.
#pragma once

#include "types.hpp"
#if !defined(__CUDACC_RTC__)
#include "detail/check_view.hpp"
#endif

namespace strobe {
inline namespace STROBE_ABI {

/// K and V as strided tensors [batch, token, kv_head, dim], or packed by Lengths::kv_offsets.
template <class T>
struct Strided {
  using value_type = T;
  View<const T> k;
  View<const T> v;

  /// Byte strides and an unsigned row keep a row's address at two instructions.
  struct Bound {
    const T* k;
    const T* v;
    uint64_t k_stride_bytes, v_stride_bytes;
    STROBE_HOST_DEVICE const T* k_row(int i) const { return row(k, k_stride_bytes, i); }
    STROBE_HOST_DEVICE const T* v_row(int i) const { return row(v, v_stride_bytes, i); }
    STROBE_HOST_DEVICE static const T* row(const T* base, uint64_t stride_bytes, int i) {
      return reinterpret_cast<const T*>(reinterpret_cast<uintptr_t>(base) +
                                        uint32_t(i) * stride_bytes);
    }
  };
  STROBE_HOST_DEVICE Bound bind(const Sequence& sequence, int kv_head) const {
    return {k.row(sequence.kv_batch, sequence.kv_begin, kv_head),
            v.row(sequence.kv_batch, sequence.kv_begin, kv_head), uint64_t(k.token) * sizeof(T),
            uint64_t(v.token) * sizeof(T)};
  }

#if !defined(__CUDACC_RTC__)
  Status check(const Bounds& bounds, const Lengths& lengths) const noexcept {
    const bool packed = lengths.kv_offsets != nullptr;
    const detail::Extents extents{packed ? 1 : bounds.batch, packed ? 2 : bounds.kv_len,
                                  bounds.kv_heads};
    const Status status = detail::check_view("kv.k", k, extents, false, 16);
    return status.ok() ? detail::check_view("kv.v", v, extents, false, 16) : status;
  }
#endif
};

}  // namespace STROBE_ABI
}  // namespace strobe
