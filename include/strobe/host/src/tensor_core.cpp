// SPDX-License-Identifier: MIT
// The matrix product in three steps: widen the operands to fp32, multiply, add. GCC's portable
// vectors (SSE2, NEON), and on x86-64 a second version for AVX2 + FMA + F16C, chosen at run time.
// An exact product followed by an addition rounds as a fused one does, so that both give the same
// bits.
// Layer: host execution, internal.
#include "tensor_core.hpp"

#include <cstring>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace strobe {
inline namespace STROBE_ABI {
namespace host {
namespace {

typedef uint16_t Half8 __attribute__((vector_size(16)));
typedef uint32_t Word8 __attribute__((vector_size(32)));
typedef float Float8 __attribute__((vector_size(32)));

// Operands in fp32.
struct alignas(64) Operands {
  float a[16][16];  // rows of A
  float b[16][8];   // rows of B
};

#if defined(__clang__)
#define STROBE_SHUFFLE_8(X, Y, ...) __builtin_shufflevector(X, Y, __VA_ARGS__)
#else
#define STROBE_SHUFFLE_8(X, Y, ...) __builtin_shuffle(X, Y, Half8{__VA_ARGS__})
#endif

// Interleaving the rows of the upper half with those of the lower half, three times over,
// transposes.
__attribute__((always_inline)) inline void transpose_8x8(Half8 (&m)[8]) {
  for (int step = 0; step < 3; ++step) {
    Half8 t[8];
    for (int i = 0; i < 4; ++i) {
      t[2 * i] = STROBE_SHUFFLE_8(m[i], m[i + 4], 0, 8, 1, 9, 2, 10, 3, 11);
      t[2 * i + 1] = STROBE_SHUFFLE_8(m[i], m[i + 4], 4, 12, 5, 13, 6, 14, 7, 15);
    }
    std::memcpy(m, t, sizeof t);
  }
}

struct FromBf16 {
  static __attribute__((always_inline)) inline void widen(const Half8& from, float* to) {
    const Word8 bits = __builtin_convertvector(from, Word8) << 16;
    std::memcpy(to, &bits, sizeof bits);
  }
};

// The exponent and mantissa moved into place read as the value times 2^-112, subnormals included;
// infinity and NaN need the largest exponent.
struct FromF16 {
  static __attribute__((always_inline)) inline void widen(const Half8& from, float* to) {
    const Word8 h = __builtin_convertvector(from, Word8);
    const Word8 moved = (h & 0x7fffu) << 13;
    Float8 scaled;
    std::memcpy(&scaled, &moved, sizeof moved);
    scaled *= 0x1p112f;
    Word8 bits;
    std::memcpy(&bits, &scaled, sizeof bits);
    const Word8 special = (Word8)((h & 0x7c00u) == 0x7c00u);
    bits = (special & (moved | 0x7f800000u)) | (~special & bits) | (h & 0x8000u) << 16;
    std::memcpy(to, &bits, sizeof bits);
  }
};

template <class From>
__attribute__((always_inline)) inline void widen_operands(const WarpExchange& x, Operands& o) {
  for (int quarter = 0; quarter < 4; ++quarter) {
    Half8 rows[8];
    std::memcpy(rows, x.a[quarter], sizeof rows);
    for (int i = 0; i < 8; ++i) {
      From::widen(rows[i], &o.a[quarter % 2 * 8 + i][quarter / 2 * 8]);
    }
  }
  for (int half = 0; half < 2; ++half) {
    Half8 rows[8];  // of the transpose of B
    std::memcpy(rows, x.b[half], sizeof rows);
    transpose_8x8(rows);
    for (int i = 0; i < 8; ++i) From::widen(rows[i], o.b[half * 8 + i]);
  }
}

__attribute__((always_inline)) inline void multiply_rows(const Operands& o, float (&d)[32][2],
                                                         int first_row) {
  for (int i = 0; i < 8; i += 4) {  // four rows at once: their sums do not wait for each other
    Float8 sum[4] = {};
    for (int k = 0; k < 16; ++k) {
      Float8 b;
      std::memcpy(&b, o.b[k], sizeof b);
      for (int r = 0; r < 4; ++r) sum[r] += o.a[first_row + i + r][k] * b;
    }
    for (int r = 0; r < 4; ++r) {
      Float8 row;
      std::memcpy(&row, d[(i + r) * 4], sizeof row);
      row += sum[r];
      std::memcpy(d[(i + r) * 4], &row, sizeof row);
    }
  }
}

template <class From>
void multiply_portable(WarpExchange& x) {
  Operands o;
  widen_operands<From>(x, o);
  multiply_rows(o, x.d_upper, 0);
  multiply_rows(o, x.d_lower, 8);
}

template <class From>
__attribute__((always_inline)) inline void widen_rows(const unsigned char* const (&rows)[8],
                                                      bool transposed, float* to, size_t stride) {
  Half8 m[8];
  for (int i = 0; i < 8; ++i) std::memcpy(&m[i], rows[i], 16);
  if (transposed) transpose_8x8(m);
  for (size_t i = 0; i < 8; ++i) From::widen(m[i], to + i * stride);
}

// Four rows of D, 8 * Vectors columns: eight sums that do not wait for each other.
template <int Vectors>
__attribute__((always_inline)) inline void multiply_4_rows(const float* a, const float* b, float* d,
                                                           size_t n, bool accumulate) {
  Float8 sum[4][Vectors] = {};
#pragma GCC unroll 2
  for (size_t k = 0; k < 16; ++k) {
    Float8 row[Vectors];
    for (size_t v = 0; v < Vectors; ++v) std::memcpy(&row[v], b + k * n + v * 8, sizeof row[v]);
#pragma GCC unroll 4
    for (size_t r = 0; r < 4; ++r) {
#pragma GCC unroll 2
      for (size_t v = 0; v < Vectors; ++v) sum[r][v] += a[r * 16 + k] * row[v];
    }
  }
  for (size_t r = 0; r < 4; ++r) {
    for (size_t v = 0; v < Vectors; ++v) {
      Float8 old = {};
      if (accumulate) std::memcpy(&old, d + r * n + v * 8, sizeof old);
      old += sum[r][v];
      std::memcpy(d + r * n + v * 8, &old, sizeof old);
    }
  }
}

__attribute__((always_inline)) inline void multiply_columns(const float* a, const float* b,
                                                            float* d, size_t n, bool accumulate) {
  for (size_t r = 0; r < 16; r += 4) {
    size_t c = 0;
    for (; c + 16 <= n; c += 16)
      multiply_4_rows<2>(a + r * 16, b + c, d + r * n + c, n, accumulate);
    if (c < n) multiply_4_rows<1>(a + r * 16, b + c, d + r * n + c, n, accumulate);
  }
}

#if defined(__x86_64__)

#define STROBE_AVX2 __attribute__((target("avx2,fma,f16c")))

STROBE_AVX2 void widen_operands_f16c(const WarpExchange& x, Operands& o) {
  for (int quarter = 0; quarter < 4; ++quarter) {
    const auto* rows = reinterpret_cast<const __m128i*>(x.a[quarter]);
    for (int i = 0; i < 8; ++i) {
      _mm256_storeu_ps(&o.a[quarter % 2 * 8 + i][quarter / 2 * 8],
                       _mm256_cvtph_ps(_mm_load_si128(rows + i)));
    }
  }
  for (int half = 0; half < 2; ++half) {
    Half8 rows[8];
    std::memcpy(rows, x.b[half], sizeof rows);
    transpose_8x8(rows);
    for (int i = 0; i < 8; ++i) {
      _mm256_storeu_ps(o.b[half * 8 + i],
                       _mm256_cvtph_ps(reinterpret_cast<const __m128i&>(rows[i])));
    }
  }
}

STROBE_AVX2 void multiply_avx2(WarpExchange& x, Element type) {
  Operands o;
  if (type == Element::f16) {
    widen_operands_f16c(x, o);
  } else {
    widen_operands<FromBf16>(x, o);
  }
  multiply_rows(o, x.d_upper, 0);
  multiply_rows(o, x.d_lower, 8);
}

STROBE_AVX2 void widen_8x8_avx2(Element type, const unsigned char* const (&rows)[8],
                                bool transposed, float* to, size_t stride) {
  if (type == Element::bf16) return widen_rows<FromBf16>(rows, transposed, to, stride);
  Half8 m[8];
  for (int i = 0; i < 8; ++i) std::memcpy(&m[i], rows[i], 16);
  if (transposed) transpose_8x8(m);
  for (size_t i = 0; i < 8; ++i) {
    _mm256_storeu_ps(to + i * stride, _mm256_cvtph_ps(reinterpret_cast<const __m128i&>(m[i])));
  }
}

STROBE_AVX2 void multiply_m16k16_avx2(const float* a, const float* b, float* d, int n,
                                      bool accumulate) {
  multiply_columns(a, b, d, static_cast<size_t>(n), accumulate);
}

// Every processor with AVX2 has F16C, which Clang's built-in does not know by name.
const bool has_avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");

#endif

}  // namespace

void multiply_m16n8k16(WarpExchange& exchange, Element type) {
#if defined(__x86_64__)
  if (has_avx2) return multiply_avx2(exchange, type);
#endif
  if (type == Element::f16) {
    multiply_portable<FromF16>(exchange);
  } else {
    multiply_portable<FromBf16>(exchange);
  }
}

void widen_8x8(Element type, const unsigned char* const (&rows)[8], bool transposed, float* to,
               size_t stride) {
#if defined(__x86_64__)
  if (has_avx2) return widen_8x8_avx2(type, rows, transposed, to, stride);
#endif
  if (type == Element::f16) {
    widen_rows<FromF16>(rows, transposed, to, stride);
  } else {
    widen_rows<FromBf16>(rows, transposed, to, stride);
  }
}

void multiply_m16k16(const float* a, const float* b, float* d, int n, bool accumulate) {
#if defined(__x86_64__)
  if (has_avx2) return multiply_m16k16_avx2(a, b, d, n, accumulate);
#endif
  multiply_columns(a, b, d, static_cast<size_t>(n), accumulate);
}

void load_rows(unsigned char* const (&rows)[8], bool transposed, uint32_t (&out)[32]) {
  Half8 m[8];
  for (int i = 0; i < 8; ++i) std::memcpy(&m[i], rows[i], 16);
  if (transposed) transpose_8x8(m);
  std::memcpy(out, m, sizeof m);
}

void store_rows(const uint32_t (&in)[32], bool transposed, unsigned char* const (&rows)[8]) {
  Half8 m[8];
  std::memcpy(m, in, sizeof m);
  if (transposed) transpose_8x8(m);
  for (int i = 0; i < 8; ++i) std::memcpy(rows[i], &m[i], 16);
}

}  // namespace host
}  // namespace STROBE_ABI
}  // namespace strobe
