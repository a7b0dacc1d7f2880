// SPDX-License-Identifier: MIT
// __syncthreads and named barriers (bar.sync, bar.arrive). As in hardware a warp arrives as one:
// its lanes meet, and the last of them counts the warp in.
// Layer: host execution, internal.
#include "collective.hpp"

namespace strobe {
inline namespace STROBE_ABI {
namespace host {
namespace {

// What a warp brings to a barrier.
struct Arrival {
  uint32_t id;
  uint32_t expected;  // warps
  bool whole_block;   // __syncthreads and its kin
  bool wait;
  const char* name;
  Site site;
};

void check_arrival(const Barrier& barrier, const Arrival& a, uint32_t warp) {
  if (barrier.count == 0) return;
  if (a.whole_block && barrier.whole_block && barrier.first_site != a.site) {
    engine->fail(format("divergent barrier: %s at %s while %u warps are at the barrier at %s",
                        a.name, describe(a.site).text, barrier.count,
                        describe(barrier.first_site).text));
  }
  if (barrier.expected != a.expected || barrier.whole_block != a.whole_block) {
    engine->fail(
        format("%s at %s: barrier %u for %u warps, but those already there (at %s) gave %u", a.name,
               describe(a.site).text, a.id, a.expected, describe(barrier.first_site).text,
               barrier.expected));
  }
  if (barrier.arrived[warp]) {
    engine->fail(
        format("%s at %s: the warp arrives twice at barrier %u (first at %s) before %u "
               "warps have come",
               a.name, describe(a.site).text, a.id, describe(barrier.site[warp]).text, a.expected));
  }
}

// The last warp has come: everyone who waits may go on, and the barrier is free.
void complete(Barrier& barrier, Block& block) {
  for (uint32_t w = 0; w < block.warps.size(); ++w) {
    Warp& warp = block.warps[w];
    const uint32_t waiting = barrier.waiting[w];
    if (engine->races.enabled) {
      for (uint32_t lanes = waiting; lanes != 0; lanes &= lanes - 1) {
        engine->races.acquire(warp.lanes[__builtin_ctz(lanes)], barrier.clock);
      }
    }
    if (w != current->warp) engine->make_ready(warp, waiting);
    barrier.arrived[w] = false;
    barrier.waiting[w] = 0;
  }
  barrier.result = barrier.predicates;
  barrier.predicates = 0;
  barrier.count = 0;
  barrier.expected = 0;
  barrier.clock = Clock();
}

void arrive(const Arrival& a, int predicate) {
  Fiber& self = self_fiber();
  const uint32_t lanes = self.warp_state->exist;
  self.exchange->value[self.lane] = predicate != 0;
  Warp* warp = meet(a.name, true, lanes, a.site);
  if (warp == nullptr)
    return;  // the last lane has counted the warp in, and the barrier has let it go

  Barrier& barrier = self.block->barriers[a.id];
  const uint32_t w = self.warp;
  check_arrival(barrier, a, w);
  if (barrier.count == 0) {
    barrier.expected = a.expected;
    barrier.whole_block = a.whole_block;
    barrier.first_site = a.site;
  }
  barrier.site[w] = a.site;
  barrier.arrived[w] = true;
  if (a.wait) barrier.waiting[w] = lanes;
  for (uint32_t rest = lanes; rest != 0; rest &= rest - 1) {
    const int lane = __builtin_ctz(rest);
    barrier.predicates += static_cast<int>(self.exchange->value[lane]);
    if (engine->races.enabled) engine->races.release(warp->lanes[lane], barrier.clock);
  }
  const uint32_t first_thread = warp->lanes[0].linear;
  engine->trace(TraceEvent::Kind::barrier_arrive, *self.block, first_thread, a.id, 0);
  const bool last = ++barrier.count == a.expected;
  if (last) {
    complete(barrier, *self.block);
    engine->trace(TraceEvent::Kind::barrier_complete, *self.block, TraceEvent::kNoThread, a.id, 0);
  }
  if (last || !a.wait) {
    release_lanes(*warp, lanes);
  } else {
    engine->wait(self);
  }
  if (a.wait) engine->trace(TraceEvent::Kind::barrier_pass, *self.block, first_thread, a.id, 0);
}

}  // namespace

int block_barrier(int predicate, const char* name, Site site) {
  Fiber& self = self_fiber();
  const uint32_t warps = static_cast<uint32_t>(self.block->warps.size());
  arrive({0, warps, true, true, name, site}, predicate);
  return self.block->barriers[0].result;
}

void named_barrier(int id, int threads, bool wait, Site site) {
  const char* name = wait ? "bar.sync" : "bar.arrive";
  const uint32_t warps = static_cast<uint32_t>(self_fiber().block->warps.size());
  if (id < 0 || id >= static_cast<int>(kBarriers)) {
    engine->fail(
        format("%s at %s: barrier %d does not exist (0..15)", name, describe(site).text, id));
  }
  if (threads <= 0 || threads % 32 != 0) {
    engine->fail(format("%s at %s: %d threads is not a positive multiple of 32", name,
                        describe(site).text, threads));
  }
  if (static_cast<uint32_t>(threads) > warps * 32) {
    engine->fail(format("%s at %s: waits for %d threads in a block of %u", name,
                        describe(site).text, threads, engine->threads));
  }
  arrive({static_cast<uint32_t>(id), static_cast<uint32_t>(threads) / 32, false, wait, name, site},
         0);
}

}  // namespace host
}  // namespace STROBE_ABI
}  // namespace strobe
