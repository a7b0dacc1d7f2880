// SPDX-License-Identifier: MIT
// ldmatrix, stmatrix and mma: the last lane of the warp to arrive does the work of all.
// Layer: host execution, internal.
#include "collective.hpp"
#include "memory.hpp"
#include "tensor_core.hpp"

namespace strobe {
inline namespace STROBE_ABI {
namespace host {
namespace {

constexpr uint32_t kWholeWarp = 0xffffffffu;

// The eight rows of matrix m, at the addresses that lanes 8m .. 8m + 7 gave.
void find_rows(const Warp& warp, int m, bool write, const char* name, Site site,
               unsigned char* (&rows)[8]) {
  for (int i = 0; i < 8; ++i) {
    const int lane = m * 8 + i;
    const uint32_t offset = shared_offset(warp.exchange.address[lane], 16, 16, name, site);
    engine->races.shared_access({&warp.lanes[lane], write, false, site}, offset, 16);
    rows[i] = current->shared + offset;
  }
}

}  // namespace

void exchange_load_matrices(int count, bool transposed, Site site) {
  const char* name = transposed ? "ldmatrix.trans" : "ldmatrix";
  Warp* warp = meet(name, true, kWholeWarp, site);
  if (warp == nullptr) return;
  for (int m = 0; m < count; ++m) {
    unsigned char* rows[8];
    find_rows(*warp, m, false, name, site, rows);
    load_rows(rows, transposed, warp->exchange.matrix[m]);
  }
  release_lanes(*warp, kWholeWarp);
}

void exchange_store_matrices(int count, bool transposed, Site site) {
  const char* name = transposed ? "stmatrix.trans" : "stmatrix";
  Warp* warp = meet(name, true, kWholeWarp, site);
  if (warp == nullptr) return;
  for (int m = 0; m < count; ++m) {
    unsigned char* rows[8];
    find_rows(*warp, m, true, name, site, rows);
    store_rows(warp->exchange.matrix[m], transposed, rows);
  }
  release_lanes(*warp, kWholeWarp);
}

void exchange_mma_m16n8k16(Element type, Site site) {
  const char* name = type == Element::f16 ? "mma.m16n8k16.f16" : "mma.m16n8k16.bf16";
  Warp* warp = meet(name, true, kWholeWarp, site);
  if (warp == nullptr) return;
  multiply_m16n8k16(warp->exchange, type);
  release_lanes(*warp, kWholeWarp);
}

}  // namespace host
}  // namespace STROBE_ABI
}  // namespace strobe
