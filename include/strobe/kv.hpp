// SPDX-License-Identifier: MIT
/// @file
/// KV sources: where the K and V rows of a sequence live. Layer: noun, host and device, no kernels.
///
/// A source has `using value_type` and is bound once per thread block to one KV head of one
/// sequence:
///
///     Bound bind(const Sequence& sequence, int kv_head) const;
///     int Bound::page(int i) const;                           // of key i, 0 <= i < kv_len
///     const value_type* Bound::k_row(int i, int page) const;  // of key i, aligned to 16 bytes
///     const value_type* Bound::v_row(int i, int page) const;
///     uint64_t Bound::k_stride_bytes, v_stride_bytes;         // from a row to the next in a run
///     int Bound::run() const;                                 // keys a run, a power of two
///
/// Runs are counted from key 0. `static constexpr bool has_pages` says whether page() means
/// anything. Inside a run, addresses of keys from kv_len on may be worked out too; they are not
/// read. On the host, `Status check(const Bounds&, const Lengths&, bool written) const` looks at
/// its pointers and strides; `written`: by append, so that no two rows may share an address.
///
/// K and V are independent: own base, own strides; V may be a view of K.
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
    static constexpr bool has_pages = false;
    STROBE_HOST_DEVICE int page(int) const { return 0; }
    STROBE_HOST_DEVICE int run() const { return 1 << 30; }
    STROBE_HOST_DEVICE const T* k_row(int i, int) const { return row(k, k_stride_bytes, i); }
    STROBE_HOST_DEVICE const T* v_row(int i, int) const { return row(v, v_stride_bytes, i); }
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
  Status check(const Bounds& bounds, const Lengths& lengths, bool written = false) const noexcept {
    const bool packed = lengths.kv_offsets != nullptr;
    const detail::Extents extents{packed ? 1 : bounds.batch, packed ? 2 : bounds.kv_len,
                                  bounds.kv_heads};
    const Status status = detail::check_view("kv.k", k, extents, written, 16);
    return status.ok() ? detail::check_view("kv.v", v, extents, written, 16) : status;
  }
#endif
};

/// K and V in pages, as serving engines keep them: pools [page, slot, kv_head, dim], `View::batch`
/// being the stride of a page and `View::token` that of a slot. K and V have pools and strides of
/// their own; one interleaved pool is two views of it. Page of key i of sequence b: table[b *
/// table_stride + i / page_size], or, with page_offsets [batch + 1] (CSR), table[page_offsets[b] +
/// i / page_size]. Device memory. Entries past a sequence's last page are never read.
template <class T>
struct Paged {
  using value_type = T;
  View<const T> k;
  View<const T> v;
  const int* table = nullptr;
  int64_t table_stride = 0;           ///< entries a sequence; not looked at with page_offsets
  const int* page_offsets = nullptr;  ///< may be null
  int page_size = 16;                 ///< keys a page: a power of two

  struct Bound {
    const T* k;
    const T* v;
    const int* pages;
    uint64_t k_page_bytes, v_page_bytes, k_stride_bytes, v_stride_bytes;
    int shift;  // of a key to its page
    static constexpr bool has_pages = true;
    STROBE_HOST_DEVICE int page(int i) const { return pages[i >> shift]; }
    STROBE_HOST_DEVICE int run() const { return 1 << shift; }
    STROBE_HOST_DEVICE const T* k_row(int i, int page) const {
      return row(k, k_page_bytes, k_stride_bytes, i, page);
    }
    STROBE_HOST_DEVICE const T* v_row(int i, int page) const {
      return row(v, v_page_bytes, v_stride_bytes, i, page);
    }
    STROBE_HOST_DEVICE const T* row(const T* pool, uint64_t page_bytes, uint64_t stride_bytes,
                                    int i, int page) const {
      const uint32_t slot = uint32_t(i) & ((1u << shift) - 1);
      return reinterpret_cast<const T*>(reinterpret_cast<uintptr_t>(pool) +
                                        uint32_t(page) * page_bytes + slot * stride_bytes);
    }
  };
  STROBE_HOST_DEVICE Bound bind(const Sequence& sequence, int kv_head) const {
    const int64_t first_entry = page_offsets != nullptr ? page_offsets[sequence.kv_batch]
                                                        : sequence.kv_batch * table_stride;
    return {k.row(0, 0, kv_head),          v.row(0, 0, kv_head),
            table + first_entry,           uint64_t(k.batch) * sizeof(T),
            uint64_t(v.batch) * sizeof(T), uint64_t(k.token) * sizeof(T),
            uint64_t(v.token) * sizeof(T), detail::floor_log2(page_size)};
  }

#if !defined(__CUDACC_RTC__)
  Status check(const Bounds& bounds, const Lengths& lengths, bool written = false) const noexcept {
    if (page_size < 1 || (page_size & (page_size - 1)) != 0)
      return detail::invalid() << "kv.page_size is " << page_size << "; it must be a power of two";
    if (lengths.kv_offsets != nullptr)
      return detail::invalid() << "lengths.kv_offsets must be null with a paged source";
    if (table == nullptr) return detail::invalid() << "kv.table is null";
    Status status = detail::check_word_pointer("kv.table", table);
    if (status.ok()) status = detail::check_word_pointer("kv.page_offsets", page_offsets);
    const int64_t pages = bounds.kv_len / page_size + (bounds.kv_len % page_size != 0);
    if (status.ok() && page_offsets == nullptr && bounds.batch > 1 && table_stride < pages)
      return detail::invalid() << "kv.table_stride is " << table_stride << "; bounds.kv_len "
                               << bounds.kv_len << " needs " << pages << " pages of " << page_size;
    const detail::Extents extents{
        2, page_size, bounds.kv_heads};  // how many pages there are is the caller's affair
    if (status.ok()) status = detail::check_view("kv.k", k, extents, written, 16);
    return status.ok() ? detail::check_view("kv.v", v, extents, written, 16) : status;
  }
#endif
};

}  // namespace STROBE_ABI
}  // namespace strobe
