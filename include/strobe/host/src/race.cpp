// SPDX-License-Identifier: MIT
// The race checker: what threads know of each other, and what each two bytes of memory saw last.
// Layer: host execution, internal.
#include "race.hpp"

#include <algorithm>

#include "engine.hpp"

namespace strobe {
inline namespace STROBE_ABI {
namespace host {

bool instrumented = false;

bool plain_accesses_are_seen() { return instrumented; }

namespace {

void join(uint32_t* into, const uint32_t* from, size_t count) {
  for (size_t i = 0; i < count; ++i) into[i] = std::max(into[i], from[i]);
}

// Nearly always one of the two adds nothing, and is shared instead of copied.
Foreign merge(const Foreign& a, const Foreign& b) {
  if (b == nullptr || a == b) return a;
  if (a == nullptr) return b;
  auto result = std::make_shared<ForeignClocks>(*a);
  for (const auto& [block, clocks] : b->blocks) {
    ThreadClocks& known = result->blocks[block];
    if (known == nullptr) {
      known = clocks;
    } else if (known != clocks) {
      auto both = std::make_shared<std::vector<uint32_t>>(*known);
      join(both->data(), clocks->data(), both->size());
      known = std::move(both);
    }
  }
  return result;
}

}  // namespace

void Shadow::reset(size_t bytes) {
  cells_.assign((bytes + kGranule - 1) / kGranule, Cell());
  reads_.clear();
  free_reads_.clear();
}

void RaceChecker::start_launch(bool check, uint32_t threads, dim3 grid,
                               const std::vector<TrackedRange>& ranges) {
  enabled = check;
  threads_ = threads;
  warps_ = (threads + 31) / 32;
  entries_ = threads + kLoadUnits + 2 * warps_;
  grid_ = grid;
  ranges_.clear();
  locations_.clear();
  if (!check) return;
  for (const TrackedRange& range : ranges) {
    ranges_.emplace_back();
    ranges_.back().range = range;
    ranges_.back().pages.resize((range.bytes + kPage - 1) / kPage);
  }
}

void RaceChecker::start_block(Block& block, size_t shared_bytes) {
  if (!enabled) return;
  BlockClocks& clocks = block.clocks;
  clocks.own.assign(size_t{threads_} * entries_, 0);
  for (uint32_t t = 0; t < threads_; ++t) clocks.own[size_t{t} * entries_ + t] = 1;
  clocks.foreign.assign(threads_, nullptr);
  clocks.fenced.assign(threads_, nullptr);
  clocks.unfenced.assign(threads_, nullptr);
  clocks.proxy_fences.assign(threads_, {});
  block.shadow.reset(shared_bytes);
}

// ---- order --------------------------------------------------------------------------------------

uint32_t* RaceChecker::row(const Fiber& thread) {
  return &thread.block->clocks.own[size_t{thread.linear} * entries_];
}

// Where in a clock a unit stands.
uint32_t RaceChecker::unit_index(AsyncUnit unit, uint32_t number) const {
  if (unit == AsyncUnit::tile_load) return threads_ + number % kLoadUnits;
  return threads_ + kLoadUnits + (unit == AsyncUnit::wgmma ? 0 : warps_) + number;
}

uint32_t RaceChecker::known(const Fiber& thread, uint64_t block, uint32_t other) {
  if (block == thread.block->linear) return row(thread)[other];
  const Foreign& foreign = thread.block->clocks.foreign[thread.linear];
  if (foreign == nullptr) return 0;
  const auto found = foreign->blocks.find(block);
  return found == foreign->blocks.end() ? 0 : (*found->second)[other];
}

void RaceChecker::release(const Fiber& thread, Clock& into) {
  into.own.resize(entries_);
  join(into.own.data(), row(thread), entries_);
  into.foreign = merge(into.foreign, thread.block->clocks.foreign[thread.linear]);
  ++row(thread)[thread.linear];
}

void RaceChecker::acquire(const Fiber& thread, const Clock& from) {
  join(row(thread), from.own.data(), from.own.size());
  Foreign& foreign = thread.block->clocks.foreign[thread.linear];
  foreign = merge(foreign, from.foreign);
}

// All that a thread knows, its own block included, in the form that other blocks can learn.
Foreign RaceChecker::everything(const Fiber& thread) {
  const Foreign& foreign = thread.block->clocks.foreign[thread.linear];
  auto result = foreign == nullptr ? std::make_shared<ForeignClocks>()
                                   : std::make_shared<ForeignClocks>(*foreign);
  const uint32_t* own = row(thread);
  result->blocks[thread.block->linear] =
      std::make_shared<std::vector<uint32_t>>(own, own + entries_);
  return result;
}

void RaceChecker::learn(const Fiber& thread, const Foreign& clocks) {
  if (clocks == nullptr) return;
  const auto own = clocks->blocks.find(thread.block->linear);
  if (own != clocks->blocks.end()) join(row(thread), own->second->data(), entries_);
  Foreign& foreign = thread.block->clocks.foreign[thread.linear];
  foreign = merge(foreign, clocks);
}

// A location hands on what was released into it. Relaxed operations do so for fences: what a fence
// published before a relaxed write, and what a relaxed read saw before a fence.
void RaceChecker::atomic(const Fiber& thread, const void* pointer, AtomicKind kind,
                         Ordering ordering) {
  const bool acquires = ordering == Ordering::acquire || ordering == Ordering::acq_rel;
  const bool releases = ordering == Ordering::release || ordering == Ordering::acq_rel;
  BlockClocks& clocks = thread.block->clocks;
  Foreign& location = locations_[pointer];
  if (kind != AtomicKind::store) {
    if (acquires) {
      learn(thread, location);
    } else {
      clocks.unfenced[thread.linear] = merge(clocks.unfenced[thread.linear], location);
    }
  }
  if (kind == AtomicKind::load) return;
  const Foreign published = releases ? everything(thread) : clocks.fenced[thread.linear];
  location = kind == AtomicKind::store ? published : merge(location, published);
  if (releases) ++row(thread)[thread.linear];
}

void RaceChecker::fence(const Fiber& thread) {
  BlockClocks& clocks = thread.block->clocks;
  learn(thread, clocks.unfenced[thread.linear]);
  clocks.unfenced[thread.linear] = nullptr;
  clocks.fenced[thread.linear] = everything(thread);
  ++row(thread)[thread.linear];
}

void RaceChecker::proxy_fence(const Fiber& thread) {
  if (!enabled) return;
  thread.block->clocks.proxy_fences[thread.linear].push_back(row(thread)[thread.linear]++);
}

void RaceChecker::complete(const Fiber& thread, AsyncUnit unit, uint32_t number, uint32_t count) {
  if (!enabled) return;
  uint32_t& known = row(thread)[unit_index(unit, number)];
  known = std::max(known, count);
}

void RaceChecker::complete(Clock& clock, AsyncUnit unit, uint32_t number, uint32_t count) {
  if (!enabled) return;
  clock.own.resize(entries_);
  uint32_t& known = clock.own[unit_index(unit, number)];
  known = std::max(known, count);
}

uint32_t RaceChecker::count_of(const Fiber& thread) {
  return enabled ? row(thread)[thread.linear] : 0;
}

bool RaceChecker::knows(const Fiber& thread, uint32_t other, uint32_t count) {
  return !enabled || row(thread)[other] >= count;
}

// Has the writer told the async proxy of the write, and does the accessing thread know of that?
bool RaceChecker::published(const Access& access, const Cell& cell) {
  if (cell.write_clock == 0 || cell.async_write) return true;
  const auto& fences = access.thread->block->clocks.proxy_fences[cell.write_thread];
  const auto fence = std::lower_bound(fences.begin(), fences.end(), cell.write_clock);
  return fence != fences.end() && *fence <= row(*access.thread)[cell.write_thread];
}

// ---- accesses -----------------------------------------------------------------------------------

// Which bytes of the cell at `cell_offset` lie in from .. to - 1.
uint8_t RaceChecker::mask_of(size_t cell_offset, size_t from, size_t to) {
  return static_cast<uint8_t>((cell_offset >= from ? 1 : 0) | (cell_offset + 1 < to ? 2 : 0));
}

void RaceChecker::check_shared(const Access& access, uint32_t offset, uint32_t bytes) {
  Shadow& shadow = access.thread->block->shadow;
  const size_t last = (size_t{offset} + bytes - 1) / Shadow::kGranule;
  for (size_t i = offset / Shadow::kGranule; i <= last; ++i) {
    const size_t at = i * Shadow::kGranule;
    const Place place{nullptr, at, mask_of(at, offset, size_t{offset} + bytes)};
    if (access.write) {
      check_write(access, shadow, shadow.cells_[i], place);
    } else {
      check_read(access, shadow, shadow.cells_[i], place);
    }
  }
}

// Neighbouring cells mostly come from one write: the other lanes are asked once for each.
void RaceChecker::check_warp_read(const Access& access, uint32_t offset, uint32_t bytes) {
  check_shared(access, offset, bytes);
  const Shadow& shadow = access.thread->block->shadow;
  uint32_t thread = 0, clock = 0;
  const size_t last = (size_t{offset} + bytes - 1) / Shadow::kGranule;
  for (size_t i = offset / Shadow::kGranule; i <= last; ++i) {
    const Cell& cell = shadow.cells_[i];
    if (cell.write_clock == 0 || (cell.write_thread == thread && cell.write_clock == clock))
      continue;
    thread = cell.write_thread;
    clock = cell.write_clock;
    for (uint32_t lane = 1; lane < 32; ++lane) {
      const Fiber& other = access.thread[lane];
      if (knows(other, thread, clock)) continue;
      Access its = access;
      its.thread = &other;
      race("read after write", its, {nullptr, i * Shadow::kGranule, 3}, cell.write_block, thread,
           cell.write_site);
    }
  }
}

void RaceChecker::check_global(const Access& access, const void* pointer, size_t bytes) {
  const auto* begin = static_cast<const unsigned char*>(pointer);
  for (Range& r : ranges_) {
    if (begin + bytes <= r.range.begin || begin >= r.range.begin + r.range.bytes) continue;
    const size_t from = begin > r.range.begin ? static_cast<size_t>(begin - r.range.begin) : 0;
    const size_t to = std::min(r.range.bytes, static_cast<size_t>(begin + bytes - r.range.begin));
    for (size_t at = from / Shadow::kGranule * Shadow::kGranule; at < to; at += Shadow::kGranule) {
      std::unique_ptr<Shadow>& page = r.pages[at / kPage];
      if (page == nullptr) {
        page = std::make_unique<Shadow>();
        page->reset(kPage);
      }
      Cell& cell = page->cells_[at % kPage / Shadow::kGranule];
      const Place place{r.range.begin, at, mask_of(at, from, to)};
      if (access.write) {
        check_write(access, *page, cell, place);
      } else {
        check_read(access, *page, cell, place);
      }
    }
  }
}

void RaceChecker::set_pending(const Fiber& thread, uint32_t offset, uint32_t bytes, bool pending) {
  if (!enabled) return;
  Shadow& shadow = thread.block->shadow;
  const size_t last = (size_t{offset} + bytes - 1) / Shadow::kGranule;
  for (size_t i = offset / Shadow::kGranule; i <= last; ++i) shadow.cells_[i].pending = pending;
}

void RaceChecker::check_read(const Access& access, Shadow& shadow, Cell& cell, Place place) {
  if (cell.pending) {
    engine->fail(
        format("reads smem+0x%zx at %s before the cp.async issued at %s has been waited for",
               place.offset, describe(access.site).text, describe(cell.write_site).text));
  }
  if (cell.write_clock == 0) {
    // Without instrumentation a plain store may have written it unseen; global memory may come from
    // the host.
    if (instrumented && place.begin == nullptr) {
      engine->fail(format("reads smem+0x%zx at %s, which nobody has written (yet)", place.offset,
                          describe(access.site).text));
    }
  } else if (!(access.atomic && cell.atomic_write) && (cell.write_mask & place.mask) != 0 &&
             cell.write_clock > known(*access.thread, cell.write_block, cell.write_thread)) {
    race("read after write", access, place, cell.write_block, cell.write_thread, cell.write_site);
  }
  if (access.unit != AsyncUnit::none && !published(access, cell)) unpublished(access, place, cell);
  // Atomic reads are not remembered: a plain write that races with one races with a write
  // elsewhere, too, in every protocol that has a meaning.
  if (!access.atomic) remember_read(access, shadow, cell, place.mask);
}

void RaceChecker::remember_read(const Access& access, Shadow& shadow, Cell& cell, uint8_t mask) {
  const Fiber& thread = *access.thread;
  const uint64_t block = thread.block->linear;
  const bool async = access.unit != AsyncUnit::none;
  const uint32_t clock = async ? access.count : row(thread)[thread.linear];
  const uint32_t reader = async ? unit_index(access.unit, access.unit_number) : thread.linear;
  const auto ordered = [&](uint64_t other_block, uint32_t other, uint32_t other_clock) {
    return (other_block == block && other == reader) ||
           other_clock <= known(thread, other_block, other);
  };
  if (cell.more_reads < 0) {
    if (cell.read_clock == 0 || ordered(cell.read_block, cell.read_thread, cell.read_clock)) {
      cell.read_block = block;
      cell.read_thread = static_cast<uint16_t>(reader);
      cell.read_clock = clock;
      cell.read_mask = mask;
      cell.read_site = access.site;
      return;
    }
    if (shadow.free_reads_.empty()) {
      cell.more_reads = static_cast<int32_t>(shadow.reads_.size());
      shadow.reads_.emplace_back();
    } else {
      cell.more_reads = shadow.free_reads_.back();
      shadow.free_reads_.pop_back();
    }
    shadow.reads_[static_cast<size_t>(cell.more_reads)].assign(
        1, {cell.read_block, cell.read_clock, cell.read_thread, cell.read_mask, cell.read_site});
  }
  auto& reads = shadow.reads_[static_cast<size_t>(cell.more_reads)];
  reads.erase(
      std::remove_if(reads.begin(), reads.end(),
                     [&](const Shadow::Read& r) { return ordered(r.block, r.thread, r.clock); }),
      reads.end());
  reads.push_back({block, clock, static_cast<uint16_t>(reader), mask, access.site});
}

void RaceChecker::check_write(const Access& access, Shadow& shadow, Cell& cell, Place place) {
  const Fiber& thread = *access.thread;
  if (cell.pending) {
    engine->fail(
        format("writes smem+0x%zx at %s before the cp.async issued at %s has been waited "
               "for",
               place.offset, describe(access.site).text, describe(cell.write_site).text));
  }
  if (cell.write_clock != 0 && !(access.atomic && cell.atomic_write) &&
      (cell.write_mask & place.mask) != 0 &&
      cell.write_clock > known(thread, cell.write_block, cell.write_thread)) {
    race("write after write", access, place, cell.write_block, cell.write_thread, cell.write_site);
  }
  if (cell.more_reads >= 0) {
    auto& reads = shadow.reads_[static_cast<size_t>(cell.more_reads)];
    for (const Shadow::Read& r : reads) {
      if ((r.mask & place.mask) != 0 && r.clock > known(thread, r.block, r.thread)) {
        race("write after read", access, place, r.block, r.thread, r.site);
      }
    }
    shadow.free_reads_.push_back(cell.more_reads);
    cell.more_reads = -1;
  } else if (cell.read_clock != 0 && (cell.read_mask & place.mask) != 0 &&
             cell.read_clock > known(thread, cell.read_block, cell.read_thread)) {
    race("write after read", access, place, cell.read_block, cell.read_thread, cell.read_site);
  }
  const bool async = access.unit != AsyncUnit::none;
  if (async && !published(access, cell)) unpublished(access, place, cell);
  cell.read_clock = 0;
  cell.write_block = thread.block->linear;
  cell.write_thread =
      static_cast<uint16_t>(async ? unit_index(access.unit, access.unit_number) : thread.linear);
  cell.write_clock = async ? access.count : row(thread)[thread.linear];
  cell.async_write = async;
  cell.write_mask = place.mask;
  cell.write_site = access.site;
  cell.atomic_write = access.atomic;
}

void RaceChecker::unpublished(const Access& access, Place place, const Cell& cell) {
  engine->fail(
      format("the async proxy %s smem+0x%zx at %s, but thread %u, which wrote it at %s, has "
             "issued no fence.proxy.async since, or no barrier after that",
             access.write ? "overwrites" : "reads", place.offset, describe(access.site).text,
             cell.write_thread, describe(cell.write_site).text));
}

void RaceChecker::race(const char* kind, const Access& access, Place place, uint64_t block,
                       uint32_t thread, Site site) {
  const Message here = describe(access.site);
  const Message there = describe(site);
  if (place.begin == nullptr) {
    Message other = format("thread %u", thread);
    if (thread >= threads_) {
      const char* what = thread < threads_ + kLoadUnits            ? "TMA load"
                         : thread < threads_ + kLoadUnits + warps_ ? "wgmma"
                                                                   : "TMA store";
      other = format("a %s not waited for, issued", what);
    }
    engine->fail(format("shared-memory race (%s) at smem+0x%zx: thread %u at %s; %s at %s", kind,
                        place.offset, access.thread->linear, here.text, other.text, there.text));
  }
  const uint64_t plane = uint64_t{grid_.x} * grid_.y;
  engine->fail(format(
      "global-memory race (%s) at byte %zu of the range tracked from %p: at %s; "
      "block (%llu,%llu,%llu) thread %u at %s",
      kind, place.offset, place.begin, here.text, static_cast<unsigned long long>(block % grid_.x),
      static_cast<unsigned long long>(block / grid_.x % grid_.y),
      static_cast<unsigned long long>(block / plane), thread, there.text));
}

}  // namespace host
}  // namespace STROBE_ABI
}  // namespace strobe
