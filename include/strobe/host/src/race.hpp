// SPDX-License-Identifier: MIT
// Happens-before checking of shared memory and of tracked global memory: vector clocks, as in
// FastTrack (Flanagan and Freund, PLDI 2009). Every thread counts its releases; an access is a
// race if an earlier one to the same bytes, at least one of them a write, is not known to the
// thread through barriers, __syncwarp or acquiring atomics. It does not depend on the order in
// which threads happened to run, so that one order finds the races of all.
// What Hopper's instructions do on their own, after their issue, has counts too, those of units (a
// barrier's loads, a warp's products): who has waited for an operation knows the count of its unit.
// Layer: host execution, internal.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <unordered_map>
#include <vector>

#include "../runtime.hpp"

namespace strobe {
inline namespace STROBE_ABI {
namespace host {

struct Fiber;
struct Block;
class Engine;

// What is known of other blocks: for each its number in the grid and a clock entry for each of its
// threads. Never changed once made, so that the threads of a block, and blocks after each other,
// share one.
using ThreadClocks = std::shared_ptr<const std::vector<uint32_t>>;
struct ForeignClocks {
  std::map<uint64_t, ThreadClocks> blocks;
};
using Foreign = std::shared_ptr<const ForeignClocks>;

// What threads of one block know or hand over: an entry for each thread and unit of the block,
// and other blocks.
struct Clock {
  std::vector<uint32_t> own;
  Foreign foreign;
};

// The clocks of a block's threads.
struct BlockClocks {
  // Row t: what thread t knows of each thread and unit; [t][t] is its own count.
  std::vector<uint32_t> own;
  std::vector<Foreign> foreign;  // of each thread
  std::vector<Foreign> fenced;   // of each thread: what its last __threadfence published
  std::vector<Foreign>
      unfenced;  // of each thread: what relaxed atomics have read, not yet acquired
  std::vector<std::vector<uint32_t>> proxy_fences;  // of each thread: its counts at them, ascending
};

// What else than threads touches shared memory. An mbarrier's tile loads count its phases, a warp's
// products their groups, a warp's tile stores themselves. Where there are more mbarriers than
// entries some share one, which may hide a race, but makes none up.
enum class AsyncUnit : uint32_t { none, tile_load, wgmma, tile_store };
constexpr uint32_t kLoadUnits = 32;

struct Access {
  const Fiber* thread;
  bool write;
  bool atomic;
  Site site;
  // By the async proxy: over when this unit has counted to `count`.
  AsyncUnit unit = AsyncUnit::none;
  uint32_t unit_number = 0;
  uint32_t count = 0;
};

// The accesses last seen to two bytes of memory. Which of the two is in the masks: threads may use
// one each. (Of two unordered accesses to different bytes only the newer is remembered; 16-bit
// elements, the usual case, lose nothing.)
struct Cell {
  uint64_t write_block = 0;
  uint64_t read_block = 0;
  uint32_t write_clock = 0;  // 0: never written
  uint32_t read_clock = 0;   // 0: not read since
  uint16_t write_thread = 0;
  uint16_t read_thread = 0;
  uint8_t write_mask = 0;
  uint8_t read_mask = 0;
  bool atomic_write = false;
  bool async_write = false;  // by the async proxy
  bool pending = false;      // a cp.async is in flight
  int32_t more_reads = -1;   // index of a list, when reads are not ordered among themselves
  Site write_site;
  Site read_site;
};

// Cells of a piece of memory.
class Shadow {
 public:
  static constexpr size_t kGranule = 2;
  void reset(size_t bytes);
  size_t cells() const { return cells_.size(); }

 private:
  friend class RaceChecker;
  struct Read {
    uint64_t block;
    uint32_t clock;
    uint16_t thread;
    uint8_t mask;
    Site site;
  };
  std::vector<Cell> cells_;
  std::vector<std::vector<Read>> reads_;
  std::vector<int32_t> free_reads_;
};

struct TrackedRange {
  const unsigned char* begin;
  size_t bytes;
};

class RaceChecker {
 public:
  bool enabled = false;

  void start_launch(bool check, uint32_t threads, dim3 grid,
                    const std::vector<TrackedRange>& ranges);
  void start_block(Block& block, size_t shared_bytes);

  // ---- order ------------------------------------------------------------------------------------
  void release(const Fiber& thread, Clock& into);
  void acquire(const Fiber& thread, const Clock& from);
  void atomic(const Fiber& thread, const void* pointer, AtomicKind kind, Ordering ordering);
  void fence(const Fiber& thread);
  void proxy_fence(const Fiber& thread);
  // A unit has counted to `count`: the thread knows, or whoever acquires the clock.
  void complete(const Fiber& thread, AsyncUnit unit, uint32_t number, uint32_t count);
  void complete(Clock& clock, AsyncUnit unit, uint32_t number, uint32_t count);
  // The thread's own count, and whether another thread of its block knows of it.
  uint32_t count_of(const Fiber& thread);
  bool knows(const Fiber& thread, uint32_t other, uint32_t count);

  // ---- accesses ---------------------------------------------------------------------------------
  void shared_access(const Access& access, uint32_t offset, uint32_t bytes) {
    if (enabled) check_shared(access, offset, bytes);
  }
  // Bytes outside every tracked range are ignored.
  void global_access(const Access& access, const void* pointer, size_t bytes) {
    if (enabled && !ranges_.empty()) check_global(access, pointer, bytes);
  }
  void set_pending(const Fiber& thread, uint32_t offset, uint32_t bytes, bool pending);
  // A read by a whole warp, whose lanes must all know of the write: `access` names lane 0.
  void warp_read(const Access& access, uint32_t offset, uint32_t bytes) {
    if (enabled) check_warp_read(access, offset, bytes);
  }

 private:
  struct Range {
    TrackedRange range;
    std::vector<std::unique_ptr<Shadow>> pages;
  };
  static constexpr size_t kPage = 4096;

  uint32_t* row(const Fiber& thread);
  uint32_t unit_index(AsyncUnit unit, uint32_t number) const;
  bool published(const Access& access, const Cell& cell);
  uint32_t known(const Fiber& thread, uint64_t block, uint32_t other);
  Foreign everything(const Fiber& thread);
  void learn(const Fiber& thread, const Foreign& clocks);
  // Where a cell is: `begin` is null for shared memory, else the start of a tracked range; and
  // which of its bytes.
  struct Place {
    const void* begin;
    size_t offset;
    uint8_t mask;
  };
  static uint8_t mask_of(size_t cell_offset, size_t from, size_t to);
  void check_shared(const Access& access, uint32_t offset, uint32_t bytes);
  void check_warp_read(const Access& access, uint32_t offset, uint32_t bytes);
  void check_global(const Access& access, const void* pointer, size_t bytes);
  void check_read(const Access& access, Shadow& shadow, Cell& cell, Place place);
  void check_write(const Access& access, Shadow& shadow, Cell& cell, Place place);
  void remember_read(const Access& access, Shadow& shadow, Cell& cell, uint8_t mask);
  [[noreturn]] void race(const char* kind, const Access& access, Place place, uint64_t block,
                         uint32_t thread, Site site);
  [[noreturn]] void unpublished(const Access& access, Place place, const Cell& cell);

  uint32_t threads_ = 0;
  uint32_t warps_ = 0;
  uint32_t entries_ = 0;  // of a clock: threads, then units of each kind
  dim3 grid_;
  std::vector<Range> ranges_;
  std::unordered_map<const void*, Foreign> locations_;
};

// True once a file compiled with -fsanitize=thread is in the program: plain accesses are seen, so
// that memory never seen written is uninitialised.
extern bool instrumented;

}  // namespace host
}  // namespace STROBE_ABI
}  // namespace strobe
