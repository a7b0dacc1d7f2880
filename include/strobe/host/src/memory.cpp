// SPDX-License-Identifier: MIT
// Addresses in shared memory: the 32-bit window, bounds and alignment.
// Layer: host execution, internal.
#include "memory.hpp"

#include <cstddef>

namespace strobe {
inline namespace STROBE_ABI {
namespace host {

uint32_t shared_address(const void* pointer, Site site) {
  const std::ptrdiff_t offset = static_cast<const unsigned char*>(pointer) - current->shared;
  // One past the end is an address, too; whoever uses it is told then.
  if (offset < 0 || static_cast<size_t>(offset) > engine->launch->dynamic_shared_bytes) {
    engine->fail(format("shared_address at %s: the pointer is not into dynamic shared memory",
                        describe(site).text));
  }
  return kSharedBase + static_cast<uint32_t>(offset);
}

void bad_shared_address(uint32_t address, uint32_t bytes, uint32_t alignment, const char* name,
                        Site site) {
  if (address % alignment != 0) {
    engine->fail(format("%s at %s: shared address smem+0x%x is not %u-byte aligned", name,
                        describe(site).text, address - kSharedBase, alignment));
  }
  engine->fail(
      format("%s at %s: %u bytes at smem%+lld are outside the block's %zu bytes of dynamic "
             "shared memory",
             name, describe(site).text, bytes,
             static_cast<long long>(address) - static_cast<long long>(kSharedBase),
             engine->launch->dynamic_shared_bytes));
}

void Engine::plain_access(const void* pointer, size_t bytes, bool write, Site site) {
  const Fiber& self = self_fiber();
  const auto offset = static_cast<const unsigned char*>(pointer) - self.shared;
  const auto size = static_cast<std::ptrdiff_t>(launch->dynamic_shared_bytes);
  const auto guard = static_cast<std::ptrdiff_t>(kSharedGuard);
  const auto end = offset + static_cast<std::ptrdiff_t>(bytes);
  if (end <= -guard || offset >= size + guard) {
    races.global_access({&self, write, false, site}, pointer, bytes);
    return;
  }
  if (offset < 0 || end > size) {
    fail(
        format("%s %zu bytes at smem%+td, outside the block's %td bytes of dynamic shared memory, "
               "at %s",
               write ? "writes" : "reads", bytes, offset, size, describe(site).text));
  }
  races.shared_access({&self, write, false, site}, static_cast<uint32_t>(offset),
                      static_cast<uint32_t>(bytes));
}

}  // namespace host
}  // namespace STROBE_ABI
}  // namespace strobe
