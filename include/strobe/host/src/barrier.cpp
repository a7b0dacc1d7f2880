// SPDX-License-Identifier: MIT
// __syncthreads and named barriers (bar.sync, bar.arrive).
// Layer: host execution, internal.
#include "engine.hpp"

namespace strobe {
inline namespace STROBE_ABI {
namespace host {
namespace {

void check_arrival(const Barrier& barrier, const Fiber& self, uint32_t id, uint32_t expected,
                   bool whole_block, const char* name, Site site) {
  const uint32_t bit = 1u << self.lane;
  if (barrier.count == 0) return;
  if (whole_block && barrier.whole_block && barrier.first_site != site) {
    engine->fail(format("divergent barrier: %s at %s while %u threads are at the barrier at %s",
                        name, describe(site).text, barrier.count,
                        describe(barrier.first_site).text));
  }
  if (barrier.expected != expected || barrier.whole_block != whole_block) {
    engine->fail(format("%s at %s: barrier %u for %u threads, but those already there (at %s) gave "
                        "%u",
                        name, describe(site).text, id, expected, describe(barrier.first_site).text,
                        barrier.expected));
  }
  const Site warp_site = barrier.site[self.warp];
  if (barrier.arrived[self.warp] != 0 && warp_site != site) {
    engine->fail(format("divergent barrier: lanes %s of the warp reach barrier %u at %s, this one "
                        "at %s",
                        describe_lanes(barrier.arrived[self.warp]).text, id,
                        describe(warp_site).text, describe(site).text));
  }
  if ((barrier.arrived[self.warp] & bit) != 0) {
    engine->fail(format("%s at %s: arrives twice at barrier %u before its %u threads have come",
                        name, describe(site).text, id, expected));
  }
}

// The last thread has come: everyone who waits may go on, and the barrier is free.
void complete(Barrier& barrier, Block& block, const Fiber& self, uint32_t id) {
  for (uint32_t w = 0; w < block.warps.size(); ++w) {
    Warp& warp = block.warps[w];
    // The hardware counts whole warps, so that a barrier which some lanes skip releases others too early.
    if (barrier.arrived[w] != 0 && barrier.arrived[w] != warp.exist) {
      engine->fail(format("divergent barrier: only lanes %s of warp %u came to barrier %u at %s",
                          describe_lanes(barrier.arrived[w]).text, w, id,
                          describe(barrier.site[w]).text));
    }
    const uint32_t waiting = barrier.waiting[w];
    if (engine->races.enabled) {
      for (uint32_t lanes = waiting; lanes != 0; lanes &= lanes - 1) {
        engine->races.acquire(warp.lanes[__builtin_ctz(lanes)], barrier.clock);
      }
    }
    engine->make_ready(warp, w == self.warp ? waiting & ~(1u << self.lane) : waiting);
    barrier.arrived[w] = 0;
    barrier.waiting[w] = 0;
  }
  barrier.result = barrier.predicates;
  barrier.predicates = 0;
  barrier.count = 0;
  barrier.expected = 0;
  barrier.clock = Clock();
  engine->note_progress();
}

void arrive(uint32_t id, uint32_t expected, bool whole_block, bool wait, int predicate,
            const char* name, Site site) {
  Fiber& self = self_fiber();
  Barrier& barrier = self.block->barriers[id];
  const uint32_t bit = 1u << self.lane;
  check_arrival(barrier, self, id, expected, whole_block, name, site);
  if (barrier.count == 0) {
    barrier.expected = expected;
    barrier.whole_block = whole_block;
    barrier.first_site = site;
  }
  barrier.site[self.warp] = site;
  barrier.arrived[self.warp] |= bit;
  if (wait) barrier.waiting[self.warp] |= bit;
  barrier.predicates += predicate != 0;
  if (engine->races.enabled) engine->races.release(self, barrier.clock);
  if (++barrier.count == expected) {
    complete(barrier, *self.block, self, id);
  } else if (wait) {
    engine->wait(self);
  }
}

}  // namespace

int block_barrier(int predicate, const char* name, Site site) {
  arrive(0, engine->threads, true, true, predicate, name, site);
  return self_fiber().block->barriers[0].result;
}

void named_barrier(int id, int threads, bool wait, Site site) {
  const char* name = wait ? "bar.sync" : "bar.arrive";
  if (id < 0 || id >= static_cast<int>(kBarriers)) {
    engine->fail(format("%s at %s: barrier %d does not exist (0..15)", name, describe(site).text, id));
  }
  if (threads <= 0 || threads % 32 != 0) {
    engine->fail(format("%s at %s: %d threads is not a positive multiple of 32", name,
                        describe(site).text, threads));
  }
  if (static_cast<uint32_t>(threads) > (engine->threads + 31) / 32 * 32) {
    engine->fail(format("%s at %s: waits for %d threads in a block of %u", name,
                        describe(site).text, threads, engine->threads));
  }
  arrive(static_cast<uint32_t>(id), static_cast<uint32_t>(threads), false, wait, 0, name, site);
}

}  // namespace host
}  // namespace STROBE_ABI
}  // namespace strobe
