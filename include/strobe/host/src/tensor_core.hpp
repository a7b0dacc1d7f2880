// SPDX-License-Identifier: MIT
// Tensor-core arithmetic on matrices of 16-bit elements, on whatever vector unit the CPU has.
// Layer: host execution, internal.
#pragma once

#include <cstdint>

#include "../runtime.hpp"

namespace strobe {
inline namespace STROBE_ABI {
namespace host {

// D += A B on the exchange of a warp: see WarpExchange for the layout. Products of 16-bit elements
// are exact in fp32; they are summed in fp32 in the order of k, then added to D. A tensor core sums
// in another order and truncates, so that only results that need no rounding are equal bit for bit.
void multiply_m16n8k16(WarpExchange& exchange, Element type);

// rows[i] is row i, 16 contiguous bytes, of an 8x8 matrix; `out` gets its 8 rows, or its 8 columns.
void load_rows(unsigned char* const (&rows)[8], bool transposed, uint32_t (&out)[32]);
void store_rows(const uint32_t (&in)[32], bool transposed, unsigned char* const (&rows)[8]);

}  // namespace host
}  // namespace STROBE_ABI
}  // namespace strobe
