// SPDX-License-Identifier: MIT
// Global memory to a swizzled shared tile with cp.async. Layer: tile.
#pragma once

#include "../ptx/cp_async.cuh"
#include "layout.hpp"

namespace strobe {
inline namespace STROBE_ABI {
namespace tile {

/// Copies tiles of Rows rows of Width elements, 16 bytes a thread and copy. Where the block's
/// threads cover whole rows and a multiple of 8 of them at a time, a thread keeps one chunk column
/// and its swizzle, and only row and address move on; `first` is computed once a thread. Other
/// widths work out each copy's place anew.
template <int Rows, int Width, int Threads>
struct AsyncLoader {
  static constexpr int chunks = Swizzled<Width>::chunks;
  static constexpr int copies = (Rows * chunks + Threads - 1) / Threads;
  static constexpr int rows_at_once = Threads / chunks;
  static constexpr bool regular =
      Threads % chunks == 0 && rows_at_once % 8 == 0 && Rows % rows_at_once == 0;

  int thread;
  uint32_t first;  ///< offset of this thread's first chunk in the tile
  bool dim_valid;  ///< regular: this thread's chunk column lies within `dim`
  int dim;         ///< elements that exist in a row, a multiple of 8

  STROBE_DEVICE AsyncLoader(int thread_of_block, int row_elements)
      : thread(thread_of_block),
        first(Swizzled<Width>::offset(thread_of_block / chunks, thread_of_block % chunks)),
        dim_valid(thread_of_block % chunks * chunk_elements < row_elements),
        dim(row_elements) {}

  /// Starts the copy of one tile. Row r is read from row_pointer(r), which is asked only for 0 <= r
  /// < valid_rows; rows from valid_rows on and elements from `dim` on become zero and are not read,
  /// so that nothing of dead memory reaches a product. Called by all threads of the block; each
  /// waits for its own copies (cp_async_wait), then the block meets at a barrier. valid_rows >= 1.
  template <class RowPointer>
  STROBE_DEVICE void operator()(uint32_t tile_address, int valid_rows,
                                RowPointer row_pointer) const {
    STROBE_UNROLL
    for (int i = 0; i < copies; ++i) {
      const int copy = i * Threads + thread;
      const int row = regular ? thread / chunks + i * rows_at_once : copy / chunks;
      const int chunk = regular ? thread % chunks : copy % chunks;
      const bool valid = row < valid_rows && (regular ? dim_valid : chunk * chunk_elements < dim);
      // What is not read still needs some address: the last row's. Every thread asks in every
      // round, so that row_pointer may use warp shuffles.
      const auto* source =
          row_pointer(row < valid_rows ? row : valid_rows - 1) + chunk * chunk_elements;
      const uint32_t target = regular
                                  ? first + uint32_t(i * rows_at_once * Swizzled<Width>::row_bytes)
                                  : Swizzled<Width>::offset(row, chunk);
      if (Rows * chunks % Threads == 0 || copy < Rows * chunks)
        ptx::cp_async_16(tile_address + target, source, valid);
    }
  }
};

}  // namespace tile
}  // namespace STROBE_ABI
}  // namespace strobe
