// SPDX-License-Identifier: MIT
// cp.async: when the bytes arrive, and what may be touched until then.
// Layer: host execution, internal.
#include <cstring>

#include "memory.hpp"

namespace strobe {
inline namespace STROBE_ABI {
namespace host {
namespace {

void copy_bytes(const Fiber& self, const PendingCopy& copy) {
  unsigned char* destination = self.shared + copy.destination;
  if (copy.source_bytes != 0) std::memcpy(destination, copy.source, copy.source_bytes);
  std::memset(destination + copy.source_bytes, 0, copy.bytes - copy.source_bytes);
}

// The issuing thread may see the bytes from here on; others after a barrier, which is why the write
// counts as of now.
void land(Fiber& self, const PendingCopy& copy) {
  if (!copy.done) copy_bytes(self, copy);
  engine->races.set_pending(self, copy.destination, copy.bytes, false);
  engine->races.shared_access({&self, true, false, copy.site}, copy.destination, copy.bytes);
}

}  // namespace

void cp_async(uint32_t dst_smem, const void* src_gmem, uint32_t bytes, uint32_t source_bytes,
              Site site) {
  Fiber& self = self_fiber();
  const uint32_t offset = shared_offset(dst_smem, bytes, bytes, "cp.async", site);
  if (source_bytes != 0) {
    if (reinterpret_cast<uintptr_t>(src_gmem) % bytes != 0) {
      engine->fail(format("cp.async at %s: the global address is not %u-byte aligned",
                          describe(site).text, bytes));
    }
    engine->races.global_access({&self, false, false, site}, src_gmem, source_bytes);
  }
  engine->races.shared_access({&self, true, false, site}, offset, bytes);
  engine->races.set_pending(self, offset, bytes, true);

  PendingCopy copy{offset, bytes, source_bytes, self.copy_group, src_gmem, false, site};
  if (engine->at_once()) {
    copy_bytes(self, copy);
    copy.done = true;
  } else {
    std::memset(self.shared + offset, 0xff, bytes);  // NaN: a read too early shows in the result
  }
  self.copies.push_back(copy);
}

void cp_async_commit() { ++self_fiber().copy_group; }

void cp_async_wait(int newest) {
  Fiber& self = self_fiber();
  const uint32_t keep = static_cast<uint32_t>(newest);
  const uint32_t finished = self.copy_group > keep ? self.copy_group - keep : 0;
  size_t n = 0;
  // Copies that were never committed belong to no finished group.
  while (n < self.copies.size() && self.copies[n].group < finished) land(self, self.copies[n++]);
  self.copies.erase(self.copies.begin(), self.copies.begin() + static_cast<std::ptrdiff_t>(n));
}

}  // namespace host
}  // namespace STROBE_ABI
}  // namespace strobe
