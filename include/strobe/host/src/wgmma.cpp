// SPDX-License-Identifier: MIT
// wgmma: each warp of a warpgroup does its 16 rows of the product, between the issue and the wait.
// Sums stay here until the wait; the lanes' accumulators hold NaN patterns meanwhile.
// Layer: host execution, internal.
#include "wgmma.hpp"

#include <cstring>

#include "collective.hpp"
#include "memory.hpp"
#include "tensor_core.hpp"

namespace strobe {
inline namespace STROBE_ABI {
namespace host {
namespace {

constexpr uint32_t kWholeWarp = 0xffffffffu;
constexpr int kMaxColumns = 256;
constexpr char kFence[] = "wgmma.fence";
constexpr char kProduct[] = "wgmma.mma_async";
constexpr char kCommit[] = "wgmma.commit_group";
constexpr char kWait[] = "wgmma.wait_group";

// ---- operands in shared memory ------------------------------------------------------------------

// What a descriptor says of the 128-byte swizzle's layouts (the PTX ISA calls rows_along_sum
// MN-major). Tiles of eight rows of 128 bytes lie `tile` apart down the rows, and `panel` apart
// along them, where the rows are longer than 64 elements. Or of the plain layout: 8x8 matrices of
// 128 contiguous bytes, `tile` apart down the rows and `panel` apart along them.
struct Operand {
  uint32_t start;  // offset in shared memory
  uint32_t panel;
  uint32_t tile;
  bool rows_along_sum;
  bool plain;

  // The 8x8 matrix of columns (of B; rows of A) 8 c .. and summed indices 8 k ..: its row i.
  uint32_t at(uint32_t c, uint32_t k, uint32_t i) const {
    if (plain) return start + c * tile + k * panel + i * 16;
    return swizzle_128(i * 128 + (rows_along_sum ? start + c / 8 * panel + k * tile + c % 8 * 16
                                                 : start + c * tile + k * 16));
  }
};

Operand decode(uint64_t descriptor, bool rows_along_sum) {
  const auto field = [&](int shift) {
    return static_cast<uint32_t>(descriptor >> shift & 0x3fff) << 4;
  };
  return {field(0) - kSharedBase, field(16), field(32), rows_along_sum, descriptor >> 62 == 0};
}

// Does the descriptor mean what Operand says, and is all of it in shared memory?
void check_operand(uint64_t descriptor, bool rows_along_sum, uint32_t columns, char letter,
                   Site site) {
  const Operand o = decode(descriptor, rows_along_sum);
  const uint32_t within = o.start % 1024;
  const bool aligned = rows_along_sum ? within == 0 : within % 32 == 0 && within < 128;
  const bool swizzled = descriptor >> 62 == 1 && aligned && o.tile % 1024 == 0;
  if (!(swizzled || (o.plain && !rows_along_sum)) || (descriptor >> 49 & 7) != 0) {
    engine->fail(
        format("wgmma at %s: descriptor %llx of %c is not what ptx::wgmma_operand makes of "
               "a 1024-byte aligned tile, nor what ptx::wgmma_plain_operand makes",
               describe(site).text, static_cast<unsigned long long>(descriptor), letter));
  }
  const uint32_t bytes = o.plain ? 128 : 1024;  // of which the matrix is part
  for (uint32_t c = 0; c < columns / 8; ++c) {
    for (uint32_t k = 0; k < 2; ++k) {
      shared_offset((o.at(c, k, 0) & ~(o.plain ? 15u : 1023u)) + kSharedBase, bytes,
                    o.plain ? 16 : 1024, letter == 'A' ? "wgmma's A" : "wgmma's B", site);
    }
  }
}

// Tells the race checker of the reads of columns 8 from .. 8 to - 1.
void note_reads(const Fiber& lane0, const Operand& o, uint32_t from, uint32_t to, uint32_t group,
                Site site) {
  if (!engine->races.enabled) return;
  const Access access{&lane0, false, false, site, AsyncUnit::wgmma, lane0.warp, group + 1};
  for (uint32_t c = from; c < to; ++c) {
    for (uint32_t k = 0; k < 2; ++k) {
      for (uint32_t i = 0; i < 8; ++i) {
        engine->races.warp_read(access, o.at(c, k, i), 16);
      }
    }
  }
}

// ---- the product --------------------------------------------------------------------------------

// Operands in fp32.
struct alignas(64) Widened {
  float a[16 * 16];
  float b[16 * kMaxColumns];
};
thread_local Widened widened;

void widen_operand(const unsigned char* shared, const Operand& o, uint32_t c, uint32_t k,
                   Element type, bool transposed, float* to, size_t stride) {
  const unsigned char* rows[8];
  for (uint32_t i = 0; i < 8; ++i) rows[i] = shared + o.at(c, k, i);
  widen_8x8(type, rows, transposed, to, stride);
}

void carry_out(const Warp& warp, const Product& product, Accumulator& accumulator) {
  const WarpgroupStep& step = product.step;
  const unsigned char* shared = warp.block->shared;
  const uint32_t first_row = warp.lanes[0].warp % kWarpgroup * 2;  // in eights
  for (uint32_t r = 0; r < 2; ++r) {
    for (uint32_t k = 0; k < 2; ++k) {
      float* to = widened.a + r * 8 * 16 + k * 8;
      if (step.a_in_registers) {
        const unsigned char* rows[8];
        const auto* matrix = reinterpret_cast<const unsigned char*>(product.a[k * 2 + r]);
        for (uint32_t i = 0; i < 8; ++i) rows[i] = matrix + i * 16;
        widen_8x8(step.type, rows, false, to, 16);
      } else {
        widen_operand(shared, decode(step.a, false), first_row + r, k, step.type, false, to, 16);
      }
    }
  }
  const Operand b = decode(step.b, step.rows_along_sum);
  const auto n = static_cast<size_t>(step.number);
  for (uint32_t k = 0; k < 2; ++k) {
    for (uint32_t c = 0; c < n / 8; ++c) {
      widen_operand(shared, b, c, k, step.type, !step.rows_along_sum, widened.b + k * 8 * n + c * 8,
                    n);
    }
  }
  multiply_m16k16(widened.a, widened.b, accumulator.values.data(), step.number, step.accumulate);
}

// ---- accumulators -------------------------------------------------------------------------------

// Calls use(two floats of the lane, the two floats of the matrix) for all of a lane's pairs.
template <class Use>
void for_each_pair(Accumulator& accumulator, uint32_t lane, Use use) {
  const auto n = static_cast<size_t>(accumulator.n);
  float* d = accumulator.d[lane];
  float* row = accumulator.values.data() + lane / 4 * n + lane % 4 * 2;
  for (size_t c = 0; c < n; c += 8) {
    use(d, row + c);
    use(d + 2, row + 8 * n + c);
    d += 4;
  }
}

// Finds the warp's accumulators at `d`, or takes them from the lanes.
uint32_t find_accumulator(Warp& warp, const float* d, const WarpgroupStep& step) {
  WarpProducts& products = warp.products;
  Accumulator* found = nullptr;
  Accumulator* spare = nullptr;
  for (Accumulator& a : products.accumulators) {
    if (a.d[0] == nullptr) spare = &a;
    if (a.d[0] == d) found = &a;
  }
  if (found != nullptr) {
    if (found->n == step.number) return static_cast<uint32_t>(found - products.accumulators.data());
    engine->fail(
        format("wgmma at %s: its accumulators are in flight with another number of columns "
               "since %s",
               describe(step.site).text, describe(found->site).text));
  }
  if (!products.fenced) {
    engine->fail(format("wgmma at %s: no wgmma_fence since its accumulators were registers",
                        describe(step.site).text));
  }
  if (spare == nullptr) spare = &products.accumulators.emplace_back();
  spare->n = step.number;
  spare->values.resize(size_t{16} * static_cast<size_t>(step.number));
  for (uint32_t lane = 0; lane < 32; ++lane) {
    spare->d[lane] = reinterpret_cast<float*>(warp.exchange.value[lane]);
    for_each_pair(*spare, lane, [](float* registers, float* values) {
      std::memcpy(values, registers, 8);
      std::memset(registers, 0xff, 8);  // NaN: a read before the wait shows
    });
  }
  return static_cast<uint32_t>(spare - products.accumulators.data());
}

void deliver(Accumulator& accumulator) {
  bool touched = false;
  for (uint32_t lane = 0; lane < 32; ++lane) {
    for_each_pair(accumulator, lane, [&](float* registers, const float* values) {
      uint64_t bits;
      std::memcpy(&bits, registers, 8);
      touched = touched || ~bits != 0;
      std::memcpy(registers, values, 8);
    });
  }
  if (touched) {
    engine->fail(format("accumulators were written between the wgmma at %s and its wait",
                        describe(accumulator.site).text));
  }
  accumulator.d[0] = nullptr;
}

void carry_out_pending(Warp& warp, uint32_t groups) {
  WarpProducts& products = warp.products;
  size_t n = 0;
  for (; n < products.pending.size() && products.pending[n].group < groups; ++n) {
    const Product& product = products.pending[n];
    carry_out(warp, product, products.accumulators[product.accumulator]);
  }
  products.pending.erase(products.pending.begin(),
                         products.pending.begin() + static_cast<std::ptrdiff_t>(n));
}

}  // namespace

void wgmma_fence(Site site) {
  WarpgroupStep step;
  step.name = kFence;
  step.site = site;
  Warp* warp = meet_warpgroup(step);
  if (warp == nullptr) return;
  warp->products.fenced = true;
  release_lanes(*warp, kWholeWarp);
}

void wgmma(Element type, float* d, int n, const uint32_t* a_registers, uint64_t a_descriptor,
           uint64_t b_descriptor, bool accumulate, bool rows_along_sum, Site site) {
  const WarpgroupStep step{
      kProduct,       site,         n,           type, a_registers != nullptr, accumulate,
      rows_along_sum, a_descriptor, b_descriptor};
  const Fiber& self = self_fiber();
  self.exchange->value[self.lane] = reinterpret_cast<uintptr_t>(d);
  if (a_registers != nullptr) {
    for (int i = 0; i < 4; ++i) self.exchange->a[i][self.lane] = a_registers[i];
  }
  Warp* warp = meet_warpgroup(step);
  if (warp == nullptr) return;

  const auto columns = static_cast<uint32_t>(n);
  const Fiber& lane0 = warp->lanes[0];
  WarpProducts& products = warp->products;
  check_operand(b_descriptor, rows_along_sum, columns, 'B', site);
  note_reads(lane0, decode(b_descriptor, rows_along_sum), 0, columns / 8, products.group, site);
  if (a_registers == nullptr) {
    const uint32_t first_row = lane0.warp % kWarpgroup * 2;
    check_operand(a_descriptor, false, 64, 'A', site);
    note_reads(lane0, decode(a_descriptor, false), first_row, first_row + 2, products.group, site);
  }
  Product& product = products.pending.emplace_back();
  product.step = step;
  product.group = products.group;
  product.accumulator =
      find_accumulator(*warp, reinterpret_cast<float*>(warp->exchange.value[0]), step);
  if (a_registers != nullptr) std::memcpy(product.a, warp->exchange.a, sizeof product.a);
  Accumulator& accumulator = products.accumulators[product.accumulator];
  accumulator.group = products.group;
  accumulator.site = site;
  engine->trace(TraceEvent::Kind::wgmma, *lane0.block, lane0.linear,
                decode(b_descriptor, rows_along_sum).start, columns);
  if (engine->at_once()) carry_out_pending(*warp, products.group + 1);
  release_lanes(*warp, kWholeWarp);
}

void wgmma_commit(Site site) {
  WarpgroupStep step;
  step.name = kCommit;
  step.site = site;
  Warp* warp = meet_warpgroup(step);
  if (warp == nullptr) return;
  ++warp->products.group;
  engine->trace(TraceEvent::Kind::wgmma_commit, *warp->block, warp->lanes[0].linear,
                warp->products.group, 0);
  release_lanes(*warp, kWholeWarp);
}

void wgmma_wait(int newest, Site site) {
  WarpgroupStep step;
  step.name = kWait;
  step.site = site;
  step.number = newest;
  Warp* warp = meet_warpgroup(step);
  if (warp == nullptr) return;
  WarpProducts& products = warp->products;
  const uint32_t keep = static_cast<uint32_t>(newest);
  const uint32_t finished = products.group > keep ? products.group - keep : 0;
  carry_out_pending(*warp, finished);
  for (Accumulator& accumulator : products.accumulators) {
    if (accumulator.d[0] == nullptr || accumulator.group >= finished) continue;
    deliver(accumulator);
    products.fenced = false;
  }
  for (uint32_t lane = 0; lane < 32; ++lane) {
    engine->races.complete(warp->lanes[lane], AsyncUnit::wgmma, warp->lanes[lane].warp, finished);
  }
  engine->trace(TraceEvent::Kind::wgmma_wait, *warp->block, warp->lanes[0].linear, finished, 0);
  release_lanes(*warp, kWholeWarp);
}

void check_products_at_exit(const Fiber& self) {
  for (const Accumulator& accumulator : self.warp_state->products.accumulators) {
    if (accumulator.d[0] == nullptr) continue;
    engine->fail(format("exits before the wgmma issued at %s has been waited for",
                        describe(accumulator.site).text));
  }
}

}  // namespace host
}  // namespace STROBE_ABI
}  // namespace strobe
