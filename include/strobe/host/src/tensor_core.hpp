// SPDX-License-Identifier: MIT
// Tensor-core arithmetic on matrices of 16-bit elements, on whatever vector unit the CPU has.
// Layer: host execution, internal.
#pragma once

#include <cstddef>
#include <cstdint>

#include "../runtime.hpp"

namespace strobe {
inline namespace STROBE_ABI {
namespace host {

// D += A B on the exchange of a warp: see WarpExchange for the layout. Products of 16-bit elements
// are exact in fp32; they are summed in fp32 in the order of k, then added to D. A tensor core sums
// in another order and truncates, so that only results that need no rounding are equal bit for bit.
void multiply_m16n8k16(WarpExchange& exchange, Element type);

// The same in pieces, for products of more columns. An 8x8 matrix, or its transpose, becomes fp32:
// rows[i] is row i of the matrix, 16 bytes; row i of the result is at to + i * stride.
void widen_8x8(Element type, const unsigned char* const (&rows)[8], bool transposed, float* to,
               size_t stride);
// D (16 x n) = A (16 x 16) B (16 x n), added to D if `accumulate`. In fp32, row-major, n a multiple
// of 8.
void multiply_m16k16(const float* a, const float* b, float* d, int n, bool accumulate);

// rows[i] is row i, 16 contiguous bytes, of an 8x8 matrix; `out` gets its 8 rows, or its 8 columns.
void load_rows(unsigned char* const (&rows)[8], bool transposed, uint32_t (&out)[32]);
void store_rows(const uint32_t (&in)[32], bool transposed, unsigned char* const (&rows)[8]);

}  // namespace host
}  // namespace STROBE_ABI
}  // namespace strobe
