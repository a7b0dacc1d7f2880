// SPDX-License-Identifier: MIT
// Texts of errors. A failing fiber's stack is abandoned, not unwound, so nothing on it may own
// memory: messages are plain arrays until they reach the OS thread's own stack.
// Layer: host execution, internal.
#pragma once

#include <cstdint>
#include <string>

#include "../site.hpp"

namespace strobe {
inline namespace STROBE_ABI {
namespace host {

struct Message {
  char text[800];
};

__attribute__((format(printf, 1, 2))) Message format(const char* pattern, ...);

// "folder/file.cuh:57", or a placeholder for a code address that resolve_addresses turns into text
// later.
Message describe(Site site);

// "0-15,17": the lanes of a mask.
Message describe_lanes(uint32_t mask);

// Replaces the placeholders by "function at file:line" with the help of addr2line, or by
// "module+0x1234" where that tool or the debug information is missing. Allocates and may start a
// process: not on a fiber.
std::string resolve_addresses(const std::string& text);

}  // namespace host
}  // namespace STROBE_ABI
}  // namespace strobe
