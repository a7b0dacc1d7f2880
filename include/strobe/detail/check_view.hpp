// SPDX-License-Identifier: MIT
// The check of one tensor's base, strides and alignment. Layer: detail, host only.
#pragma once

#include "../types.hpp"

namespace strobe {
inline namespace STROBE_ABI {
namespace detail {

/// A pointer to int or float in device memory; null is another check's business.
inline Status check_word_pointer(const char* name, const void* pointer) noexcept {
  if (reinterpret_cast<uintptr_t>(pointer) % 4 != 0)
    return invalid() << name << " is " << pointer << "; it must be aligned to 4 bytes";
  return {};
}

struct Extents {
  int64_t batch, token, head;
};

/// base, strides and alignment of one tensor; strides of extents 1 and 0 are not looked at.
template <class T>
Status check_view(const char* name, const View<T>& view, Extents extents, bool written,
                  unsigned alignment_bytes) noexcept {
  if (view.data == nullptr) return invalid() << name << ".data is null";
  if (reinterpret_cast<uintptr_t>(view.data) % alignment_bytes != 0)
    return invalid() << name << ".data is " << static_cast<const void*>(view.data)
                     << "; it must be aligned to " << alignment_bytes << " bytes";
  const char* const names[3] = {".batch", ".token", ".head"};
  const int64_t strides[3] = {view.batch, view.token, view.head};
  const int64_t sizes[3] = {extents.batch, extents.token, extents.head};
  const int64_t unit = int64_t(alignment_bytes / sizeof(T));
  for (int i = 0; i < 3; ++i) {
    if (sizes[i] <= 1) continue;
    if (strides[i] % unit != 0)
      return invalid() << name << names[i] << " is " << strides[i] << "; it must be a multiple of "
                       << unit << " elements (" << alignment_bytes << " bytes)";
    if (written && strides[i] == 0)
      return invalid() << name << names[i] << " is 0 but its extent is " << sizes[i]
                       << ": rows would overwrite each other";
  }
  return {};
}

}  // namespace detail
}  // namespace STROBE_ABI
}  // namespace strobe
