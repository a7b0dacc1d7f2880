// SPDX-License-Identifier: MIT
// TMA: boxes of a tensor to and from shared memory, and when they get there.
// Layer: host execution, internal.
#include "tma.hpp"

#include <algorithm>
#include <cstring>

#include "memory.hpp"

namespace strobe {
inline namespace STROBE_ABI {
namespace host {
namespace {

constexpr uint32_t kElement = 2;
constexpr uint32_t kChunk = 16;
constexpr uint32_t kMaxRow = 128;
constexpr uint64_t kTooMuch = 1 << 24;  // for any shared memory

// What a tensor map holds: a description squeezed into its 128 bytes, and a sign that it is one.
struct Encoded {
  uint64_t magic;
  uint64_t base;
  uint64_t strides[4];
  uint32_t extents[5];  // less one
  uint8_t box[5];       // less one
  uint8_t rank;
};
constexpr uint64_t kMagic = 0x70616d20726f736eu;

TensorDescription decode(const void* map, int rank, const char* name, Site site) {
  Encoded e;
  std::memcpy(&e, map, sizeof e);
  if (e.magic != kMagic) {
    engine->fail(format("%s at %s: %p is not a tensor map", name, describe(site).text, map));
  }
  if (e.rank != rank) {
    engine->fail(format("%s at %s: %d coordinates for a tensor map of %d dimensions", name,
                        describe(site).text, rank, int{e.rank}));
  }
  TensorDescription t{};
  t.base = reinterpret_cast<unsigned char*>(e.base);
  t.rank = rank;
  for (int d = 0; d < rank; ++d) {
    t.extents[d] = uint64_t{e.extents[d]} + 1;
    t.strides[d] = d == 0 ? kElement : e.strides[d - 1];
    t.box[d] = uint32_t{e.box[d]} + 1;
  }
  return t;
}

TileCopy describe_copy(const void* map, const int* at, int rank, uint32_t smem, const char* name,
                       Site site) {
  TileCopy copy{};
  copy.tensor = decode(map, rank, name, site);
  uint64_t bytes = kElement;
  for (int d = 0; d < rank; ++d) {
    bytes = std::min(bytes * copy.tensor.box[d], kTooMuch);
    copy.at[d] = at[d];
  }
  copy.bytes = static_cast<uint32_t>(bytes);
  copy.site = site;
  // Rows are packed, and the swizzle stays within 128 bytes.
  copy.shared =
      shared_offset(smem, (copy.bytes + kMaxRow - 1) / kMaxRow * kMaxRow, kMaxRow, name, site);
  return copy;
}

// The part of a box's row that lies inside the tensor.
struct Row {
  uint32_t shared;        // offset of the row before the swizzle
  unsigned char* global;  // of byte `begin`
  uint32_t begin, end;    // bytes of the row; equal: none
};

template <class Use>
void for_each_row(const TileCopy& copy, Use use) {
  const TensorDescription& t = copy.tensor;
  const uint32_t row_bytes = t.box[0] * kElement;
  const uint32_t rows = copy.bytes / row_bytes;
  const int64_t extent = static_cast<int64_t>(t.extents[0]);
  const int64_t from = copy.at[0] < 0 ? -copy.at[0] : 0;
  const int64_t to = extent - copy.at[0] < t.box[0] ? extent - copy.at[0] : int64_t{t.box[0]};
  for (uint32_t r = 0; r < rows; ++r) {
    bool inside = from < to;
    int64_t offset = (copy.at[0] + from) * kElement;
    uint32_t rest = r;
    for (int d = 1; d < t.rank; ++d) {
      const int64_t index = copy.at[d] + rest % t.box[d];
      rest /= t.box[d];
      inside = inside && index >= 0 && index < static_cast<int64_t>(t.extents[d]);
      if (inside) offset += index * static_cast<int64_t>(t.strides[d]);
    }
    Row row{copy.shared + r * row_bytes, nullptr, 0, 0};
    if (inside) {
      row.global = t.base + offset;
      row.begin = static_cast<uint32_t>(from) * kElement;
      row.end = static_cast<uint32_t>(to) * kElement;
    }
    use(row, row_bytes);
  }
}

void carry_out_load(unsigned char* shared, const TileCopy& copy) {
  for_each_row(copy, [&](const Row& row, uint32_t row_bytes) {
    unsigned char bytes[kMaxRow] = {};
    if (row.begin != row.end) std::memcpy(bytes + row.begin, row.global, row.end - row.begin);
    for (uint32_t c = 0; c < row_bytes; c += kChunk) {
      std::memcpy(shared + swizzle_128(row.shared + c), bytes + c, kChunk);
    }
  });
}

void carry_out_store(const unsigned char* shared, const TileCopy& copy) {
  for_each_row(copy, [&](const Row& row, uint32_t row_bytes) {
    unsigned char bytes[kMaxRow];
    for (uint32_t c = 0; c < row_bytes; c += kChunk) {
      std::memcpy(bytes + c, shared + swizzle_128(row.shared + c), kChunk);
    }
    if (row.begin != row.end) std::memcpy(row.global, bytes + row.begin, row.end - row.begin);
  });
}

void check_global(const Fiber& self, const TileCopy& copy, bool write) {
  if (!engine->races.enabled) return;
  for_each_row(copy, [&](const Row& row, uint32_t) {
    if (row.begin == row.end) return;
    engine->races.global_access({&self, write, false, copy.site}, row.global, row.end - row.begin);
  });
}

void land(Block& block, const TileCopy& load) {
  carry_out_load(block.shared, load);
  engine->trace(TraceEvent::Kind::tile_land, block, TraceEvent::kNoThread, load.shared, load.bytes);
  for (MemoryBarrier& barrier : block.memory_barriers) {
    if (barrier.offset == load.barrier) return complete_bytes(block, barrier, load.bytes);
  }
}

bool is_awaited(const Block& block, const TileCopy& load) {
  for (const MemoryBarrier& barrier : block.memory_barriers) {
    if (barrier.offset == load.barrier) return !barrier.waiting.empty();
  }
  return false;
}

}  // namespace

bool encode_tensor_map(void* map, size_t map_bytes, const void* base, int rank,
                       const uint64_t* extents, const uint64_t* strides_bytes,
                       const uint32_t* box) {
  static_assert(sizeof(Encoded) <= 128, "the size of a CUtensorMap");
  if (map_bytes < sizeof(Encoded) || base == nullptr || rank < 2 || rank > 5) return false;
  Encoded e{};
  e.magic = kMagic;
  e.base = reinterpret_cast<uintptr_t>(base);
  e.rank = static_cast<uint8_t>(rank);
  if (e.base % 16 != 0) return false;
  for (int d = 0; d < rank; ++d) {
    if (extents[d] == 0 || extents[d] > uint64_t{1} << 32 || box[d] == 0 || box[d] > 256) {
      return false;
    }
    e.extents[d] = static_cast<uint32_t>(extents[d] - 1);
    e.box[d] = static_cast<uint8_t>(box[d] - 1);
    if (d == 0) continue;
    if (strides_bytes[d - 1] % 16 != 0 || strides_bytes[d - 1] >= uint64_t{1} << 40) return false;
    e.strides[d - 1] = strides_bytes[d - 1];
  }
  if (box[0] * kElement % kChunk != 0 || box[0] * kElement > kMaxRow) return false;
  std::memset(map, 0, map_bytes);
  std::memcpy(map, &e, sizeof e);
  return true;
}

void tma_load(uint32_t dst_smem, const void* map, const int* at, int rank, uint32_t barrier_smem,
              Site site) {
  const Fiber& self = self_fiber();
  constexpr char kName[] = "TMA load";
  TileCopy load = describe_copy(map, at, rank, dst_smem, kName, site);
  const MemoryBarrier& barrier = find_barrier(self, barrier_smem, kName, site);
  if (!barrier.announced) {
    engine->fail(format("TMA load at %s: no mbarrier_fence_init after the mbarrier.init at %s",
                        describe(site).text, describe(barrier.site).text));
  }
  // An H200 stops at such a box: "an illegal instruction was encountered".
  if (at[0] * int{kElement} % int{kChunk} != 0) {
    engine->fail(
        format("TMA load at %s: coordinate %d of the contiguous dimension is not a multiple "
               "of 16 bytes",
               describe(site).text, at[0]));
  }
  load.barrier = barrier.offset;
  check_global(self, load, false);
  // Whoever has waited for the barrier's running phase knows the bytes.
  engine->races.shared_access(
      {&self, true, false, site, AsyncUnit::tile_load, barrier.number, barrier.phase + 1},
      load.shared, load.bytes);
  engine->trace(TraceEvent::Kind::tile_load, *self.block, self.linear, load.shared, load.bytes);
  if (engine->at_once()) return land(*self.block, load);
  std::memset(self.shared + load.shared, 0xff, load.bytes);  // NaN: too early a read shows
  self.block->loads.push_back(load);
}

void tma_leave_out(uint32_t dst_smem, uint32_t bytes, uint32_t barrier_smem, Site site) {
  const Fiber& self = self_fiber();
  constexpr char kName[] = "tma_leave_out";
  const MemoryBarrier& barrier = find_barrier(self, barrier_smem, kName, site);
  const uint32_t offset = shared_offset(dst_smem, bytes, kChunk, kName, site);
  engine->races.shared_access(
      {&self, true, false, site, AsyncUnit::tile_load, barrier.number, barrier.phase + 1}, offset,
      bytes);
  std::memset(self.shared + offset, 0xff, bytes);
}

// As late as can be: when nobody could go on otherwise.
bool Engine::land_loads() {
  for (const auto& block : blocks) {
    if (!block->running) continue;
    for (size_t i = 0; i < block->loads.size();) {
      if (!is_awaited(*block, block->loads[i])) {
        ++i;
        continue;
      }
      const TileCopy load = block->loads[i];
      block->loads.erase(block->loads.begin() + static_cast<std::ptrdiff_t>(i));
      land(*block, load);
      if (any_ready()) return true;
    }
  }
  return false;
}

void tma_store(const void* map, const int* at, int rank, uint32_t src_smem, Site site) {
  Fiber& self = self_fiber();
  TileCopy store = describe_copy(map, at, rank, src_smem, "TMA store", site);
  for (int d = 0; d < rank; ++d) {
    // A load may begin outside of the tensor; at such a store an H200 stops.
    if (at[d] < 0 || (d == 0 && at[0] * int{kElement} % int{kChunk} != 0)) {
      engine->fail(
          format("TMA store at %s: coordinate %d of dimension %d is negative, or not a "
                 "multiple of 16 bytes",
                 describe(site).text, at[d], d));
    }
  }
  store.group = self.store_group;
  store.number = ++self.warp_state->stores;
  engine->races.shared_access(
      {&self, false, false, site, AsyncUnit::tile_store, self.warp, store.number}, store.shared,
      store.bytes);
  check_global(self, store, true);
  if (engine->at_once()) {
    carry_out_store(self.shared, store);
    store.done = true;
  }
  self.stores.push_back(store);
}

void tma_store_commit() { ++self_fiber().store_group; }

void tma_store_wait_read(int newest) {
  Fiber& self = self_fiber();
  const uint32_t keep = static_cast<uint32_t>(newest);
  const uint32_t finished = self.store_group > keep ? self.store_group - keep : 0;
  size_t n = 0;
  for (; n < self.stores.size() && self.stores[n].group < finished; ++n) {
    const TileCopy& store = self.stores[n];
    if (!store.done) carry_out_store(self.shared, store);
    engine->races.complete(self, AsyncUnit::tile_store, self.warp, store.number);
  }
  self.stores.erase(self.stores.begin(), self.stores.begin() + static_cast<std::ptrdiff_t>(n));
}

void fence_proxy_async() {
  mbarrier_fence_init();
  engine->races.proxy_fence(self_fiber());
}

}  // namespace host
}  // namespace STROBE_ABI
}  // namespace strobe
