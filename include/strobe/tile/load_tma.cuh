// SPDX-License-Identifier: MIT
// Global memory to a shared tile with TMA. Layer: tile.
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
/// sequence ends 8 rows and single rows, so that nothing past its end is read.
struct TileMaps {
  ptx::TensorMap whole, eight, one;
};

/// Asks for `rows` of the Rows rows of one tile, from `token` on; they count at the barrier `full`.
/// Elements past the tensor's dim become zero. One thread.
template <int Rows, int Panels>
STROBE_DEVICE void load_tile(uint32_t tile_smem, const TileMaps& maps, int rows, int token,
                             int head, int batch, uint32_t full, ptx::L2Hint hint) {
  ptx::mbarrier_arrive_expect(full, uint32_t(rows * 128 * Panels));
  STROBE_UNROLL
  for (int panel = 0; panel < Panels; ++panel) {
    const uint32_t panel_smem = tile_smem + uint32_t(panel * Rows * 128);
    if (rows == Rows) {
      ptx::tma_load(panel_smem, maps.whole, {64 * panel, token, head, batch}, full, hint);
    } else {
      int r = 0;
      for (; r + 8 <= rows; r += 8)
        ptx::tma_load(panel_smem + uint32_t(r * 128), maps.eight,
                      {64 * panel, token + r, head, batch}, full, hint);
      for (; r < rows; ++r)
        ptx::tma_load(panel_smem + uint32_t(r * 128), maps.one,
                      {64 * panel, token + r, head, batch}, full, hint);
    }
  }
}

/// Says that the rows from `rows` on stay as they are: what comes of them is dropped. One thread,
/// before load_tile.
template <int Rows, int Panels>
STROBE_DEVICE void leave_out_rows(uint32_t tile_smem, int rows, uint32_t full) {
  STROBE_UNROLL
  for (int panel = 0; panel < Panels; ++panel) {
    if (rows < Rows)
      ptx::tma_leave_out(tile_smem + uint32_t((panel * Rows + rows) * 128),
                         uint32_t((Rows - rows) * 128), full);
  }
}

}  // namespace tile
}  // namespace STROBE_ABI
}  // namespace strobe
