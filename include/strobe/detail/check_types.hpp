// SPDX-License-Identifier: MIT
// Mistakes in the types of a call, each named by one sentence before any kernel is looked at. What
// nobody else would catch comes first of all: K and V of another type than Q, nouns that cannot be
// copied to the device as bytes. Layer: detail, host and device.
#pragma once

#include "../mask.hpp"
#include "../policy.hpp"
#include "../score.hpp"

// Names are enough here; kernels include the headers.
struct __half;
struct __nv_bfloat16;

namespace strobe {
inline namespace STROBE_ABI {
namespace detail {

template <class T>
inline constexpr bool is_element = is_same<T, __half> || is_same<T, __nv_bfloat16>;

/// A width that tiles are compiled for; the real dimension is any multiple of 8 up to it.
constexpr bool is_width(int width) {
  return width == 32 || width == 64 || width == 96 || width == 128 || width == 192 || width == 256;
}

// Whether a type answers a question as its contract says. False, never an error: the sentences
// below are the errors.
template <class Noun, class = void>
inline constexpr bool has_bind = false;
template <class Noun>
inline constexpr bool has_bind<Noun, Void<BoundOf<Noun>>> = true;

// Without a Bound, another sentence's business, every optional question fits.
struct NoBound {};
template <class Noun, class = void>
struct BoundOrNoneOf {
  using Type = NoBound;
};
template <class Noun>
struct BoundOrNoneOf<Noun, Void<BoundOf<Noun>>> {
  using Type = BoundOf<Noun>;
};
template <class Noun>
using BoundOrNone = typename BoundOrNoneOf<Noun>::Type;

template <class Mask, class = void>
inline constexpr bool has_visible = false;
template <class Mask>
inline constexpr bool
    has_visible<Mask, Void<decltype(bool(declare<BoundOf<Mask>>().visible(0, 0)))>> = true;

template <class Bound, class = void>
inline constexpr bool tile_fits = !has_tile<Bound>(0);
template <class Bound>
inline constexpr bool tile_fits<Bound, Void<decltype(declare<Bound>().tile(Span{}))>> =
    is_same<decltype(declare<Bound>().tile(Span{})), Tile>;

template <class Bound, class = void>
inline constexpr bool next_key_fits = !has_next_key<Bound>(0);
template <class Bound>
inline constexpr bool next_key_fits<Bound, Void<decltype(int(declare<Bound>().next_key(0)))>> =
    true;

template <class Bound, class = void>
inline constexpr bool keys_of_fits = !has_keys_of<Bound>(0);
template <class Bound>
inline constexpr bool keys_of_fits<Bound, Void<decltype(declare<Bound>().keys_of(0))>> =
    is_same<decltype(declare<Bound>().keys_of(0)), Span>;

template <class Bound, class = void>
inline constexpr bool one_span_fits = !has_one_span<Bound>(0);
template <class Bound>
inline constexpr bool one_span_fits<Bound, Void<decltype(bool(declare<Bound>().one_span()))>> =
    true;

template <class Score, class = void>
inline constexpr bool has_score = false;
template <class Score>
inline constexpr bool
    has_score<Score, Void<decltype(float(declare<BoundOf<Score>>()(0.f, 0, 0)))>> = true;

template <class Bound, class = void>
inline constexpr bool ramp_fits = !has_ramp<Bound>(0);
template <class Bound>
inline constexpr bool ramp_fits<
    Bound, Void<decltype(declare<Bound>().ramp(Span{}, Span{}, static_cast<float*>(nullptr)))>> =
    is_same<decltype(declare<Bound>().ramp(Span{}, Span{}, static_cast<float*>(nullptr))), bool>;

template <class Bound, class = void>
inline constexpr bool shortcut_fits = !has_shortcut<Bound>(0);
template <class Bound>
inline constexpr bool shortcut_fits<Bound, Void<decltype(declare<Bound>().shortcut(0.f))>> =
    is_shortcut<decltype(declare<Bound>().shortcut(0.f))>;

template <class Kv, class = void>
inline constexpr bool has_value_type = false;
template <class Kv>
inline constexpr bool has_value_type<Kv, Void<typename Kv::value_type>> = true;
template <class Kv, class T, class = void>
inline constexpr bool holds = true;  // no value_type: another sentence's business
template <class Kv, class T>
inline constexpr bool holds<Kv, T, Void<typename Kv::value_type>> =
    is_same<typename Kv::value_type, T>;

template <class Policy, class = void>
inline constexpr bool has_sums = false;
template <class Policy>
inline constexpr bool
    has_sums<Policy, Void<decltype(Policy::reduction.chunk), decltype(Policy::precision)>> = true;
template <class Policy, class = void>
inline constexpr bool has_tiles = false;
template <class Policy>
inline constexpr bool has_tiles<Policy, Void<decltype(Policy::prefill(Family::sm80, 64, 64)),
                                             decltype(Policy::decode(Family::sm80, 64, 64))>> =
    (is_same<decltype(Policy::prefill(Family::sm80, 64, 64)), PrefillTile> &&
     is_same<decltype(Policy::decode(Family::sm80, 64, 64)), DecodeTile>);

/// The types of an Attention; to be instantiated with it.
template <class T, int HeadDim, class Mask, class Kv, class Score, int ValueDim, class Out,
          class Policy>
struct CheckTypes {
  static_assert(is_element<T>,
                "Attention: T, the type of Q's elements, is __half or __nv_bfloat16");
  static_assert(is_width(HeadDim),
                "Attention: HeadDim, a compiled width, is 32, 64, 96, 128, 192 or 256; the field "
                "head_dim may be any multiple of 8 up to it");
  static_assert(is_width(ValueDim),
                "Attention: ValueDim, a compiled width, is 32, 64, 96, 128, 192 or 256; the field "
                "value_dim may be any multiple of 8 up to it");
  static_assert(is_same<Out, T> || is_same<Out, float>,
                "Attention: Out, the type of O's elements, is T or float");

  static_assert(has_value_type<Kv>,
                "Attention: Kv is a KV source, such as Strided<T> or Paged<T> (kv.hpp)");
  static_assert(holds<Kv, T>, "Attention: K and V have the element type of Q");

  static_assert(has_bind<Mask>, "mask: it needs Bound bind(const Block&) const (mask.hpp)");
  static_assert(!has_bind<Mask> || has_visible<Mask>,
                "mask: its Bound needs bool visible(int q, int k) const (mask.hpp)");
  static_assert(tile_fits<BoundOrNone<Mask>>,
                "mask: its Bound's tile is Tile tile(Span keys) const (mask.hpp)");
  static_assert(next_key_fits<BoundOrNone<Mask>>,
                "mask: its Bound's next_key is int next_key(int k) const (mask.hpp)");
  static_assert(keys_of_fits<BoundOrNone<Mask>>,
                "mask: its Bound's keys_of is Span keys_of(int q) const (mask.hpp)");
  static_assert(one_span_fits<BoundOrNone<Mask>>,
                "mask: its Bound's one_span is bool one_span() const (mask.hpp)");

  static_assert(has_bind<Score>, "score: it needs Bound bind(const Block&) const (score.hpp)");
  static_assert(!has_bind<Score> || has_score<Score>,
                "score: its Bound needs float operator()(float logit, int q, int k) const "
                "(score.hpp)");
  static_assert(ramp_fits<BoundOrNone<Score>>,
                "score: its Bound's ramp is bool ramp(Span q, Span keys, float* per_key) const "
                "(score.hpp)");
  static_assert(shortcut_fits<BoundOrNone<Score>>,
                "score: its Bound's shortcut is shortcut(float scale) const and returns what has "
                "float operator()(float product, float more), most(float) and limit(), all const "
                "(score.hpp)");

  static_assert(__is_trivially_copyable(Mask),
                "mask: it travels to the device as bytes, so it is trivially copyable: numbers and "
                "device pointers, no containers");
  static_assert(__is_trivially_copyable(Score),
                "score: it travels to the device as bytes, so it is trivially copyable: numbers "
                "and device pointers, no containers");
  static_assert(__is_trivially_copyable(Kv),
                "Kv: it travels to the device as bytes, so it is trivially copyable: numbers and "
                "device pointers, no containers");

  static_assert(has_sums<Policy>,
                "Policy: it needs static constexpr Reduction reduction and static constexpr "
                "Precision precision; derive from DefaultPolicy to have the rest");
  static_assert(has_tiles<Policy>,
                "Policy: it needs static constexpr PrefillTile prefill(Family, int head_dim, int "
                "value_dim) and DecodeTile decode of the same; derive from DefaultPolicy to "
                "have the rest");
  static constexpr bool passed = true;
};

}  // namespace detail
}  // namespace STROBE_ABI
}  // namespace strobe
