// SPDX-License-Identifier: MIT
// Global memory to shared tiles with TMA, and the ring of stages they lie in. Layer: tile.
//
// A tile of Rows rows lies in panels of 64 elements (128 bytes) a row, one after another, each with
// the 128-byte swizzle that wgmma reads (ptx/wgmma.cuh).
#pragma once

#include "../ptx/mbarrier.cuh"
#include "../ptx/tma.cuh"

namespace strobe {
inline namespace STROBE_ABI {
namespace tile {

/// The boxes in which one tensor [batch, head, token, dim] is loaded: whole tiles, and where a
/// sequence ends inside of the tensor 8 rows and single rows, so that nothing past its end is read.
struct TileMaps {
  ptx::TensorMap whole, eight, one;
  int tokens;  ///< of the tensor, as the maps know it: what lies behind is loaded as zero

  /// Whether `rows` of a tile's Rows from `token` on can be loaded as one box: all of them, or all
  /// that the tensor has.
  template <int Rows>
  STROBE_DEVICE bool in_one_box(int rows, int token) const {
    return rows == Rows || token + rows == tokens;
  }
};

/// Calls copy(map, first row) for the boxes that make up `rows` of a tile's Rows.
template <int Rows, class Copy>
STROBE_DEVICE void for_each_box(const TileMaps& maps, int rows, int token, Copy copy) {
  if (maps.in_one_box<Rows>(rows, token)) return copy(maps.whole, 0);
  int r = 0;
  STROBE_UNROLL_BY(1)
  for (; r + 8 <= rows; r += 8) copy(maps.eight, r);
  STROBE_UNROLL_BY(1)
  for (; r < rows; ++r) copy(maps.one, r);
}

/// Asks for `rows` of the Rows rows of one tile, from `token` on; they count at the barrier `full`.
/// Elements past the tensor's dim and tokens become zero; of a sequence that ends before, the rows
/// past the end stay as they are, and unless RestMatters what comes of them is dropped. One thread.
template <int Rows, int Panels, bool RestMatters = false>
STROBE_DEVICE void load_tile(uint32_t tile_smem, const TileMaps& maps, int rows, int token,
                             int head, int batch, uint32_t full, ptx::L2Hint hint) {
  const int counted = maps.in_one_box<Rows>(rows, token) ? Rows : rows;
  STROBE_UNROLL
  for (int panel = 0; panel < Panels && !RestMatters; ++panel)
    if (counted < Rows)
      ptx::tma_leave_out(tile_smem + uint32_t((panel * Rows + rows) * 128),
                         uint32_t((Rows - rows) * 128), full);
  ptx::mbarrier_arrive_expect(full, uint32_t(counted * 128 * Panels));
  STROBE_UNROLL
  for (int panel = 0; panel < Panels; ++panel)
    for_each_box<Rows>(maps, rows, token, [&](const ptx::TensorMap& map, int r) {
      ptx::tma_load(tile_smem + uint32_t((panel * Rows + r) * 128), map,
                    {64 * panel, token + r, head, batch}, full, hint);
    });
}

/// Zeroes the rows from `rows` on. Called by a whole warp; the async proxy needs a fence after it.
template <int Rows, int Panels>
STROBE_DEVICE void zero_rows(unsigned char* tile, int rows, int lane) {
  for (int panel = 0; panel < Panels; ++panel) {
    auto* const chunks = reinterpret_cast<uint4*>(tile + panel * Rows * 128);
    for (int i = rows * 8 + lane; i < Rows * 8; i += 32) chunks[i] = make_uint4(0, 0, 0, 0);
  }
}

/// Where in the ring of stages a thread stands, and the parity of this time around.
template <int Stages>
struct StageCursor {
  int stage = 0;
  uint32_t parity = 0;
  STROBE_DEVICE void next() {
    if (++stage == Stages) {
      stage = 0;
      parity ^= 1;
    }
  }
};

}  // namespace tile
}  // namespace STROBE_ABI
}  // namespace strobe
