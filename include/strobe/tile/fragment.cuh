// SPDX-License-Identifier: MIT
// Register tiles of mma.m16n8k16: which lane holds which element, and how a lane finds its part of
// a shared tile. Layer: tile. Source: PTX ISA, "Matrix Fragments for mma.m16n8k16 with floating
// point type".
//
//   accumulator 16 x 8 (fp32)   lane l holds rows l / 4 and l / 4 + 8, columns 2 * (l % 4) and + 1:
//                               c[0], c[1] = row l / 4;  c[2], c[3] = row l / 4 + 8
//   A 16 x 16 (two 16-bit       a[0] = row l / 4,     columns 2 * (l % 4) and + 1;   a[2] = the
//   same, columns + 8
//     values a register)        a[1] = row l / 4 + 8, columns 2 * (l % 4) and + 1;   a[3] = the
//     same, columns + 8
//
// So the accumulators of two neighbouring 16 x 8 tiles, rounded and packed, are an A fragment as
// they stand: P never leaves its registers (FlashAttention-2, section 3.3).
#pragma once

#include "../ptx/ldmatrix.cuh"
#include "layout.hpp"

namespace strobe {
inline namespace STROBE_ABI {
namespace tile {

/// Where one lane's accumulator elements lie in a 16 x 8 tile.
struct LaneCoordinates {
  int row;     ///< of c[0] and c[1]; c[2] and c[3] are 8 rows below
  int column;  ///< of c[0] and c[2]; c[1] and c[3] are one to the right
};
STROBE_DEVICE LaneCoordinates lane_coordinates(int lane) { return {lane / 4, 2 * (lane % 4)}; }

/// A lane's starting address for the ldmatrix reads of a shared tile (address a multiple of 128):
/// computed once a thread, then moved by Swizzled::advance.
///
/// A operand, 16 rows x 16 columns a read: matrices (rows 0-7, columns 0-7), (8-15, 0-7), (0-7,
/// 8-15), (8-15, 8-15).
template <int Width>
STROBE_DEVICE uint32_t a_cursor(uint32_t tile_address, int first_row, int lane) {
  return tile_address + Swizzled<Width>::offset(first_row + lane % 16, lane / 16);
}
/// B operand from K, stored key-major, 16 keys x 16 dims a read: (keys 0-7, dims 0-7), (0-7, 8-15),
/// (8-15, 0-7), (8-15, 8-15). Registers 0, 1 are B for keys 0-7; registers 2, 3 for keys 8-15.
template <int Width>
STROBE_DEVICE uint32_t k_cursor(uint32_t tile_address, int lane) {
  return tile_address + Swizzled<Width>::offset(lane % 8 + lane / 16 * 8, lane / 8 % 2);
}
/// B operand from V, stored key-major and transposed by the read, 16 keys x 16 dims: (keys 0-7,
/// dims 0-7), (8-15, 0-7), (0-7, 8-15), (8-15, 8-15). Registers 0, 1 are B for dims 0-7; registers
/// 2, 3 for dims 8-15.
template <int Width>
STROBE_DEVICE uint32_t v_cursor(uint32_t tile_address, int lane) {
  return tile_address + Swizzled<Width>::offset(lane % 16, lane / 16);
}

/// 4 x 4 transposition among the four lanes of a quad: afterwards lane t of the quad holds in r[i]
/// what lane i held in r[t]. Four accumulator tiles side by side, two 16-bit values a lane each,
/// thereby become one 16-byte chunk a lane: lane t has all eight columns of tile t. Called by whole
/// warps.
STROBE_DEVICE void transpose_quad(uint32_t (&r)[4], int lane) {
  const bool odd = lane & 1, high = lane & 2;
  STROBE_UNROLL
  for (int i = 0; i < 4; i += 2) {
    const uint32_t received = __shfl_xor_sync(0xffffffffu, odd ? r[i] : r[i + 1], 1);
    r[i] = odd ? received : r[i];
    r[i + 1] = odd ? r[i + 1] : received;
  }
  STROBE_UNROLL
  for (int i = 0; i < 2; ++i) {
    const uint32_t received = __shfl_xor_sync(0xffffffffu, high ? r[i] : r[i + 2], 2);
    r[i] = high ? received : r[i];
    r[i + 2] = high ? r[i + 2] : received;
  }
}

}  // namespace tile
}  // namespace STROBE_ABI
}  // namespace strobe
