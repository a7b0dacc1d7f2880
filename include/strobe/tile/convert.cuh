// SPDX-License-Identifier: MIT
// Two 16-bit values of a register as floats. Layer: tile. (The other direction is one instruction:
// ptx::pack2.)
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include "../ptx/prelude.cuh"
#include "../types.hpp"

namespace strobe {
inline namespace STROBE_ABI {
namespace tile {

/// x: the low half, y: the high half. Any thread.
template <class T>
STROBE_DEVICE float2 unpack2(uint32_t bits) {
  if constexpr (detail::is_same<T, __half>) {
    __half2_raw raw;
    raw.x = static_cast<unsigned short>(bits & 0xffff);
    raw.y = static_cast<unsigned short>(bits >> 16);
    return __half22float2(__half2(raw));
  } else {
    static_assert(detail::is_same<T, __nv_bfloat16>, "element types are __half and __nv_bfloat16");
    return make_float2(__uint_as_float(bits << 16), __uint_as_float(bits & 0xffff0000u));
  }
}

}  // namespace tile
}  // namespace STROBE_ABI
}  // namespace strobe
