// SPDX-License-Identifier: MIT
// Warp collectives: meetings, __syncwarp, and the exchange of a value per lane that shuffles and
// votes are made of.
// Layer: host execution, internal.
#include <cstring>

#include "collective.hpp"

namespace strobe {
inline namespace STROBE_ABI {
namespace host {
namespace {

void check_mask(const Fiber& self, const Warp& warp, uint32_t mask, const char* name, Site site) {
  if ((mask >> self.lane & 1) == 0) {
    engine->fail(
        format("%s at %s: the calling lane is not in mask %08x", name, describe(site).text, mask));
  }
  const uint32_t gone = mask & (warp.done | ~warp.exist);
  if (gone != 0) {
    engine->fail(format("%s at %s: mask %08x names lanes %s, which have exited or do not exist",
                        name, describe(site).text, mask, describe_lanes(gone).text));
  }
}

Meeting* find_overlapping(Warp& warp, uint32_t mask) {
  if (warp.open_meetings == 0) return nullptr;
  for (Meeting& meeting : warp.meetings) {
    if ((meeting.mask & mask) != 0) return &meeting;
  }
  return nullptr;
}

Meeting& find_free(Warp& warp) {
  Meeting* meeting = warp.meetings;
  while (meeting->mask != 0) ++meeting;
  return *meeting;
}

}  // namespace

Warp* meet_slow(Fiber& self, const char* name, bool aligned, uint32_t mask, Site site) {
  Warp& warp = *self.warp_state;
  const uint32_t bit = 1u << self.lane;
  check_mask(self, warp, mask, name, site);
  Meeting* meeting = find_overlapping(warp, mask);
  if (meeting == nullptr) {
    meeting = &find_free(warp);
    *meeting = Meeting{mask, 0, name, site};
    ++warp.open_meetings;
  } else if (meeting->mask != mask || std::strcmp(meeting->name, name) != 0 ||
             (aligned && meeting->site != site)) {
    engine->fail(
        format("divergent warp: %s at %s with mask %08x, but lanes %s wait in %s at %s with "
               "mask %08x",
               name, describe(site).text, mask, describe_lanes(meeting->arrived).text,
               meeting->name, describe(meeting->site).text, meeting->mask));
  }
  meeting->arrived |= bit;
  if (meeting->arrived == mask) {
    meeting->mask = 0;
    --warp.open_meetings;
    return &warp;
  }
  engine->wait(self);
  return nullptr;
}

void warp_barrier(uint32_t mask, Site site) {
  Warp* warp = meet("__syncwarp", false, mask, site);
  if (warp == nullptr) return;
  if (engine->races.enabled) {
    Clock clock;
    for (uint32_t lanes = mask; lanes != 0; lanes &= lanes - 1) {
      engine->races.release(warp->lanes[__builtin_ctz(lanes)], clock);
    }
    for (uint32_t lanes = mask; lanes != 0; lanes &= lanes - 1) {
      engine->races.acquire(warp->lanes[__builtin_ctz(lanes)], clock);
    }
  }
  release_lanes(*warp, mask);
}

const uint64_t* gather(uint32_t mask, uint64_t value, const char* name, Site site) {
  WarpExchange& exchange = *current->exchange;
  exchange.value[current->lane] = value;
  if (Warp* warp = meet(name, false, mask, site)) {
    if (mask == ~0u) {
      std::memcpy(exchange.gathered, exchange.value, sizeof exchange.value);
    } else {
      for (uint32_t lane = 0; lane < 32; ++lane) {
        if ((mask >> lane & 1) != 0) exchange.gathered[lane] = exchange.value[lane];
      }
    }
    release_lanes(*warp, mask);
  }
  return exchange.gathered;
}

void check_source_lane(uint32_t mask, uint32_t source, const char* name, Site site) {
  if ((mask >> source & 1) != 0) return;
  engine->fail(format("%s at %s: reads lane %u, which is not in mask %08x", name,
                      describe(site).text, source, mask));
}

}  // namespace host
}  // namespace STROBE_ABI
}  // namespace strobe
