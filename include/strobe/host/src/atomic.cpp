// SPDX-License-Identifier: MIT
// What atomics and fences mean to the race checker. The operations themselves are in runtime.hpp.
// Layer: host execution, internal.
#include "engine.hpp"

namespace strobe {
inline namespace STROBE_ABI {
namespace host {

void before_atomic(const void* pointer, size_t bytes, AtomicKind kind, Ordering ordering,
                   Site site) {
  if (current == nullptr) return;  // host code
  const Fiber& self = self_fiber();
  if (reinterpret_cast<uintptr_t>(pointer) % bytes != 0) {
    engine->fail(
        format("atomic at %s: the address is not %zu-byte aligned", describe(site).text, bytes));
  }
  if (!engine->races.enabled) return;
  engine->races.atomic(self, pointer, kind, ordering);
  const Access access{&self, kind != AtomicKind::load, true, site};
  const std::ptrdiff_t offset = static_cast<const unsigned char*>(pointer) - self.shared;
  const size_t shared_bytes = engine->launch->dynamic_shared_bytes;
  if (offset >= 0 && static_cast<size_t>(offset) + bytes <= shared_bytes) {
    engine->races.shared_access(access, static_cast<uint32_t>(offset),
                                static_cast<uint32_t>(bytes));
  } else {
    engine->races.global_access(access, pointer, bytes);
  }
}

void memory_fence() {
  if (current != nullptr && engine->races.enabled) engine->races.fence(self_fiber());
}

}  // namespace host
}  // namespace STROBE_ABI
}  // namespace strobe
