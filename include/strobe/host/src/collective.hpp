// SPDX-License-Identifier: MIT
// How the lanes of a warp meet: the last to arrive does the work of all.
// Layer: host execution, internal.
#pragma once

#include "engine.hpp"

namespace strobe {
inline namespace STROBE_ABI {
namespace host {

// Called by each lane of `mask` with the same name. Returns the warp to the lane that arrived last:
// it does the work on Warp::exchange, then calls release_lanes. Returns null to the others, after
// that. `name` is compared by address: pass one literal. `aligned`: as in .sync.aligned, all lanes
// must be at one site.
Warp* meet_slow(Fiber& self, const char* name, bool aligned, uint32_t mask, Site site);

inline Warp* meet(const char* name, bool aligned, uint32_t mask, Site site) {
  Fiber& self = self_fiber();
  Warp& warp = *self.warp_state;
  Meeting& first = warp.meetings[0];
  // Nearly always: a converged warp, and one of its lanes has opened the meeting.
  if (first.mask != mask || first.site != site || first.name != name ||
      (mask >> self.lane & 1) == 0) {
    return meet_slow(self, name, aligned, mask, site);
  }
  first.arrived |= 1u << self.lane;
  if (first.arrived == mask) {
    first.mask = 0;
    --warp.open_meetings;
    return &warp;
  }
  engine->wait(self);
  return nullptr;
}

// Lets the other lanes go on.
inline void release_lanes(Warp& warp, uint32_t mask) {
  engine->note_progress();
  engine->make_ready(warp, mask & ~(1u << current->lane));
}

}  // namespace host
}  // namespace STROBE_ABI
}  // namespace strobe
