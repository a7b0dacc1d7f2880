// SPDX-License-Identifier: MIT
/// @file
/// Status: what every host entry returns. A code to branch on, the CUDA error behind it, and one
/// sentence that names the field at fault and its value. Layer: noun, host only. Allocates nothing,
/// throws nothing, prints nothing.
#pragma once

#include <driver_types.h>

#include <cstdint>
#include <cstdio>

#include "detail/config.hpp"

namespace strobe {
inline namespace STROBE_ABI {

/// What became of a call.
enum class Code {
  ok,
  invalid,        ///< the call is wrong: a field has a value that no kernel could accept
  unsupported,    ///< the call is right, but this build or this device has no kernel for it
  launch_failed,  ///< CUDA refused the launch or a query; `cuda` says why
};

/// The result of a host call. `text` is empty when ok, otherwise one English sentence, always
/// terminated.
struct [[nodiscard]] Status {
  static constexpr int capacity = 248;

  Code code = Code::ok;
  cudaError_t cuda = cudaSuccess;
  char text[capacity] = {};

  constexpr bool ok() const noexcept { return code == Code::ok; }
  constexpr explicit operator bool() const noexcept { return ok(); }
};

namespace detail {

/// Builds a Status sentence piece by piece in its fixed buffer; what does not fit is cut, never
/// lost silently: the last three characters become "...".
class Sentence {
 public:
  explicit Sentence(Code code, cudaError_t cuda = cudaSuccess) noexcept {
    status_.code = code;
    status_.cuda = cuda;
  }
  Sentence& operator<<(const char* piece) noexcept {
    for (; *piece != '\0'; ++piece) put(*piece);
    return *this;
  }
  Sentence& operator<<(char c) noexcept {
    put(c);
    return *this;
  }
  Sentence& operator<<(int64_t value) noexcept {
    if (value < 0) put('-');
    return digits(value < 0 ? ~uint64_t(value) + 1 : uint64_t(value));
  }
  Sentence& operator<<(uint64_t value) noexcept { return digits(value); }
  Sentence& operator<<(int value) noexcept { return *this << int64_t(value); }
  Sentence& operator<<(unsigned value) noexcept { return *this << uint64_t(value); }
  /// Enough digits to tell any two floats apart; inf and nan by name.
  Sentence& operator<<(float value) noexcept {
    char digits[32];
    std::snprintf(digits, sizeof digits, "%.9g", double(value));
    return *this << digits;
  }
  Sentence& operator<<(const void* pointer) noexcept {
    *this << "0x";
    const auto bits = reinterpret_cast<uintptr_t>(pointer);
    int shift = 60;
    while (shift > 0 && (bits >> shift) == 0) shift -= 4;
    for (; shift >= 0; shift -= 4) put("0123456789abcdef"[(bits >> shift) & 15]);
    return *this;
  }
  operator Status() const noexcept { return status_; }

 private:
  void put(char c) noexcept {
    if (size_ + 1 < Status::capacity) {
      status_.text[size_++] = c;
    } else {
      for (int i = 2; i <= 4; ++i) status_.text[Status::capacity - i] = '.';
    }
  }
  Sentence& digits(uint64_t value) noexcept {
    char reversed[20];
    int count = 0;
    do reversed[count++] = char('0' + value % 10);
    while ((value /= 10) != 0);
    while (count > 0) put(reversed[--count]);
    return *this;
  }
  Status status_;
  int size_ = 0;
};

inline Sentence invalid() noexcept { return Sentence(Code::invalid, cudaErrorInvalidValue); }
inline Sentence unsupported() noexcept {
  return Sentence(Code::unsupported, cudaErrorNotSupported);
}

}  // namespace detail
}  // namespace STROBE_ABI
}  // namespace strobe
