// SPDX-License-Identifier: MIT
/// @file
/// Masks: which keys a query sees. Layer: noun, host and device, no kernels; every kernel on every
/// architecture asks a mask the same few questions, so one small struct is all a user writes.
///
/// A mask is a plain struct passed to the kernel by value. Once per thread block the kernel calls
///
///     Bound bind(const Block& block) const;
///
/// (the place to hoist loads: pointers of this batch entry, this head, these rows) and then asks
/// the Bound, which must have the first and may have the others:
///
///     bool visible(int q, int k) const;   // does the query at position q see key k?
///     Tile tile(Span keys) const;         // all of block.q against these keys; default: partial
///     int next_key(int k) const;          // see below; default: k
///     Span keys_of(int q) const;          // the keys that q sees, where they are one span
///     bool one_span() const;              // whether they are, for all of block.q; default: true
///
/// `visible` is asked only in partial tiles. `next_key` is a key >= k such that nothing in
/// [k, next_key(k)) is visible to any row of the block, so that holes cost nothing; it may lie past
/// the last key. Where there is a `keys_of`, and `one_span` is true or not there, partial tiles ask
/// for it once a row instead of for `visible` once an element; it may begin before the first key
/// and end past the last one. All are asked only with q in block.q and keys in [0, block.kv_len).
///
/// Positions are in key coordinates (see Block): causal is k <= q for prefill and decode alike.
/// `tile` and `next_key` may be cautious (partial for full, k for a later key) and stay right;
/// check_mask (host/check_mask.hpp) proves all of them against `visible` by brute force. A mask may
/// also have `Status check(const Bounds&) const`, a host-side look at its own fields. Which queries
/// see a given key tile, backward's question, is the same `tile` asked of a Block bound to those
/// query rows. `visible` must not differ between the query heads that share a KV head unless the
/// mask says `static constexpr bool varies_by_head = true`; kernels that pack such heads into one
/// block then do not pack them. `static constexpr bool looks_up = true` says that `keys_of` reads
/// memory: kernels then ask it once a row, and keep the answer in registers.
#pragma once

#include "types.hpp"
#if !defined(__CUDACC_RTC__)
#include "detail/check_view.hpp"
#endif

