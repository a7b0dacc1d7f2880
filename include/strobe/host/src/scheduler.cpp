// SPDX-License-Identifier: MIT
// Who runs next: picks a ready fiber, switches to it, notices when nobody can go on.
// Layer: host execution, internal.
#include <map>

#include "engine.hpp"
#include "launch_state.hpp"

namespace strobe {
inline namespace STROBE_ABI {
namespace host {

__thread Thread* current = nullptr;
__thread Engine* engine = nullptr;

namespace {

uint32_t lowest(uint32_t mask) { return mask & (~mask + 1); }
uint32_t highest(uint32_t mask) { return 1u << (31 - __builtin_clz(mask)); }

// A set bit at or after position `from`, around the end.
uint32_t bit_from(uint32_t mask, uint32_t from) {
  const uint32_t after = mask & (~0u << from);
  return lowest(after != 0 ? after : mask);
}

Message describe_state(const Block& block, const Warp& warp, uint32_t lane) {
  const Fiber& fiber = warp.lanes[lane];
  if (fiber.done) return format("exited");
  for (const Meeting& meeting : warp.meetings) {
    if (meeting.mask == 0 || (meeting.arrived >> lane & 1) == 0) continue;
    return format("%s at %s (mask %08x)", meeting.name, describe(meeting.site).text, meeting.mask);
  }
  for (uint32_t id = 0; id < kBarriers; ++id) {
    const Barrier& barrier = block.barriers[id];
    if ((barrier.waiting[fiber.warp] >> lane & 1) == 0) continue;
    return format("barrier %u at %s (%u of %u warps arrived)", id,
                  describe(barrier.site[fiber.warp]).text, barrier.count, barrier.expected);
  }
  for (const MemoryBarrier& barrier : block.memory_barriers) {
    if (!fiber.awaits.known() || barrier.offset != fiber.awaited) continue;
    return format("mbarrier smem+0x%x at %s (parity %d; %u of %u arrivals missing, %lld bytes)",
                  barrier.offset, describe(fiber.awaits).text, static_cast<int>(barrier.phase & 1),
                  barrier.pending, barrier.arrivals, static_cast<long long>(barrier.bytes));
  }
  return format("spinning at %s", describe(fiber.spinning).text);
}

}  // namespace

Warp& Engine::warp(uint32_t index) {
  return blocks[index / warps_per_block_]->warps[index % warps_per_block_];
}

// The first ready warp at or after the current one (or before it), around the end; some warp is
// ready.
Warp& Engine::nearest_ready_warp(bool backwards) {
  const uint32_t count = warps_per_block_ * static_cast<uint32_t>(blocks.size());
  uint32_t i = current_warp_;
  for (;;) {
    if ((ready_warps_[i / 64] >> i % 64 & 1) != 0) return warp(i);
    if (backwards) {
      i = (i == 0 ? count : i) - 1;
    } else {
      i = i + 1 == count ? 0 : i + 1;
    }
  }
}

Fiber* Engine::take_lane(Warp& warp, uint32_t bit) {
  warp.ready &= ~bit;
  if (warp.ready == 0) ready_warps_[warp.index / 64] &= ~(uint64_t{1} << warp.index % 64);
  return &warp.lanes[__builtin_ctz(bit)];
}

// Any lane of the same warp, mostly; now and then any warp. Jumping between warps at every switch
// would find nothing more and would cost the caches dearly (a third of the speed).
Fiber* Engine::pick_random() {
  const uint64_t dice = random() >> 8;
  const bool stay =
      dice % 16 != 0 && (ready_warps_[current_warp_ / 64] >> current_warp_ % 64 & 1) != 0;
  if (!stay) {
    const uint32_t warps = warps_per_block_ * static_cast<uint32_t>(blocks.size());
    current_warp_ = static_cast<uint32_t>((dice >> 4) % warps);
    current_warp_ = nearest_ready_warp(false).index;
  }
  Warp& chosen = warp(current_warp_);
  return take_lane(chosen, bit_from(chosen.ready, dice >> 32 & 31));
}

bool Engine::any_ready() const {
  uint64_t any = 0;
  for (uint64_t word : ready_warps_) any |= word;
  return any != 0;
}

// Takes a fiber off the ready set, or returns null if none is ready.
Fiber* Engine::pick() {
  if (!any_ready() && !land_loads() && !wake_spinning()) return nullptr;
  if (options.order == Order::random) return pick_random();
  const bool backwards = options.order == Order::reverse;
  Warp& chosen = nearest_ready_warp(backwards);
  current_warp_ = chosen.index;
  return take_lane(chosen, backwards ? highest(chosen.ready) : lowest(chosen.ready));
}

// to == null: back to the OS thread's stack.
void Engine::switch_to(Fiber& from, Fiber* to, bool finished) {
  current = to;
  switch_context(from.context, to != nullptr ? to->context : os_thread_, finished);
}

void Engine::wait(Fiber& self) {
  // Nearly always: the next lane of the same warp.
  Warp& own = *self.warp_state;
  Fiber* next;
  if (options.order == Order::in_order && own.ready != 0 && own.index == current_warp_) {
    next = take_lane(own, lowest(own.ready));
  } else {
    next = pick();
    if (next == nullptr) stuck("deadlock");
    if (next == &self) return;
  }
  switch_to(self, next, false);
}

void Engine::yield(Fiber& self, Site site) {
  self.spinning = site;
  self.warp_state->spinning |= 1u << self.lane;
  wait(self);
}

// Nobody is ready but those who have yielded: their turn. False: there are none.
bool Engine::wake_spinning() {
  bool any = false;
  for (const auto& block : blocks) {
    if (!block->running) continue;
    for (Warp& w : block->warps) {
      any = any || w.spinning != 0;
      make_ready(w, w.spinning);
      w.spinning = 0;
    }
  }
  if (any) check_progress();
  return any;
}

// Fails when spinning threads have had their turn in vain many times. (Not after once: a plain
// store may have ended a wait unseen, and the thread that waited then does something that is seen.)
// With several OS threads the block that this one waits for may run on another: fails when all of
// them have been idle for a while.
void Engine::check_progress() {
  constexpr int kRounds = 100;
  if (progress_) {
    progress_ = false;
    idle_rounds_ = 0;
    if (marked_idle_) --state->idle;
    marked_idle_ = false;
    return;
  }
  if (++idle_rounds_ < kRounds) return;
  if (state->os_threads > 1) {
    if (!marked_idle_) ++state->idle;
    marked_idle_ = true;
    state->pause();
    if (state->idle != state->os_threads) idle_rounds_ = kRounds;
    if (idle_rounds_ < 2 * kRounds) return;
  }
  stuck("deadlock: threads spin and nothing changes");
}

void Engine::fail(const char* text) {
  Fiber& self = self_fiber();
  if (!failed) {
    failed = true;
    error = std::string(describe_thread(self).text) + ": " + text;
  }
  switch_to(self, nullptr, true);
  __builtin_unreachable();
}

// Everyone waits: fails with a list of who waits where.
void Engine::stuck(const char* what) {
  failed = true;
  error = what + list_waiting_threads();
  switch_to(self_fiber(), nullptr, true);
  __builtin_unreachable();
}

std::string Engine::list_waiting_threads() const {
  std::string text;
  for (const auto& block : blocks) {
    if (!block->running) continue;
    text += format("\nblock (%u,%u,%u):", block->index.x, block->index.y, block->index.z).text;
    for (const Warp& w : block->warps) {
      std::map<std::string, uint32_t> lanes_at;
      for (uint32_t lane = 0; lane < 32; ++lane) {
        if ((w.exist >> lane & 1) == 0) continue;
        lanes_at[describe_state(*block, w, lane).text] |= 1u << lane;
      }
      for (const auto& [place, lanes] : lanes_at) {
        text += format("\n  warp %u lanes %s: ", w.lanes[0].warp, describe_lanes(lanes).text).text;
        text += place;
      }
    }
  }
  const uint64_t not_started = state->blocks_not_started();
  if (not_started != 0) {
    text += format(
                "\n%llu blocks have not started: if these wait for one of them, raise "
                "Options::resident_blocks (now %zu)",
                static_cast<unsigned long long>(not_started), blocks.size())
                .text;
  }
  return text;
}

Message describe_thread(const Fiber& fiber) {
  return format("block (%u,%u,%u) thread %u (warp %u lane %u)", fiber.block_index.x,
                fiber.block_index.y, fiber.block_index.z, fiber.linear, fiber.warp, fiber.lane);
}

void yield(Site site) {
  if (current == nullptr) return;
  engine->yield(self_fiber(), site);
}

void note_progress() {
  if (current != nullptr) engine->note_progress();
}

void fail(const char* what, Site site) {
  engine->fail(format("%s at %s", what, describe(site).text));
}

}  // namespace host
}  // namespace STROBE_ABI
}  // namespace strobe
