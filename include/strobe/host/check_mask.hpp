// SPDX-License-Identifier: MIT
/// @file
/// check_mask: proves a mask's `tile`, `next_key` and `keys_of` against its `visible` by brute
/// force. Layer: host tool for tests, yours and the library's; plain g++, no GPU, no CUDA runtime.
///
///     struct Odd {  // every query sees the odd keys up to itself
///       struct Bound {
///         strobe::Span q;
///         bool visible(int q, int k) const { return k <= q && k % 2 == 1; }
///         int next_key(int k) const { return k > q.end - 1 ? strobe::unlimited : k; }
///       };
///       Bound bind(const strobe::Block& block) const { return {block.q}; }
///     };
///     const strobe::MaskReport report = strobe::check_mask_shapes(Odd{});
///     if (!report.ok()) std::puts(report.mistake.c_str());
///
/// A wrong mask is otherwise wrong silently, and only at some tile sizes. A mask that reads memory
/// (documents, block lists) is given pointers to host memory here.
#pragma once

#include <cstdint>
#include <string>
#include <type_traits>
#include <vector>

#include "../mask.hpp"

namespace strobe {
inline namespace STROBE_ABI {

/// One problem to check a mask on: one sequence, seen by one head, in tiles of block_q by block_kv.
struct MaskShape {
  int q_len = 64;
  int kv_len = 64;
  int block_q = 64;
  int block_kv = 64;
  int batch = 0;
  int q_head = 0;
  int kv_head = 0;
};

/// What check_mask found. The first five are mistakes: keys lost or keys seen that should not be.
/// `idle` and `cautious` are legal, and cost time only.
struct MaskReport {
  int64_t tiles = 0;    ///< of block_q by block_kv, in all shapes checked
  int64_t visited = 0;  ///< of these, how many a kernel would walk over

  int64_t missed = 0;        ///< holds something visible, but the walk never gets there
  int64_t wrongly_full = 0;  ///< called full, but some query does not see some key
  int64_t wrongly_skip = 0;  ///< called skip, but something is visible
  int64_t overshot = 0;      ///< keys k from which next_key(k) jumps over something visible
  int64_t wrong_span = 0;    ///< queries q that see other keys than keys_of(q)

  int64_t idle = 0;      ///< visited, but nothing is visible
  int64_t cautious = 0;  ///< visited and called partial, but everything is visible

  std::string mistake;  ///< a sentence about the first mistake; empty if there is none

  bool ok() const { return missed + wrongly_full + wrongly_skip + overshot + wrong_span == 0; }

  MaskReport& operator+=(const MaskReport& other) {
    tiles += other.tiles;
    visited += other.visited;
    missed += other.missed;
    wrongly_full += other.wrongly_full;
    wrongly_skip += other.wrongly_skip;
    overshot += other.overshot;
    wrong_span += other.wrong_span;
    idle += other.idle;
    cautious += other.cautious;
    if (mistake.empty()) mistake = other.mistake;
    return *this;
  }
};

namespace detail {

/// One query block of check_mask: `visible` written out, and what the Bound says about it.
template <class Bound>
class MaskBlockCheck {
 public:
  MaskBlockCheck(const Bound& bound, const Block& block, const MaskShape& shape)
      : bound_(bound),
        block_(block),
        shape_(shape),
        visible_(size_t(block.q.end - block.q.begin) * size_t(block.kv_len)) {
    size_t at = 0;
    for (int q = block.q.begin; q < block.q.end; ++q)
      for (int k = 0; k < block.kv_len; ++k) visible_[at++] = bound.visible(q, k);
  }

  MaskReport run() {
    check_next_key();
    if constexpr (has_keys_of<Bound>(0)) {
      if (mask_one_span(bound_)) check_keys_of();
    }
    const std::vector<bool> visited = walk();
    for (int begin = 0; begin < block_.kv_len; begin += shape_.block_kv)
      check_tile({begin, min_of(block_.kv_len - begin, shape_.block_kv) + begin},
                 visited[size_t(begin / shape_.block_kv)]);
    return report_;
  }

 private:
  bool visible(int q, int k) const {
    return visible_[size_t(q - block_.q.begin) * size_t(block_.kv_len) + size_t(k)];
  }
  /// First (q, k) of a tile whose visibility is `wanted`; false if there is none.
  bool find(Span keys, bool wanted, int* q, int* k) const {
    for (*q = block_.q.begin; *q < block_.q.end; ++*q)
      for (*k = keys.begin; *k < keys.end; ++*k)
        if (visible(*q, *k) == wanted) return true;
    return false;
  }
  /// The tiles a kernel would visit, found as a kernel does.
  std::vector<bool> walk() {
    std::vector<bool> visited(size_t(ceil_div(block_.kv_len, shape_.block_kv)), false);
    TileStep step = next_tile(bound_, 0, block_.kv_len, shape_.block_kv);
    while (step.valid) {
      visited[size_t(step.begin / shape_.block_kv)] = true;
      ++report_.visited;
      step = next_tile(bound_, step.begin + shape_.block_kv, block_.kv_len, shape_.block_kv);
    }
    return visited;
  }
  void check_next_key() {
    int q = 0, next_seen = block_.kv_len;  // the first key >= k that any row sees
    for (int k = block_.kv_len - 1; k >= 0; --k) {
      int unused = 0;
      if (find({k, k + 1}, true, &q, &unused)) next_seen = k;
      const int claimed = mask_next_key(bound_, k);
      if (next_seen == block_.kv_len || claimed <= next_seen) continue;
      ++report_.overshot;
      find({next_seen, next_seen + 1}, true, &q, &unused);
      note("next_key(" + std::to_string(k) + ") is " + std::to_string(claimed) +
               ", which jumps over a visible key",
           q, next_seen);
    }
  }
  void check_keys_of() {
    for (int q = block_.q.begin; q < block_.q.end; ++q) {
      const Span keys = bound_.keys_of(q);
      for (int k = 0; k < block_.kv_len; ++k) {
        if (visible(q, k) == (k >= keys.begin && k < keys.end)) continue;
        ++report_.wrong_span;
        note("keys_of(" + std::to_string(q) + ") is [" + std::to_string(keys.begin) + ", " +
                 std::to_string(keys.end) + ")" +
                 (visible(q, k) ? ", but another key is visible" : ", but a key in it is hidden"),
             q, k);
        break;
      }
    }
  }
  void check_tile(Span keys, bool visited) {
    ++report_.tiles;
    const Tile kind = mask_tile(bound_, keys);
    int seen_q = 0, seen_k = 0, hidden_q = 0, hidden_k = 0;
    const bool any = find(keys, true, &seen_q, &seen_k);
    const bool all = !find(keys, false, &hidden_q, &hidden_k);
    const std::string where =
        "[" + std::to_string(keys.begin) + ", " + std::to_string(keys.end) + ")";
    if (any && kind == Tile::skip) {
      ++report_.wrongly_skip;
      note("tile(" + where + ") is skip, but something is visible", seen_q, seen_k);
    }
    if (!all && kind == Tile::full) {
      ++report_.wrongly_full;
      note("tile(" + where + ") is full, but something is hidden", hidden_q, hidden_k);
    }
    if (any && !visited) {
      ++report_.missed;
      note("the walk never visits keys " + where + ", where something is visible", seen_q, seen_k);
    }
    if (!any && visited) ++report_.idle;
    if (all && visited && kind == Tile::partial) ++report_.cautious;
  }
  void note(const std::string& what, int q, int k) {
    if (!report_.mistake.empty()) return;
    const auto text = [](int value) { return std::to_string(value); };
    report_.mistake = what + ": q = " + text(q) + ", k = " + text(k) + " (query positions [" +
                      text(block_.q.begin) + ", " + text(block_.q.end) + "), q_len " +
                      text(block_.q_len) + ", kv_len " + text(block_.kv_len) + ", block_q " +
                      text(shape_.block_q) + ", block_kv " + text(shape_.block_kv) + ", batch " +
                      text(block_.batch) + ", q_head " + text(block_.q_head) + ")";
  }

  const Bound& bound_;
  Block block_;
  MaskShape shape_;
  std::vector<bool> visible_;
  MaskReport report_;
};

}  // namespace detail

/// Checks one shape: every query block of it is bound and walked with strobe::next_tile exactly as
/// the kernels do, and every tile and every next_key(k) is compared with `visible`. Asks the mask
/// nothing that a kernel would not ask. Time: about q_len * kv_len calls of `visible`.
template <class Mask>
MaskReport check_mask(const Mask& mask, const MaskShape& shape) {
  MaskReport report;
  for (int row = 0; row < shape.q_len; row += shape.block_q) {
    const int rows = detail::min_of(shape.q_len - row, shape.block_q);
    const int first = row + shape.kv_len - shape.q_len;
    const Block block{shape.batch,           shape.q_head, shape.kv_head,
                      {first, first + rows}, shape.q_len,  shape.kv_len};
    const auto bound = mask.bind(block);
    report += detail::MaskBlockCheck<std::decay_t<decltype(bound)>>(bound, block, shape).run();
  }
  return report;
}

/// The shapes check_mask_shapes goes through: every combination.
struct MaskShapes {
  std::vector<int> q_lens = {1, 3, 16, 33, 64, 65, 130};
  std::vector<int> kv_lens = {1, 3, 16, 33, 64, 65, 130};
  std::vector<int> blocks_q = {16, 64};
  std::vector<int> blocks_kv = {16, 64};
  std::vector<int> batches = {0};
  std::vector<int> q_heads = {0};
};

/// Checks many shapes. `mask` is a mask, or a function that makes one for a `const MaskShape&` (a
/// mask whose tables depend on the lengths).
template <class MaskOrMaker>
MaskReport check_mask_shapes(const MaskOrMaker& mask, const MaskShapes& shapes = {}) {
  MaskReport report;
  for (int q_len : shapes.q_lens)
    for (int kv_len : shapes.kv_lens)
      for (int block_q : shapes.blocks_q)
        for (int block_kv : shapes.blocks_kv)
          for (int batch : shapes.batches)
            for (int q_head : shapes.q_heads) {
              const MaskShape shape{q_len, kv_len, block_q, block_kv, batch, q_head, 0};
              if constexpr (std::is_invocable_v<const MaskOrMaker&, const MaskShape&>) {
                report += check_mask(mask(shape), shape);
              } else {
                report += check_mask(mask, shape);
              }
            }
  return report;
}

}  // namespace STROBE_ABI
}  // namespace strobe
