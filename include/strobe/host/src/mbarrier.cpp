// SPDX-License-Identifier: MIT
// mbarrier: phases that end with the last arrival and the last byte. An arrival is a release, a
// wait an acquire of what the phase's arrivals released. Layer: host execution, internal.
#include "mbarrier.hpp"

#include <cstring>

#include "memory.hpp"

namespace strobe {
inline namespace STROBE_ABI {
namespace host {
namespace {

// What the eight bytes hold while they are a barrier: an overwritten one is noticed.
constexpr uint64_t kWord = 0x7265697272614200u;
// The hardware's counters end here.
constexpr uint32_t kMaxArrivals = (1u << 20) - 1;
constexpr int64_t kMaxBytes = (1 << 20) - 1;

MemoryBarrier* find(Block& block, uint32_t offset) {
  for (MemoryBarrier& barrier : block.memory_barriers) {
    if (barrier.offset == offset) return &barrier;
  }
  return nullptr;
}

bool intact(const Fiber& self, const MemoryBarrier& barrier) {
  return std::memcmp(self.shared + barrier.offset, &kWord, sizeof kWord) == 0;
}

void end_phase_if_complete(const Block& block, MemoryBarrier& barrier) {
  if (barrier.pending != 0 || barrier.bytes != 0) return;
  ++barrier.phase;
  engine->trace(TraceEvent::Kind::mbarrier_complete, block, TraceEvent::kNoThread, barrier.offset,
                barrier.phase);
  barrier.pending = barrier.arrivals;
  engine->races.complete(barrier.arriving, AsyncUnit::tile_load, barrier.number, barrier.phase);
  std::swap(barrier.completed, barrier.arriving);
  barrier.arriving = Clock();
  for (Fiber* fiber : barrier.waiting) {
    if (engine->races.enabled) engine->races.acquire(*fiber, barrier.completed);
    engine->make_ready(*fiber->warp_state, 1u << fiber->lane);
  }
  barrier.waiting.clear();
  engine->note_progress();
}

void arrive(uint32_t address, uint32_t bytes, const char* name, Site site) {
  const Fiber& self = self_fiber();
  MemoryBarrier& barrier = find_barrier(self, address, name, site);
  if (barrier.pending == 0) {
    engine->fail(
        format("%s at %s: all %u arrivals of the phase have come already (the phase waits "
               "for %lld more bytes)",
               name, describe(site).text, barrier.arrivals, static_cast<long long>(barrier.bytes)));
  }
  barrier.bytes += bytes;
  if (barrier.bytes > kMaxBytes) {
    engine->fail(format("%s at %s: a phase cannot wait for %lld bytes, at most %lld", name,
                        describe(site).text, static_cast<long long>(barrier.bytes),
                        static_cast<long long>(kMaxBytes)));
  }
  if (engine->races.enabled) engine->races.release(self, barrier.arriving);
  --barrier.pending;
  engine->trace(TraceEvent::Kind::mbarrier_arrive, *self.block, self.linear, barrier.offset, bytes);
  end_phase_if_complete(*self.block, barrier);
}

}  // namespace

MemoryBarrier& find_barrier(const Fiber& self, uint32_t address, const char* name, Site site) {
  const uint32_t offset = shared_offset(address, 8, 8, name, site);
  MemoryBarrier* barrier = find(*self.block, offset);
  if (barrier == nullptr) {
    engine->fail(format("%s at %s: no mbarrier has been initialised at smem+0x%x (yet)", name,
                        describe(site).text, offset));
  }
  if (!intact(self, *barrier)) {
    engine->fail(format("%s at %s: the mbarrier at smem+0x%x, initialised at %s, was overwritten",
                        name, describe(site).text, offset, describe(barrier->site).text));
  }
  if (!engine->races.knows(self, barrier->maker, barrier->made)) {
    engine->fail(format("%s at %s: no barrier after the mbarrier.init by thread %u at %s", name,
                        describe(site).text, barrier->maker, describe(barrier->site).text));
  }
  return *barrier;
}

void complete_bytes(const Block& block, MemoryBarrier& barrier, uint32_t bytes) {
  barrier.bytes -= bytes;
  end_phase_if_complete(block, barrier);
}

void mbarrier_init(uint32_t barrier_smem, uint32_t arrivals, Site site) {
  const Fiber& self = self_fiber();
  const uint32_t offset = shared_offset(barrier_smem, 8, 8, "mbarrier.init", site);
  if (arrivals == 0 || arrivals > kMaxArrivals) {
    engine->fail(format("mbarrier.init at %s: %u arrivals, want 1 to %u", describe(site).text,
                        arrivals, kMaxArrivals));
  }
  if (const MemoryBarrier* old = find(*self.block, offset)) {
    engine->fail(format("mbarrier.init at %s: smem+0x%x is an mbarrier already, since %s",
                        describe(site).text, offset, describe(old->site).text));
  }
  engine->races.shared_access({&self, true, false, site}, offset, 8);
  std::memcpy(self.shared + offset, &kWord, sizeof kWord);
  MemoryBarrier barrier;
  barrier.offset = offset;
  barrier.number = static_cast<uint32_t>(self.block->memory_barriers.size());
  barrier.arrivals = arrivals;
  barrier.pending = arrivals;
  barrier.maker = self.linear;
  barrier.made = engine->races.count_of(self);
  barrier.site = site;
  self.block->memory_barriers.push_back(std::move(barrier));
}

void mbarrier_fence_init() {
  const Fiber& self = self_fiber();
  for (MemoryBarrier& barrier : self.block->memory_barriers) {
    if (barrier.maker == self.linear) barrier.announced = true;
  }
}

void mbarrier_arrive(uint32_t barrier_smem, Site site) {
  arrive(barrier_smem, 0, "mbarrier.arrive", site);
}

void mbarrier_arrive_expect(uint32_t barrier_smem, uint32_t bytes, Site site) {
  arrive(barrier_smem, bytes, "mbarrier.arrive.expect_tx", site);
}

void mbarrier_wait(uint32_t barrier_smem, uint32_t parity, Site site) {
  Fiber& self = self_fiber();
  MemoryBarrier& barrier = find_barrier(self, barrier_smem, "mbarrier.try_wait", site);
  if (parity > 1) {
    engine->fail(format("mbarrier.try_wait at %s: parity %u", describe(site).text, parity));
  }
  const uint32_t offset = barrier.offset;
  engine->trace(TraceEvent::Kind::mbarrier_wait, *self.block, self.linear, offset, parity);
  if ((barrier.phase & 1) != parity) {
    if (engine->races.enabled) engine->races.acquire(self, barrier.completed);
  } else {
    barrier.waiting.push_back(&self);
    self.awaited = offset;
    self.awaits = site;
    engine->wait(self);
    self.awaits = Site();
  }
  engine->trace(TraceEvent::Kind::mbarrier_pass, *self.block, self.linear, offset, parity);
}

}  // namespace host
}  // namespace STROBE_ABI
}  // namespace strobe