namespace strobe {
inline namespace STROBE_ABI {

/// What a mask says of a key tile: no row sees any of it, some see some, all rows see all of it.
enum class Tile { skip, partial, full };

/// No bound on one side of a Window.
inline constexpr int unlimited = 0x7fffffff;

/// Every query sees every key.
struct Full {
  struct Bound {
    STROBE_HOST_DEVICE bool visible(int, int) const { return true; }
    STROBE_HOST_DEVICE Tile tile(Span) const { return Tile::full; }
    STROBE_HOST_DEVICE Span keys_of(int) const { return {0, unlimited}; }
  };
  STROBE_HOST_DEVICE Bound bind(const Block&) const { return {}; }
};

/// Query q sees keys q - left .. q + right, both inclusive: {3, 0} sees four keys, {0, 0} only its
/// own. Aligned bottom-right: the last query stands at the last key. `unlimited` opens a side; a
/// negative number is an error.
struct Window {
  int left = unlimited;
  int right = unlimited;

  struct Bound {
    int left, right;
    Span q;
    // -left <= k - position <= right in one comparison: modulo 2^32, because lengths are at most
    // 2^30, so that k - position lies in (-2^30, 2^31), and a sum below 0, which takes a left below
    // 2^30, wraps to 3 * 2^30 or more, past any left + right there is then. `unlimited` needs no
    // case of its own.
    STROBE_HOST_DEVICE bool visible(int position, int k) const {
      return unsigned(k - position) + unsigned(left) <= unsigned(left) + unsigned(right);
    }
    STROBE_HOST_DEVICE Tile tile(Span keys) const {
      const int first_row = q.begin, last_row = q.end - 1, last_key = keys.end - 1;
      if (last_key - first_row < -left || keys.begin - last_row > right) return Tile::skip;
      const bool whole = keys.begin - last_row >= -left && last_key - first_row <= right;
      return whole ? Tile::full : Tile::partial;
    }
    STROBE_HOST_DEVICE int next_key(int k) const {
      if (k - (q.end - 1) > right) return unlimited;
      return detail::max_of(k, first_of(q.begin));
    }
    STROBE_HOST_DEVICE Span keys_of(int position) const {
      const int most = unlimited - 1 - detail::max_of(position, 0);  // what does not overflow
      return {first_of(position), position + detail::min_of(right, most) + 1};
    }
    STROBE_HOST_DEVICE int first_of(int position) const {
      return position - detail::min_of(left, 1 << 30);  // position > -2^30
    }
  };
  STROBE_HOST_DEVICE Bound bind(const Block& block) const { return {left, right, block.q}; }

#if !defined(__CUDACC_RTC__)
  Status check(const Bounds&) const noexcept {
    if (left < 0)
      return detail::invalid() << "mask.left is " << left
                               << "; it must be >= 0 or strobe::unlimited";
    if (right < 0)
      return detail::invalid() << "mask.right is " << right
                               << "; it must be >= 0 or strobe::unlimited";
    return {};
  }
#endif
};

/// Query q sees keys 0 .. q: with q_len = kv_len the usual triangle; otherwise aligned
/// bottom-right.
struct Causal {
  struct Bound {
    Span q;
    STROBE_HOST_DEVICE bool visible(int position, int k) const { return k <= position; }
    STROBE_HOST_DEVICE Tile tile(Span keys) const {
      if (keys.begin > q.end - 1) return Tile::skip;
      return keys.end - 1 <= q.begin ? Tile::full : Tile::partial;
    }
    STROBE_HOST_DEVICE int next_key(int k) const { return k > q.end - 1 ? unlimited : k; }
    STROBE_HOST_DEVICE Span keys_of(int position) const { return {0, position + 1}; }
  };
  STROBE_HOST_DEVICE Bound bind(const Block& block) const { return {block.q}; }
};

/// Causal, and only the first `sinks` keys and the last `left` + 1 keys up to the query itself
/// (attention sinks with a sliding window; Xiao et al., "Efficient Streaming Language Models with
/// Attention Sinks", section 3). The keys between are never loaded.
struct SinkWindow {
  int sinks = 4;
  int left = unlimited;

  struct Bound {
    int sinks;
    Window::Bound window;  // {left, 0}
    STROBE_HOST_DEVICE bool visible(int position, int k) const {
      return k <= position && (k < sinks || window.visible(position, k));
    }
    STROBE_HOST_DEVICE Tile tile(Span keys) const {
      const Tile in_window = window.tile(keys);
      if (in_window == Tile::full || keys.begin >= sinks) return in_window;
      if (keys.begin > window.q.end - 1) return Tile::skip;
      const bool whole = keys.end <= sinks && keys.end - 1 <= window.q.begin;
      return whole ? Tile::full : Tile::partial;
    }
    STROBE_HOST_DEVICE int next_key(int k) const {
      return k < sinks && k <= window.q.end - 1 ? k : window.next_key(k);
    }
  };
  STROBE_HOST_DEVICE Bound bind(const Block& block) const { return {sinks, {left, 0, block.q}}; }

#if !defined(__CUDACC_RTC__)
  Status check(const Bounds& bounds) const noexcept {
    if (sinks < 0) return detail::invalid() << "mask.sinks is " << sinks << "; it must be >= 0";
    return Window{left, 0}.check(bounds);
  }
#endif
};

/// Tokens see only keys of their own document: document_of[batch][position] (device memory, kv_len
/// entries a batch entry, `batch_stride` apart) numbers the document of every key position.
/// `ascending` promises that the numbers never descend, as in sequences packed one after another:
/// tiles of other documents are then not visited. In any other order every tile is, element by
/// element. Combine with Causal through Both.
struct Document {
  static constexpr bool looks_up = true;
  const int* document_of = nullptr;
  int64_t batch_stride = 0;
  bool ascending = false;

  struct Bound {
    const int* of;
    Span keys;          ///< of the documents of the block's rows; all where not ascending
    bool one_document;  ///< ascending, and all rows are of one
    int kv_len;
    bool ascending;
    STROBE_HOST_DEVICE bool visible(int position, int k) const {
      return position >= 0 && of[position] == of[k];
    }
    STROBE_HOST_DEVICE bool one_span() const { return ascending; }
    STROBE_HOST_DEVICE Span keys_of(int position) const {
      if (position < 0) return {0, 0};
      if (one_document) return keys;
      return keys_around(of, keys, position, position);
    }
    STROBE_HOST_DEVICE Tile tile(Span tile_keys) const {
      if (tile_keys.end <= keys.begin || tile_keys.begin >= keys.end) return Tile::skip;
      return one_document && tile_keys.begin >= keys.begin && tile_keys.end <= keys.end
                 ? Tile::full
                 : Tile::partial;
    }
    STROBE_HOST_DEVICE int next_key(int k) const {
      return k < keys.begin ? keys.begin : k < keys.end ? k : kv_len;
    }
  };
  STROBE_HOST_DEVICE Bound bind(const Block& block) const {
    const int* const of = document_of + block.batch * batch_stride;
    Bound bound{of, {0, block.kv_len}, false, block.kv_len, ascending};
    if (!ascending) return bound;
    // Rows before key 0 see nothing; where all are, no key is visited.
    const int first_row = detail::max_of(block.q.begin, 0), last_row = block.q.end - 1;
    if (last_row < first_row) {
      bound.keys = {block.kv_len, block.kv_len};
      return bound;
    }
    bound.keys = keys_around(of, bound.keys, first_row, last_row);
    bound.one_document = block.q.begin >= 0 && of[first_row] == of[last_row];
    return bound;
  }

  /// Of these keys the ones of the documents of `first` to `last`. Both ends are searched for at
  /// once, because a load takes long.
  STROBE_HOST_DEVICE static Span keys_around(const int* of, Span keys, int first, int last) {
    const int low = of[first], high = of[last];
    Span begin{keys.begin, first}, end{last, keys.end - 1};  // where each may be, ends included
    while (begin.begin < begin.end || end.begin < end.end) {
      const int b = begin.begin + (begin.end - begin.begin) / 2;
      const int e = end.begin + (end.end - end.begin + 1) / 2;
      const bool before = of[b] < low, within = of[e] <= high;
      (before ? begin.begin : begin.end) = before ? b + 1 : b;
      (within ? end.begin : end.end) = within ? e : e - 1;
    }
    return {begin.begin, end.begin + 1};
  }

#if !defined(__CUDACC_RTC__)
  Status check(const Bounds&) const noexcept {
    if (document_of == nullptr) return detail::invalid() << "mask.document_of is null";
    return detail::check_word_pointer("mask.document_of", document_of);
  }
#endif
};

/// Block-sparse attention: the keys are cut into blocks of `kv_block`, the query positions into
/// rows of `q_block`, and row r of the list sees the key blocks `columns[offsets[r]]` to
/// `columns[offsets[r + 1] - 1]`, strictly ascending (CSR, device memory). r = (batch * q_heads +
/// q_head) * rows_per_head + position / q_block where `per_head`, else position / q_block for all.
/// Positions below 0 see nothing.
struct BlockList {
  static constexpr bool varies_by_head = true;
  const int* offsets = nullptr;
  const int* columns = nullptr;
  int q_block = 64;
  int kv_block = 64;
  bool per_head = false;
  int q_heads = 0;        ///< looked at only where per_head
  int rows_per_head = 0;  ///< likewise

  struct Bound {
    const int* offsets;
    const int* columns;
    int q_block, kv_block;
    Span rows;  // list rows that the block's positions fall into

    // First entry of one row's list that is >= column, as an index into `columns`.
    STROBE_HOST_DEVICE int lower_bound(int row, int column) const {
      int begin = offsets[row], end = offsets[row + 1];
      while (begin < end) {
        const int middle = begin + (end - begin) / 2;
        if (columns[middle] < column) {
          begin = middle + 1;
        } else {
          end = middle;
        }
      }
      return begin;
    }
    STROBE_HOST_DEVICE bool visible(int position, int k) const {
      if (position < 0) return false;
      const int row = position / q_block, column = k / kv_block;
      const int at = lower_bound(row, column);
      return at < offsets[row + 1] && columns[at] == column;
    }
    STROBE_HOST_DEVICE Tile tile(Span keys) const {
      const int first = keys.begin / kv_block, last = (keys.end - 1) / kv_block;
      bool any = false, all = has_only_listed_rows;
      for (int row = rows.begin; row < rows.end; ++row) {
        const int at = lower_bound(row, first), end = offsets[row + 1];
        any = any || (at < end && columns[at] <= last);
        all = all && at + (last - first) < end && columns[at + (last - first)] == last;
      }
      return !any ? Tile::skip : all ? Tile::full : Tile::partial;
    }
    STROBE_HOST_DEVICE int next_key(int k) const {
      int next = unlimited;
      for (int row = rows.begin; row < rows.end; ++row) {
        const int at = lower_bound(row, k / kv_block);
        if (at < offsets[row + 1])
          next = detail::min_of(next, detail::max_of(k, columns[at] * kv_block));
      }
      return next;
    }
    bool has_only_listed_rows;  // false where some positions are negative: those see nothing, so no
                                // tile is full
  };
  STROBE_HOST_DEVICE Bound bind(const Block& block) const {
    const int64_t base =
        per_head ? (int64_t(block.batch) * q_heads + block.q_head) * rows_per_head : 0;
    const int first = detail::max_of(block.q.begin, 0) / q_block;
    const int end = block.q.end <= 0 ? first : (block.q.end - 1) / q_block + 1;
    return {offsets + base, columns, q_block, kv_block, {first, end}, block.q.begin >= 0};
  }

#if !defined(__CUDACC_RTC__)
  Status check(const Bounds& bounds) const noexcept {
    if (offsets == nullptr) return detail::invalid() << "mask.offsets is null";
    if (columns == nullptr) return detail::invalid() << "mask.columns is null";
    Status s;
    if (!(s = detail::check_word_pointer("mask.offsets", offsets))) return s;
    if (!(s = detail::check_word_pointer("mask.columns", columns))) return s;
    if (q_block < 1)
      return detail::invalid() << "mask.q_block is " << q_block << "; it must be >= 1";
    if (kv_block < 1)
      return detail::invalid() << "mask.kv_block is " << kv_block << "; it must be >= 1";
    if (per_head && q_heads != bounds.q_heads)
      return detail::invalid() << "mask.q_heads is " << q_heads << " but bounds.q_heads is "
                               << bounds.q_heads;
    if (per_head && int64_t(rows_per_head) * q_block < bounds.kv_len)
      return detail::invalid() << "mask.rows_per_head is " << rows_per_head << "; with q_block "
                               << q_block << " it does not reach bounds.kv_len " << bounds.kv_len;
    return {};
  }
#endif
};

namespace detail {

// The defaults of a Bound's optional questions. Looked up by name, then called, so that a wrong
// signature is an error and never a silent default.
template <class Bound>
STROBE_HOST_DEVICE constexpr auto has_tile(int) -> decltype(&Bound::tile, true) {
  return true;
}
template <class Bound>
STROBE_HOST_DEVICE constexpr bool has_tile(...) {
  return false;
}
template <class Bound>
STROBE_HOST_DEVICE constexpr auto has_next_key(int) -> decltype(&Bound::next_key, true) {
  return true;
}
template <class Bound>
STROBE_HOST_DEVICE constexpr bool has_next_key(...) {
  return false;
}
// Of what is not a function but a template, too (Both's), of which no address can be taken.
template <class Bound>
STROBE_HOST_DEVICE constexpr auto has_keys_of(int) -> decltype(&Bound::keys_of, true) {
  return true;
}
template <class Bound>
STROBE_HOST_DEVICE constexpr auto has_keys_of(long) -> decltype(declare<Bound>().keys_of(0), true) {
  return true;
}
template <class Bound>
STROBE_HOST_DEVICE constexpr bool has_keys_of(...) {
  return false;
}
template <class Bound>
STROBE_HOST_DEVICE constexpr auto has_one_span(int) -> decltype(&Bound::one_span, true) {
  return true;
}
template <class Bound>
STROBE_HOST_DEVICE constexpr bool has_one_span(...) {
  return false;
}
template <class Mask>
STROBE_HOST_DEVICE constexpr auto varies_by_head(int) -> decltype(Mask::varies_by_head) {
  return Mask::varies_by_head;
}
template <class Mask>
STROBE_HOST_DEVICE constexpr bool varies_by_head(...) {
  return false;
}
template <class Mask>
STROBE_HOST_DEVICE constexpr auto looks_up(int) -> decltype(Mask::looks_up) {
  return Mask::looks_up;
}
template <class Mask>
STROBE_HOST_DEVICE constexpr bool looks_up(...) {
  return false;
}

// From here on a mask's functions are called by functions for both sides. To nvcc a call of one
// that lacks __device__ is then a warning, and what the kernel would do is anybody's guess.
#if defined(__NVCC__)
#pragma nv_diagnostic push
#pragma nv_diag_error 20011, 20014
#endif

template <class Bound>
STROBE_HOST_DEVICE Tile mask_tile(const Bound& bound, Span keys) {
  if constexpr (has_tile<Bound>(0)) {
    return bound.tile(keys);
  } else {
    return Tile::partial;
  }
}
template <class Bound>
STROBE_HOST_DEVICE int mask_next_key(const Bound& bound, int k) {
  if constexpr (has_next_key<Bound>(0)) {
    return bound.next_key(k);
  } else {
    return k;
  }
}

/// Whether keys_of may be asked; the same for all threads.
template <class Bound>
STROBE_HOST_DEVICE bool mask_one_span(const Bound& bound) {
  if constexpr (!has_keys_of<Bound>(0)) {
    return false;
  } else if constexpr (has_one_span<Bound>(0)) {
    return bound.one_span();
  } else {
    return true;
  }
}

}  // namespace detail

/// Conjunction: visible where both masks say so. Both<Causal, Document>, nested as often as needed.
template <class First, class Second>
struct Both {
  static constexpr bool varies_by_head =
      detail::varies_by_head<First>(0) || detail::varies_by_head<Second>(0);
  static constexpr bool looks_up = detail::looks_up<First>(0) || detail::looks_up<Second>(0);
  First first;
  Second second;

  struct Bound {
    detail::BoundOf<First> first;
    detail::BoundOf<Second> second;
    int kv_len;
    STROBE_HOST_DEVICE bool visible(int q, int k) const {
      return first.visible(q, k) && second.visible(q, k);
    }
    STROBE_HOST_DEVICE Tile tile(Span keys) const {
      const Tile a = detail::mask_tile(first, keys);
      if (a == Tile::skip) return a;
      const Tile b = detail::mask_tile(second, keys);
      return a == Tile::full || b == Tile::skip ? b : Tile::partial;
    }
    STROBE_HOST_DEVICE int next_key(int k) const {
      const int after_first = detail::mask_next_key(first, k);
      return after_first >= kv_len ? after_first : detail::mask_next_key(second, after_first);
    }
    STROBE_HOST_DEVICE bool one_span() const {
      return detail::mask_one_span(first) && detail::mask_one_span(second);
    }
    /// Where both have it.
    template <class FirstBound = detail::BoundOf<First>,
              class SecondBound = detail::BoundOf<Second>>
    STROBE_HOST_DEVICE auto keys_of(int q) const
        -> decltype(detail::declare<FirstBound>().keys_of(q),
                    detail::declare<SecondBound>().keys_of(q)) {
      const Span a = first.keys_of(q), b = second.keys_of(q);
      return {detail::max_of(a.begin, b.begin), detail::min_of(a.end, b.end)};
    }
  };
  STROBE_HOST_DEVICE Bound bind(const Block& block) const {
    return {first.bind(block), second.bind(block), block.kv_len};
  }

#if !defined(__CUDACC_RTC__)
  Status check(const Bounds& bounds) const noexcept {
    const Status status = detail::check_noun(first, bounds, 0);
    return status.ok() ? detail::check_noun(second, bounds, 0) : status;
  }
#endif
};

/// The key tiles a block visits, in ascending order, holes left out: one step of the kernels' main
/// loop. Works on block_kv-sized tiles at absolute positions 0, block_kv, 2 * block_kv, ...
struct TileStep {
  int begin = 0;         ///< first key of the tile
  bool partial = false;  ///< ask visible() for every element; else all keys are seen by all rows
  bool valid = false;    ///< false: the walk is over
};

/// First tile at or after key `k` that may hold something. Called by every thread that needs it,
/// with the same result.
template <class Bound>
STROBE_HOST_DEVICE TileStep next_tile(const Bound& bound, int k, int kv_len, int block_kv) {
  while (k < kv_len) {
    k = detail::max_of(k, detail::mask_next_key(bound, k));
    if (k >= kv_len) break;
    const int begin = k - k % block_kv;
    const int end = detail::min_of(kv_len - begin, block_kv) + begin;
    const Tile kind = detail::mask_tile(bound, Span{begin, end});
    if (kind != Tile::skip) return {begin, kind == Tile::partial || end - begin < block_kv, true};
    k = end;
  }
  return {};
}

#if defined(__NVCC__)
#pragma nv_diagnostic pop
#endif

}  // namespace STROBE_ABI
}  // namespace strobe
