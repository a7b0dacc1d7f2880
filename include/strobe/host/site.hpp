// SPDX-License-Identifier: MIT
// Where a call came from, in one word: what every error of the host runtime names.
// Layer: host execution, below everything else in this folder. g++ and clang++ only.
#pragma once

#include <cstdint>

#include "../version.hpp"

namespace strobe {
inline namespace STROBE_ABI {
namespace host {

// A file and line, or the address of an instruction (a plain load or store reported by the
// compiler's instrumentation). Pointers have 48 bits on the platforms this runs on; the line sits
// below them.
class Site {
 public:
  constexpr Site() = default;

  // As a default argument, names the line of the call: GCC and Clang evaluate the built-ins there.
  static Site here(const char* file = __builtin_FILE(), int line = __builtin_LINE()) {
    const uint64_t number = static_cast<uint64_t>(line);
    return Site(reinterpret_cast<uintptr_t>(file), number < kCode ? number : kCode - 1);
  }
  static Site code(const void* address) {
    return Site(reinterpret_cast<uintptr_t>(address), kCode);
  }

  bool known() const { return bits_ != 0; }
  bool is_code() const { return (bits_ & kCode) == kCode; }
  const char* file() const { return reinterpret_cast<const char*>(bits_ >> 16); }
  uint64_t address() const { return bits_ >> 16; }
  int line() const { return static_cast<int>(bits_ & kCode); }

  friend bool operator==(Site a, Site b) { return a.bits_ == b.bits_; }
  friend bool operator!=(Site a, Site b) { return a.bits_ != b.bits_; }

 private:
  static constexpr uint64_t kCode = 0xffff;
  Site(uintptr_t pointer, uint64_t low) : bits_((static_cast<uint64_t>(pointer) << 16) | low) {}
  uint64_t bits_ = 0;
};

}  // namespace host
}  // namespace STROBE_ABI
}  // namespace strobe
