// SPDX-License-Identifier: MIT
// Shuffles, votes and warp barriers for host execution. Called by exactly the lanes that `mask`
// names.
// Layer: host execution. Source: CUDA C++ Programming Guide, "Warp Shuffle Functions", "Warp Vote
// Functions", "Warp Reduce Functions". Left out: __activemask and __match_*: nothing in the
// library may depend on them.
#pragma once

#include "runtime.hpp"

namespace strobe {
inline namespace STROBE_ABI {
namespace host {

enum class Shuffle { indexed, up, down, exclusive_or };

// The lane to read. A source outside the lane's segment of `width` lanes means the lane itself.
inline uint32_t shuffle_source(Shuffle kind, uint32_t argument, int width) {
  const uint32_t lane = current->lane;
  const uint32_t in_segment = lane & static_cast<uint32_t>(width - 1);
  const uint32_t segment = lane - in_segment;
  const uint32_t size = static_cast<uint32_t>(width);
  switch (kind) {
    case Shuffle::indexed:
      return segment + (argument & (size - 1));
    case Shuffle::up:
      return argument > in_segment ? lane : lane - argument;
    case Shuffle::down:
      return argument >= size - in_segment ? lane : lane + argument;
    case Shuffle::exclusive_or:
      break;
  }
  const uint32_t source = lane ^ argument;
  return source >= segment + size ? lane : source;
}

template <class T>
STROBE_HOST_UNCHECKED inline T shuffle(Shuffle kind, uint32_t mask, T value, uint32_t argument,
                                       int width, const char* name, Site site) {
  static_assert(sizeof(T) <= 8, "shuffles move 2, 4 or 8 bytes");
  if (width <= 0 || width > 32 || (width & (width - 1)) != 0) {
    fail("a shuffle's width is not a power of two up to 32", site);
  }
  const uint32_t source = shuffle_source(kind, argument, width);
  check_source_lane(mask, source, name, site);
  uint64_t bits = 0;
  std::memcpy(&bits, static_cast<const void*>(&value), sizeof(T));
  bits = gather(mask, bits, name, site)[source];
  std::memcpy(static_cast<void*>(&value), &bits, sizeof(T));
  return value;
}

STROBE_HOST_UNCHECKED inline uint32_t ballot(uint32_t mask, bool predicate, const char* name,
                                             Site site) {
  const uint64_t* given = gather(mask, predicate, name, site);
  uint32_t result = 0;
  for (uint32_t lane = 0; lane < 32; ++lane) {
    if ((mask >> lane & 1) != 0 && given[lane] != 0) result |= 1u << lane;
  }
  return result;
}

template <class T, class Combine>
STROBE_HOST_UNCHECKED inline T reduce(uint32_t mask, T value, Combine combine, const char* name,
                                      Site site) {
  const uint64_t* given = gather(mask, static_cast<uint32_t>(value), name, site);
  bool first = true;
  T result{};
  for (uint32_t lane = 0; lane < 32; ++lane) {
    if ((mask >> lane & 1) == 0) continue;
    const T next = static_cast<T>(static_cast<uint32_t>(given[lane]));
    result = first ? next : combine(result, next);
    first = false;
  }
  return result;
}

}  // namespace host
}  // namespace STROBE_ABI
}  // namespace strobe

inline void __syncwarp(unsigned mask = 0xffffffffu,
                       strobe::host::Site site = strobe::host::Site::here()) {
  strobe::host::warp_barrier(mask, site);
}

template <class T>
inline T __shfl_sync(unsigned mask, T value, int source, int width = 32,
                     strobe::host::Site site = strobe::host::Site::here()) {
  return strobe::host::shuffle(strobe::host::Shuffle::indexed, mask, value,
                               static_cast<uint32_t>(source), width, "__shfl_sync", site);
}
template <class T>
inline T __shfl_up_sync(unsigned mask, T value, unsigned delta, int width = 32,
                        strobe::host::Site site = strobe::host::Site::here()) {
  return strobe::host::shuffle(strobe::host::Shuffle::up, mask, value, delta, width,
                               "__shfl_up_sync", site);
}
template <class T>
inline T __shfl_down_sync(unsigned mask, T value, unsigned delta, int width = 32,
                          strobe::host::Site site = strobe::host::Site::here()) {
  return strobe::host::shuffle(strobe::host::Shuffle::down, mask, value, delta, width,
                               "__shfl_down_sync", site);
}
template <class T>
inline T __shfl_xor_sync(unsigned mask, T value, int lane_mask, int width = 32,
                         strobe::host::Site site = strobe::host::Site::here()) {
  return strobe::host::shuffle(strobe::host::Shuffle::exclusive_or, mask, value,
                               static_cast<uint32_t>(lane_mask), width, "__shfl_xor_sync", site);
}

inline unsigned __ballot_sync(unsigned mask, int predicate,
                              strobe::host::Site site = strobe::host::Site::here()) {
  return strobe::host::ballot(mask, predicate != 0, "__ballot_sync", site);
}
inline int __any_sync(unsigned mask, int predicate,
                      strobe::host::Site site = strobe::host::Site::here()) {
  return strobe::host::ballot(mask, predicate != 0, "__any_sync", site) != 0;
}
inline int __all_sync(unsigned mask, int predicate,
                      strobe::host::Site site = strobe::host::Site::here()) {
  return strobe::host::ballot(mask, predicate != 0, "__all_sync", site) == mask;
}

// __reduce_*_sync: sm_80, 32-bit integers.
#define STROBE_HOST_REDUCE(NAME, TYPE, EXPRESSION)                                               \
  inline TYPE NAME(unsigned mask, TYPE value,                                                    \
                   strobe::host::Site site = strobe::host::Site::here()) {                       \
    return strobe::host::reduce(                                                                 \
        mask, value, [](TYPE x, TYPE y) { return static_cast<TYPE>(EXPRESSION); }, #NAME, site); \
  }
STROBE_HOST_REDUCE(__reduce_add_sync, unsigned, x + y)
STROBE_HOST_REDUCE(__reduce_add_sync, int, static_cast<unsigned>(x) + static_cast<unsigned>(y))
STROBE_HOST_REDUCE(__reduce_min_sync, unsigned, x < y ? x : y)
STROBE_HOST_REDUCE(__reduce_min_sync, int, x < y ? x : y)
STROBE_HOST_REDUCE(__reduce_max_sync, unsigned, x < y ? y : x)
STROBE_HOST_REDUCE(__reduce_max_sync, int, x < y ? y : x)
STROBE_HOST_REDUCE(__reduce_and_sync, unsigned, x& y)
STROBE_HOST_REDUCE(__reduce_or_sync, unsigned, x | y)
STROBE_HOST_REDUCE(__reduce_xor_sync, unsigned, x ^ y)
#undef STROBE_HOST_REDUCE
