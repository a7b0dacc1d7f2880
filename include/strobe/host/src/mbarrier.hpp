// SPDX-License-Identifier: MIT
// Barriers in shared memory (mbarrier): their state beside the eight bytes.
// Layer: host execution, internal.
#pragma once

#include <cstdint>
#include <vector>

#include "race.hpp"

namespace strobe {
inline namespace STROBE_ABI {
namespace host {

struct MemoryBarrier {
  uint32_t offset = 0;    // in dynamic shared memory
  uint32_t number = 0;    // among those of the block
  uint32_t arrivals = 0;  // that a phase needs
  uint32_t pending = 0;   // of them, in the running phase
  int64_t bytes = 0;      // of copies that the running phase still waits for
  uint32_t phase = 0;     // phases completed
  // Who made it and when; whether the async proxy has been told.
  uint32_t maker = 0;
  uint32_t made = 0;
  bool announced = false;
  Site site;
  Clock arriving;   // what those who arrived in the running phase did
  Clock completed;  // the same of the last phase
  std::vector<Fiber*> waiting;
};

// The barrier at an address; fails the launch if there is none, or none that the thread can know
// of.
MemoryBarrier& find_barrier(const Fiber& self, uint32_t address, const char* name, Site site);

// `bytes` bytes of a copy have landed, in the barrier's block.
void complete_bytes(const Block& block, MemoryBarrier& barrier, uint32_t bytes);

}  // namespace host
}  // namespace STROBE_ABI
}  // namespace strobe
