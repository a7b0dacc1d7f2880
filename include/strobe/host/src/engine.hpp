// SPDX-License-Identifier: MIT
// The state of host execution on one OS thread: fibers, warps, barriers and blocks, and the engine
// that runs them. Each concern has its .cpp file: scheduler, barrier, warp, matrix, async_copy,
// memory, atomic, race, launch, and for Hopper mbarrier, tma, warpgroup, wgmma.
// Layer: host execution, internal.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "../execution.hpp"
#include "../runtime.hpp"
#include "fiber.hpp"
#include "mbarrier.hpp"
#include "race.hpp"
#include "report.hpp"
#include "tma.hpp"
#include "wgmma.hpp"

namespace strobe {
inline namespace STROBE_ABI {
namespace host {

struct Block;
struct Warp;
class Engine;

// cp.async in flight.
struct PendingCopy {
  uint32_t destination;  // offset in dynamic shared memory
  uint32_t bytes;
  uint32_t source_bytes;  // the rest are zero
  uint32_t group;
  const void* source;
  bool done;  // the bytes are already there (eager), unknown to the kernel
  Site site;
};

// A CUDA thread. Its hot fields share a cache line with those of Thread: a switch touches little
// else of it.
struct alignas(64) Fiber : Thread {
  Warp* warp_state = nullptr;
  Context context;
  Block* block = nullptr;
  bool done = false;
  Site spinning;  // where it last yielded
  std::vector<PendingCopy> copies;
  uint32_t copy_group = 0;
  std::vector<TileCopy> stores;
  uint32_t store_group = 0;
  uint32_t awaited = 0;  // offset of the mbarrier it waits for, where `awaits` is known
  Site awaits;
};

// Lanes of a warp meeting in a collective. mask == 0: free.
struct Meeting {
  uint32_t mask = 0;
  uint32_t arrived = 0;
  const char* name = nullptr;
  Site site;
};

struct Warp {
  Block* block = nullptr;
  Fiber* lanes = nullptr;  // 32 of them, or fewer in the last warp
  uint32_t index = 0;      // among all resident warps
  uint32_t exist = 0;
  uint32_t ready = 0;
  uint32_t spinning = 0;  // lanes that have yielded: ready when nobody else is
  uint32_t done = 0;
  // Disjoint masks can be open at once, so there are at most 32; a converged warp uses the first
  // alone.
  Meeting meetings[32];
  uint32_t open_meetings = 0;
  uint32_t stores = 0;  // of tiles, issued by its lanes
  WarpProducts products;
  WarpExchange exchange;
};

// __syncthreads and the named barriers, one phase at a time.
struct Barrier {
  uint32_t expected = 0;  // warps, 0 while nobody is there
  uint32_t count = 0;
  bool whole_block = false;
  Site first_site;
  // For each warp:
  std::vector<bool> arrived;
  std::vector<uint32_t> waiting;  // lanes
  std::vector<Site> site;
  int predicates = 0;
  int result = 0;
  Clock clock;
};

constexpr uint32_t kBarriers = 16;

// Shared addresses start here: aligned as dynamic shared memory is, and address 0 stays invalid.
constexpr uint32_t kSharedBase = 1024;
// Bytes on both sides of dynamic shared memory whose change is an overrun.
constexpr size_t kSharedGuard = 1024;

struct Block {
  uint3 index{};
  uint64_t linear = 0;
  bool running = false;
  uint32_t live = 0;
  std::vector<Fiber> fibers;
  std::vector<Warp> warps;
  Barrier barriers[kBarriers];
  std::vector<MemoryBarrier> memory_barriers;
  std::vector<TileCopy> loads;  // in flight, oldest first
  std::vector<Warpgroup> warpgroups;
  std::vector<unsigned char> arena;
  unsigned char* shared = nullptr;
  BlockClocks clocks;
  Shadow shadow;
};

// What the OS threads of one launch share.
struct LaunchState;

class Engine {
 public:
  Options options;
  const Launch* launch = nullptr;
  LaunchState* state = nullptr;
  uint32_t threads = 0;  // of a block
  bool failed = false;
  std::string error;
  std::vector<std::unique_ptr<Block>> blocks;  // resident
  RaceChecker races;

  // Runs blocks of the launch until none is left or one has failed.
  void run(const Launch& launch, LaunchState& state, const Options& options);

  // ---- scheduler.cpp: called on fibers ----------------------------------------------------------
  void make_ready(Warp& warp, uint32_t lanes) {
    warp.ready |= lanes;
    if (lanes != 0) ready_warps_[warp.index / 64] |= uint64_t{1} << warp.index % 64;
  }
  // Lets others run until somebody makes the calling fiber ready. Where it waits, the warp's
  // meetings and the block's barriers know.
  void wait(Fiber& self);
  void yield(Fiber& self, Site site);
  // Something happened that a spinning thread may be waiting for.
  void note_progress() { progress_ = true; }
  [[noreturn]] void fail(const char* text);
  [[noreturn]] void fail(const Message& message) { fail(message.text); }
  void trace(TraceEvent::Kind kind, const Block& block, uint32_t thread, uint32_t at,
             uint32_t value) const {
    if (options.trace != nullptr)
      options.trace(options.trace_context, {kind, block.linear, thread, at, value});
  }
  // memory.cpp: a load or store by plain code, told by the compiler's instrumentation.
  void plain_access(const void* pointer, size_t bytes, bool write, Site site);
  // Whether an asynchronous operation takes place at its issue already.
  bool at_once() {
    return options.asynchrony == Asynchrony::eager ||
           (options.asynchrony == Asynchrony::mixed && random() % 2 == 0);
  }
  uint64_t random() {
    random_ ^= random_ << 13;
    random_ ^= random_ >> 7;
    random_ ^= random_ << 17;
    return random_;
  }

 private:
  static void enter();
  bool prepare(const Launch& launch);
  void start_block(Block& block, size_t slot, uint64_t linear);
  void finish_block(Block& block);
  [[noreturn]] void exit(Fiber& self);
  Fiber* pick();
  Fiber* take_lane(Warp& warp, uint32_t bit);
  Fiber* pick_random();
  Warp& nearest_ready_warp(bool backwards);
  Warp& warp(uint32_t index);
  void switch_to(Fiber& from, Fiber* to, bool finished);
  [[noreturn]] void stuck(const char* what);
  std::string list_waiting_threads() const;
  // tma.cpp: lands loads that somebody waits for, until one of the waiting can go on.
  bool land_loads();
  bool any_ready() const;
  bool wake_spinning();
  void check_progress();

  std::vector<std::unique_ptr<Block>> spare_;  // of earlier launches with more resident blocks
  Context os_thread_;
  Stacks stacks_;
  std::vector<uint64_t> ready_warps_;
  uint32_t warps_per_block_ = 0;
  uint32_t current_warp_ = 0;
  uint64_t random_ = 1;
  bool progress_ = false;  // since the spinning threads last ran
  int idle_rounds_ = 0;
  bool marked_idle_ = false;
};

extern __thread Engine* engine;

inline Fiber& self_fiber() { return *static_cast<Fiber*>(current); }

// "block (1,0,0) thread 37 (warp 1 lane 5)".
Message describe_thread(const Fiber& fiber);

}  // namespace host
}  // namespace STROBE_ABI
}  // namespace strobe
