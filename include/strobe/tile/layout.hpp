// SPDX-License-Identifier: MIT
// How a tile of 16-bit rows lies in shared memory, as pure index maths. Layer: tile, constexpr,
// tested on the host.
//
// A row is cut into chunks of 16 bytes (8 elements). Chunk c of row r is stored at chunk position c
// ^ pattern(r) of the same row, so that the eight rows an ldmatrix reads at one chunk lie in eight
// different groups of four banks:
//
//   rows of 128, 256, .. bytes   pattern(r) = r % 8         each row starts at bank 0: eight
//   different chunk positions rows of 64 or 192 bytes      pattern(r) = (r / 2) % 4   odd rows
//   start at bank 16: four positions serve two halves
#pragma once

#include "../detail/integers.hpp"

namespace strobe {
inline namespace STROBE_ABI {
namespace tile {

inline constexpr int chunk_elements = 8;
inline constexpr int chunk_bytes = 16;

/// Layout of a tile whose rows are Width elements of 16 bits; Width is a multiple of 32.
template <int Width>
struct Swizzled {
  static_assert(Width % 32 == 0, "a tile row is a multiple of 64 bytes");
  static constexpr int chunks = Width / chunk_elements;
  static constexpr int row_bytes = Width * 2;
  /// Which low bits of a chunk index the pattern may flip.
  static constexpr int flipped = chunks % 8 == 0 ? 7 : 3;

  STROBE_HOST_DEVICE static constexpr int pattern(int row) {
    return flipped == 7 ? row & 7 : (row >> 1) & 3;
  }
  /// Byte offset of a chunk from the start of the tile.
  STROBE_HOST_DEVICE static constexpr uint32_t offset(int row, int chunk) {
    return uint32_t(row * row_bytes + (chunk ^ pattern(row)) * chunk_bytes);
  }
  /// offset(row + rows, chunk ^ chunk_step) from offset(row, chunk), for `rows` a multiple of 8 and
  /// an even `chunk_step` that shares no set bit with `chunk`: one XOR and one addition, both of
  /// constants, in an unrolled loop. `at` may be an address if the tile starts at a multiple of 128
  /// bytes.
  STROBE_HOST_DEVICE static constexpr uint32_t advance(uint32_t at, int rows, int chunk_step) {
    return (at ^ uint32_t((chunk_step & flipped) * chunk_bytes)) +
           uint32_t(rows * row_bytes + (chunk_step & ~flipped) * chunk_bytes);
  }
};

}  // namespace tile
}  // namespace STROBE_ABI
}  // namespace strobe
