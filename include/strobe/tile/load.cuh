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
///
/// Copies are unrolled `Unroll` at a time: 1 keeps the code of a path short that is seldom taken.
template <int Rows, int Width, int Threads, int Unroll = 64>
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
    STROBE_UNROLL_BY(Unroll)
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

/// Copies tiles of 16-bit rows that lie a fixed stride apart in runs of 16, as a page's or a
/// strided tensor's do. A thread has one chunk column of one run, so that it needs one address a
/// tile, and a copy costs an addition and a comparison. Where the threads do not divide up that way
/// `regular` is false, and AsyncLoader is there.
template <int Rows, int Width, int Threads>
struct RunLoader {
  using Layout = Swizzled<Width>;
  static constexpr int run_rows = 16;
  static constexpr int runs = Rows / run_rows;
  static constexpr int rows_at_once = Threads / (runs * Layout::chunks);  ///< of each run
  static constexpr bool regular =
      Rows % run_rows == 0 && rows_at_once > 0 &&
      Threads % (runs * Layout::chunks) == 0 && run_rows % rows_at_once == 0;

  int run;         ///< which of the tile's runs is this thread's
  int row;         ///< its first row there
  int chunk;       ///< its chunk column
  bool dim_valid;  ///< which lies within a row

  STROBE_DEVICE RunLoader(int thread, int row_elements)
      : run(thread / (Threads / runs)),
        row(thread % (Threads / runs) / Layout::chunks),
        chunk(thread % Layout::chunks),
        dim_valid(chunk * chunk_elements < row_elements) {}

  /// Starts the copy of one tile, which begins at a multiple of 128 bytes. `run_begin` is the
  /// address of row run_rows * run. Rows from valid_rows on and elements outside a row become zero
  /// and are not read; run_begin may then be any number. Waits: see AsyncLoader.
  STROBE_DEVICE void operator()(uint32_t tile_address, int valid_rows, const void* run_begin,
                                uint64_t stride_bytes) const {
    const int first_row = run * run_rows + row;
    const int valid = dim_valid ? valid_rows - first_row : 0;
    const uint32_t first = tile_address + Layout::offset(first_row, chunk);
    uint64_t source = uint64_t(reinterpret_cast<uintptr_t>(run_begin)) +
                      uint32_t(row) * stride_bytes + uint32_t(chunk * chunk_bytes);
    STROBE_UNROLL
    for (int i = 0; i < run_rows / rows_at_once; ++i) {
      // Rows a power of two apart: the pattern of their sum is that of each, combined.
      const uint32_t target = (first ^ uint32_t(Layout::pattern(i * rows_at_once) * chunk_bytes)) +
                              uint32_t(i * rows_at_once * Layout::row_bytes);
      ptx::cp_async_16(target, reinterpret_cast<const void*>(uintptr_t(source)),
                       i * rows_at_once < valid);
      source += uint32_t(rows_at_once) * stride_bytes;
    }
  }
};

}  // namespace tile
}  // namespace STROBE_ABI
}  // namespace strobe
