// SPDX-License-Identifier: MIT
// The life of blocks: memory, fibers and first frames for a new one, checks when one has finished.
// Layer: host execution, internal.
#include <cstring>

#include "engine.hpp"
#include "launch_state.hpp"

namespace strobe {
inline namespace STROBE_ABI {
namespace host {
namespace {

// Fresh shared memory holds NaN in every type. The guards hold something else, so that a copy of
// one is seen in the other.
constexpr int kFresh = 0xff;
constexpr unsigned char kGuardByte = 0xa5;

size_t round_up(size_t n, size_t multiple) { return (n + multiple - 1) / multiple * multiple; }

void prepare_shared_memory(Block& block, size_t bytes) {
  const size_t needed = kSharedBase + kSharedGuard + bytes + kSharedGuard;
#if STROBE_HOST_ASAN
  __asan_unpoison_memory_region(block.arena.data(), block.arena.size());
#endif
  if (block.arena.size() < needed) block.arena.resize(needed);
  const uintptr_t begin = reinterpret_cast<uintptr_t>(block.arena.data()) + kSharedGuard;
  block.shared = reinterpret_cast<unsigned char*>(round_up(begin, kSharedBase));
  std::memset(block.shared - kSharedGuard, kGuardByte, kSharedGuard);
  std::memset(block.shared, kFresh, bytes);
  std::memset(block.shared + bytes, kGuardByte, kSharedGuard);
#if STROBE_HOST_ASAN
  __asan_poison_memory_region(block.shared - kSharedGuard, kSharedGuard);
  // Up to the end of the arena; poisoning starts in the middle of 8 bytes if need be.
  __asan_poison_memory_region(block.shared + bytes, kSharedGuard);
#endif
}

#if !STROBE_HOST_ASAN
// The offset of the first changed guard byte, relative to dynamic shared memory; false: none.
bool find_overrun(const Block& block, size_t bytes, long& offset) {
  const long end = static_cast<long>(bytes + kSharedGuard);
  for (long i = -static_cast<long>(kSharedGuard); i < end; ++i) {
    if (i == 0) i = static_cast<long>(bytes);
    if (block.shared[i] != kGuardByte) {
      offset = i;
      return true;
    }
  }
  return false;
}
#endif

void reset_barriers(Block& block) {
  for (Barrier& barrier : block.barriers) {
    barrier = Barrier();
    barrier.arrived.assign(block.warps.size(), false);
    barrier.waiting.assign(block.warps.size(), 0);
    barrier.site.assign(block.warps.size(), Site());
  }
}

}  // namespace

bool Engine::prepare(const Launch& new_launch) {
  launch = &new_launch;
  threads = launch->block.x * launch->block.y * launch->block.z;
  warps_per_block_ = (threads + 31) / 32;
  size_t resident = static_cast<size_t>(options.resident_blocks > 0 ? options.resident_blocks : 1);
  if (resident > state->blocks) resident = static_cast<size_t>(state->blocks);
  while (blocks.size() > resident) {
    spare_.push_back(std::move(blocks.back()));
    blocks.pop_back();
  }
  while (blocks.size() < resident) {
    if (spare_.empty()) spare_.push_back(std::make_unique<Block>());
    blocks.push_back(std::move(spare_.back()));
    spare_.pop_back();
  }
  for (const auto& block : blocks) block->running = false;
  ready_warps_.assign((warps_per_block_ * resident + 63) / 64, 0);
  current_warp_ = 0;
  random_ = options.seed * 0x9e3779b97f4a7c15u + 0x94d049bb133111ebu;
  if (random_ == 0) random_ = 1;
  progress_ = false;
  idle_rounds_ = 0;
  marked_idle_ = false;
  failed = false;
  error.clear();
  races.start_launch(options.check_races, threads, launch->grid, state->tracked);
  return stacks_.reserve(resident * threads, options.stack_bytes);
}

void Engine::run(const Launch& new_launch, LaunchState& new_state, const Options& new_options) {
  options = new_options;
  state = &new_state;
  if (!prepare(new_launch)) {
    state->fail("no memory for the stacks of the threads");
    return;
  }
  for (;;) {
    bool any = false;
    for (size_t slot = 0; slot < blocks.size(); ++slot) {
      uint64_t linear;
      if (!blocks[slot]->running && state->take_block(linear)) {
        start_block(*blocks[slot], slot, linear);
      }
      any = any || blocks[slot]->running;
    }
    if (!any || state->failed) break;
    Fiber* first = pick();
    if (first == nullptr) {  // a block has finished, the others wait
      state->fail(resolve_addresses("deadlock" + list_waiting_threads()));
      break;
    }
    current = first;
    switch_context(os_thread_, first->context);  // comes back when a block finishes, or at an error
    current = nullptr;
    if (failed) {
      state->fail(resolve_addresses(error));
      break;
    }
    for (const auto& block : blocks) {
      if (block->running && block->live == 0) finish_block(*block);
    }
  }
  if (!marked_idle_) ++state->idle;  // as far as others are concerned
}

void Engine::start_block(Block& block, size_t slot, uint64_t linear) {
  const dim3 grid = launch->grid;
  const dim3 dim = launch->block;
  const uint64_t plane = uint64_t{grid.x} * grid.y;
  block.linear = linear;
  block.index = make_uint3(static_cast<uint32_t>(linear % grid.x),
                           static_cast<uint32_t>(linear / grid.x % grid.y),
                           static_cast<uint32_t>(linear / plane));
  block.running = true;
  block.live = threads;
  prepare_shared_memory(block, launch->dynamic_shared_bytes);
  block.fibers.resize(threads);
  block.warps.assign(warps_per_block_, Warp());
  reset_barriers(block);
  block.memory_barriers.clear();
  block.loads.clear();
  block.warpgroups.assign((warps_per_block_ + 3) / 4, Warpgroup());
  races.start_block(block, launch->dynamic_shared_bytes);

  for (uint32_t w = 0; w < warps_per_block_; ++w) {
    Warp& warp = block.warps[w];
    warp.block = &block;
    warp.lanes = &block.fibers[w * 32];
    warp.index = static_cast<uint32_t>(slot) * warps_per_block_ + w;
    const uint32_t lanes = threads - w * 32;
    warp.exist = lanes >= 32 ? ~0u : (1u << lanes) - 1;
  }
  for (uint32_t t = 0; t < threads; ++t) {
    Fiber& fiber = block.fibers[t];
    fiber.thread_index = make_uint3(t % dim.x, t / dim.x % dim.y, t / (dim.x * dim.y));
    fiber.block_index = block.index;
    fiber.block_dim = dim;
    fiber.grid_dim = grid;
    fiber.shared = block.shared;
    fiber.linear = t;
    fiber.lane = t % 32;
    fiber.warp = t / 32;
    fiber.block = &block;
    fiber.warp_state = &block.warps[fiber.warp];
    fiber.exchange = &fiber.warp_state->exchange;
    fiber.done = false;
    fiber.spinning = Site();
    fiber.copies.clear();
    fiber.copy_group = 0;
    fiber.stores.clear();
    fiber.store_group = 0;
    fiber.awaits = Site();
    // Stacks lie at multiples of the page size: without an offset of their own, the same variable
    // of all lanes would fall into the same set of the first-level cache. 32 lanes times 128 bytes
    // spread over all sets.
    char* bottom = stacks_.bottom(slot * threads + t);
    char* top = bottom + stacks_.bytes() - fiber.lane * 128;
    prepare_context(fiber.context, bottom, stacks_.bytes(), top, &Engine::enter);
    make_ready(*fiber.warp_state, 1u << fiber.lane);
  }
}

void Engine::enter() {
  entered_context(engine->os_thread_);
  engine->launch->call(engine->launch->arguments);
  engine->exit(self_fiber());
}

void Engine::exit(Fiber& self) {
  note_progress();
  if (!self.copies.empty()) {
    fail(format("exits with an unfinished cp.async issued at %s",
                describe(self.copies.front().site).text));
  }
  if (!self.stores.empty()) {
    fail(format("exits before the TMA store issued at %s has read shared memory",
                describe(self.stores.front().site).text));
  }
  check_products_at_exit(self);
  check_warpgroup_at_exit(self);
  for (const Meeting& meeting : self.warp_state->meetings) {
    if ((meeting.mask >> self.lane & 1) == 0) continue;
    fail(format("exits while lanes %s wait for it in %s at %s (mask %08x)",
                describe_lanes(meeting.arrived).text, meeting.name, describe(meeting.site).text,
                meeting.mask));
  }
  const Barrier& barrier = self.block->barriers[0];
  if (barrier.count != 0 && barrier.whole_block) {
    fail(format("exits while %u warps wait at the barrier at %s", barrier.count,
                describe(barrier.first_site).text));
  }
  if (self.block->live == 1 && !self.block->loads.empty()) {
    fail(format("the block exits while the TMA load issued at %s is in flight",
                describe(self.block->loads.front().site).text));
  }
  self.done = true;
  self.warp_state->done |= 1u << self.lane;
  Fiber* next = nullptr;
  if (--self.block->live != 0) {
    next = pick();
    if (next == nullptr) stuck("deadlock");
  }
  switch_to(self, next, true);
  __builtin_unreachable();
}

void Engine::finish_block(Block& block) {
  block.running = false;
#if STROBE_HOST_ASAN
  // AddressSanitizer reported any overrun when it happened.
#else
  long offset;
  if (find_overrun(block, launch->dynamic_shared_bytes, offset)) {
    state->fail(format("block (%u,%u,%u) wrote outside its %zu bytes of dynamic shared memory, at "
                       "offset %ld (AddressSanitizer or check_races with -fsanitize=thread name "
                       "the place)",
                       block.index.x, block.index.y, block.index.z, launch->dynamic_shared_bytes,
                       offset)
                    .text);
  }
#endif
}

}  // namespace host
}  // namespace STROBE_ABI
}  // namespace strobe
