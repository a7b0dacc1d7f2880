// SPDX-License-Identifier: MIT
// CUDA's relaxed atomics and memory fences for host execution. Called by one thread, for itself.
// Layer: host execution. Source: CUDA C++ Programming Guide, "Atomic Functions", "Memory Fence
// Functions". A relaxed atomic orders nothing by itself; __threadfence() before it publishes, one
// after it receives. The race checker follows both. For counters that hand data over,
// ptx/atomic.cuh says what is meant in one instruction.
#pragma once

#include "runtime.hpp"

#define STROBE_HOST_ATOMIC(NAME, EXPRESSION)                                                 \
  template <class T>                                                                         \
  inline T NAME(T* pointer, T value, strobe::host::Site site = strobe::host::Site::here()) { \
    return strobe::host::atomic_update(                                                      \
        pointer, [value](T old) { return static_cast<T>(EXPRESSION); },                      \
        strobe::host::Ordering::relaxed, site);                                              \
  }
STROBE_HOST_ATOMIC(atomicAdd, old + value)
STROBE_HOST_ATOMIC(atomicSub, old - value)
STROBE_HOST_ATOMIC(atomicMin, value < old ? value : old)
STROBE_HOST_ATOMIC(atomicMax, old < value ? value : old)
STROBE_HOST_ATOMIC(atomicAnd, old& value)
STROBE_HOST_ATOMIC(atomicOr, old | value)
STROBE_HOST_ATOMIC(atomicXor, old ^ value)
STROBE_HOST_ATOMIC(atomicExch, (static_cast<void>(old), value))
STROBE_HOST_ATOMIC(atomicInc, old >= value ? T{0} : old + 1)
STROBE_HOST_ATOMIC(atomicDec, (old == 0 || old > value) ? value : old - 1)
#undef STROBE_HOST_ATOMIC

template <class T>
inline T atomicCAS(T* pointer, T compare, T value,
                   strobe::host::Site site = strobe::host::Site::here()) {
  return strobe::host::atomic_update(
      pointer, [compare, value](T old) { return old == compare ? value : old; },
      strobe::host::Ordering::relaxed, site);
}

inline void __threadfence() { strobe::host::memory_fence(); }
inline void __threadfence_system() { strobe::host::memory_fence(); }
// Within a block only barriers and warp barriers hand data over in this library.
inline void __threadfence_block() {}
