// SPDX-License-Identifier: MIT
/// @file
/// What a caller hands over: views of tensors, upper bounds and device-side lengths, the device,
/// the workspace. Layer: noun, host and device, no kernels. Plain aggregates with defaults, the
/// same in .cpp and .cu files.
///
/// Words (the whole library uses just these): q_len, kv_len: tokens of one sequence; q_heads,
/// kv_heads; head_dim: width of Q and K rows; value_dim: width of V and O rows; strides are in
/// elements, never bytes, unless a name ends in _bytes.
#pragma once

#include "detail/integers.hpp"
#if !defined(__CUDACC_RTC__)
#include "status.hpp"
#endif

namespace strobe {
inline namespace STROBE_ABI {

/// Softmax is computed in base 2: exp(x) = exp2(log2_e * x).
inline constexpr float log2_e = 1.4426950408889634f;

/// A tensor [batch, token, head, dim] in memory: where element (0, 0, 0, 0) is, and how far apart
/// neighbours are, in elements. The dim stride is always 1, so (batch, token, head, dim) and
/// (batch, head, token, dim) are both just strides. Q, K, V, O: base and strides are multiples of
/// 16 bytes. LSE has no dim and needs only its natural alignment. A stride whose extent is 1 is not
/// looked at. When tokens are packed by offsets (Lengths), the batch stride is not looked at.
template <class T>
struct View {
  T* data = nullptr;
  int64_t batch = 0;
  int64_t token = 0;
  int64_t head = 0;

  /// First element of one (batch, token, head) row. 64-bit throughout: pools beyond 2^31 elements
  /// work.
  STROBE_HOST_DEVICE T* row(int64_t b, int64_t t, int64_t h) const {
    return data + b * batch + t * token + h * head;
  }
};

/// A contiguous [batch, tokens, heads, dim] tensor. Pass dim = 1 for an LSE [batch, tokens, heads].
template <class T>
constexpr View<T> token_major(T* data, int64_t tokens, int64_t heads, int64_t dim) {
  return {data, tokens * heads * dim, heads * dim, dim};
}
/// A contiguous [batch, heads, tokens, dim] tensor. Pass dim = 1 for an LSE [batch, heads, tokens].
template <class T>
constexpr View<T> head_major(T* data, int64_t heads, int64_t tokens, int64_t dim) {
  return {data, heads * tokens * dim, dim, tokens * dim};
}

/// Upper bounds, known to the host: with the device they alone decide the launch and the workspace,
/// so a captured graph replays with other lengths. A loose bound costs next to nothing. All
/// zero-extent problems are legal and do nothing.
struct Bounds {
  int batch = 0;
  int q_len = 0;   ///< longest query sequence
  int kv_len = 0;  ///< longest key/value sequence
  int q_heads = 0;
  int kv_heads = 0;  ///< divides q_heads; any ratio
  int kv_splits =
      0;  ///< decode: parts the keys are cut into at most; 0: chosen from the other bounds
};

/// What is real, in device memory, read by the kernel; every pointer may be null. Without offsets a
/// sequence starts at its batch stride; with offsets [batch + 1], ascending, sequence b owns tokens
/// [offsets[b], offsets[b + 1]) of a packed tensor. Without lengths [batch] a sequence is as long
/// as its offsets say, else as its bound says; with them it is that long. A length below 0 counts
/// as 0, one above its bound or its offsets is cut to that.
struct Lengths {
  const int* q_offsets = nullptr;
  const int* q_lens = nullptr;
  const int* kv_offsets = nullptr;
  const int* kv_lens = nullptr;
};

/// One sequence, resolved: where its tokens start and how many there are.
struct Sequence {
  int batch;         ///< index for batch strides; 0 where tokens are packed
  int64_t q_begin;   ///< first query token
  int64_t kv_begin;  ///< first key/value token
  int kv_batch;
  int q_len;
  int kv_len;
};

/// Every read of device-side lengths happens here. Called by any thread; a few loads of the same
/// address a block.
STROBE_HOST_DEVICE Sequence resolve_sequence(const Bounds& bounds, const Lengths& lengths,
                                             int batch) {
  Sequence s{batch, 0, 0, batch, bounds.q_len, bounds.kv_len};
  if (lengths.q_offsets != nullptr) {
    s.batch = 0;
    s.q_begin = lengths.q_offsets[batch];
    s.q_len = detail::min_of(s.q_len, lengths.q_offsets[batch + 1] - int(s.q_begin));
  }
  if (lengths.kv_offsets != nullptr) {
    s.kv_batch = 0;
    s.kv_begin = lengths.kv_offsets[batch];
    s.kv_len = detail::min_of(s.kv_len, lengths.kv_offsets[batch + 1] - int(s.kv_begin));
  }
  if (lengths.q_lens != nullptr) s.q_len = detail::min_of(s.q_len, lengths.q_lens[batch]);
  if (lengths.kv_lens != nullptr) s.kv_len = detail::min_of(s.kv_len, lengths.kv_lens[batch]);
  s.q_len = detail::max_of(s.q_len, 0);
  s.kv_len = detail::max_of(s.kv_len, 0);
  return s;
}

/// Half-open range of positions.
struct Span {
  int begin = 0;
  int end = 0;
};

/// The work of one thread block, as masks and scores see it. Query rows are in key coordinates: row
/// r of a sequence stands at position r + kv_len - q_len, so decode and prefill ask the same
/// question (and a position is negative where q_len is larger than kv_len).
struct Block {
  int batch = 0;
  int q_head = 0;
  int kv_head = 0;
  Span q;  ///< positions of the block's query rows, rows past the sequence's end left out
  int q_len = 0;
  int kv_len = 0;
};

namespace detail {
template <class Noun>
const Noun& declare() noexcept;  // never defined: for decltype alone
/// What a mask or a score becomes once it is bound.
template <class Noun>
using BoundOf = decltype(declare<Noun>().bind(Block{}));

// <type_traits> costs a user more than the nouns do.
template <class...>
using Void = void;
template <class One, class Other>
inline constexpr bool is_same = false;
template <class One>
inline constexpr bool is_same<One, One> = true;
}  // namespace detail

#if !defined(__CUDACC_RTC__)

/// Facts about a GPU, fetched once by the caller and passed to every call: nothing is queried
/// behind its back.
struct Device {
  int ordinal = 0;
  int compute_capability = 0;      ///< 10 * major + minor: 80, 86, 90, 120
  int sm_count = 0;                ///< multiprocessors that launches are made for
  int shared_bytes_per_block = 0;  ///< what a block may opt in to
};

/// Scratch memory owned by the caller: device memory, 256-byte aligned. Its first
/// `workspace_header_bytes` are counters, always at the same place: init_workspace clears them
/// once, every call leaves them ready for the next; the rest may hold anything. One call in flight
/// per workspace.
struct Workspace {
  void* data = nullptr;
  size_t bytes = 0;
};
/// Of a Workspace: its counters.
inline constexpr size_t workspace_header_bytes = 65536;

namespace detail {
/// A mask's, score's or KV source's own `check`, where it has one; else fine.
template <class Noun>
auto check_noun(const Noun& noun, const Bounds& bounds, int) noexcept
    -> decltype(noun.check(bounds)) {
  return noun.check(bounds);
}
template <class Noun, class = void>
inline constexpr bool has_check = false;
template <class Noun>
inline constexpr bool has_check<Noun, Void<decltype(&Noun::check)>> = true;
template <class Noun>
Status check_noun(const Noun&, const Bounds&, ...) noexcept {
  static_assert(!has_check<Noun>, "mask or score: its check is Status check(const Bounds&) const");
  return {};
}
}  // namespace detail

#endif

/// The softmax scale; left alone it is 1 / sqrt(head_dim). Any finite value is legal, 0 and
/// negative ones included, which is why "not given" cannot be a number.
struct Scale {
  constexpr Scale() = default;
  template <class Number>
  constexpr Scale(Number scale) : value(static_cast<float>(scale)), given(true) {}
  float value = 0.f;
  bool given = false;
};

}  // namespace STROBE_ABI
}  // namespace strobe
