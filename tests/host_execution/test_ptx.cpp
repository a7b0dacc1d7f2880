// SPDX-License-Identifier: MIT
// The ptx wrappers under host execution against direct computation.
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <type_traits>

#include "strobe/ptx/atomic.cuh"
#include "strobe/ptx/barrier.cuh"
#include "strobe/ptx/cp_async.cuh"
#include "strobe/ptx/ldmatrix.cuh"
#include "strobe/ptx/math.cuh"
#include "strobe/ptx/mma.cuh"
#include "strobe/ptx/shared.cuh"
#include "strobe/ptx/stmatrix.cuh"
#include "support.hpp"

namespace {

namespace host = strobe::host;
namespace ptx = strobe::ptx;

// ---- ldmatrix and stmatrix ----------------------------------------------------------------------

constexpr int kRowStride = 24;  // elements: rows apart, so that a mixed-up address shows

__global__ void load_matrices(uint32_t* out) {
  STROBE_DYNAMIC_SHARED(shared);
  auto* elements = reinterpret_cast<uint16_t*>(shared);
  for (unsigned i = threadIdx.x; i < 32 * kRowStride; i += 32) {
    elements[i] = static_cast<uint16_t>(i);
  }
  __syncwarp();
  const unsigned row = threadIdx.x * 5 % 32;  // rows in an order of their own
  const uint32_t address = ptx::shared_address(elements + row * kRowStride);
  uint32_t r[4];
  uint32_t* mine = out + threadIdx.x * 12;
  ptx::ldmatrix_x4(r, address);
  std::memcpy(mine, r, 16);
  ptx::ldmatrix_x4_trans(r, address);
  std::memcpy(mine + 4, r, 16);
  uint32_t r2[2];
  ptx::ldmatrix_x2(r2, address);
  std::memcpy(mine + 8, r2, 8);
  ptx::ldmatrix_x2_trans(r2, address);
  std::memcpy(mine + 10, r2, 8);
}

TEST_CASE("ldmatrix gives each lane the elements of the manual's table", "[host-execution]") {
  test::passes([] {
    std::vector<uint32_t> out(32 * 12);
    const cudaError_t error = host::launch(load_matrices, 1, 32, 32 * kRowStride * 2, out.data());
    const auto element = [](unsigned matrix, unsigned row, unsigned column) {
      const unsigned lane = matrix * 8 + row;
      return lane * 5 % 32 * kRowStride + column;
    };
    for (unsigned lane = 0; lane < 32; ++lane) {
      const unsigned g = lane / 4, c = lane % 4 * 2;
      for (unsigned m = 0; m < 4; ++m) {
        const uint32_t plain = element(m, g, c) | element(m, g, c + 1) << 16;
        const uint32_t transposed = element(m, c, g) | element(m, c + 1, g) << 16;
        REQUIRE(out[lane * 12 + m] == plain);
        REQUIRE(out[lane * 12 + 4 + m] == transposed);
        if (m < 2) {
          REQUIRE(out[lane * 12 + 8 + m] == plain);
          REQUIRE(out[lane * 12 + 10 + m] == transposed);
        }
      }
    }
    return error;
  });
}

__global__ void store_and_load(uint32_t* out) {
  STROBE_DYNAMIC_SHARED(shared);
  const uint32_t address = ptx::shared_address(shared + threadIdx.x * 16);
  uint32_t r[4];
  for (unsigned i = 0; i < 4; ++i) r[i] = threadIdx.x * 4 + i;
  ptx::stmatrix_x4(address, r);
  __syncwarp();
  ptx::ldmatrix_x4(r, address);
  std::memcpy(out + threadIdx.x * 4, r, 16);
}

TEST_CASE("stmatrix is the inverse of ldmatrix", "[host-execution]") {
  test::passes([] {
    std::vector<uint32_t> out(128);
    const cudaError_t error = host::launch(store_and_load, 1, 32, 512, out.data());
    for (uint32_t i = 0; i < 128; ++i) REQUIRE(out[i] == i);
    return error;
  });
}

// ---- mma ----------------------------------------------------------------------------------------

template <class T>
T from_float(float x) {
  if constexpr (std::is_same_v<T, __half>) {
    return __float2half_rn(x);
  } else {
    return __float2bfloat16_rn(x);
  }
}
template <class T>
float to_float(T x) {
  if constexpr (std::is_same_v<T, __half>) {
    return __half2float(x);
  } else {
    return __bfloat162float(x);
  }
}
template <class T>
uint32_t pair(T lo, T hi) {
  uint16_t bits[2];
  std::memcpy(&bits[0], static_cast<const void*>(&lo), 2);
  std::memcpy(&bits[1], static_cast<const void*>(&hi), 2);
  return bits[0] | static_cast<uint32_t>(bits[1]) << 16;
}

// a: 16 x 16, b: 16 x 8 (k, n), d: 16 x 8, row-major.
template <class T>
__global__ void product(const T* a, const T* b, float* d) {
  const unsigned g = threadIdx.x / 4, t = threadIdx.x % 4 * 2;
  uint32_t fa[4];
  for (unsigned i = 0; i < 4; ++i) {
    const T* p = a + (g + i % 2 * 8) * 16 + t + i / 2 * 8;
    fa[i] = pair(p[0], p[1]);
  }
  const uint32_t b0 = pair(b[t * 8 + g], b[(t + 1) * 8 + g]);
  const uint32_t b1 = pair(b[(t + 8) * 8 + g], b[(t + 9) * 8 + g]);
  float fd[4];
  for (unsigned i = 0; i < 4; ++i) fd[i] = d[(g + i / 2 * 8) * 8 + t + i % 2];
  ptx::mma_m16n8k16<T>(fd, fa, b0, b1);
  for (unsigned i = 0; i < 4; ++i) d[(g + i / 2 * 8) * 8 + t + i % 2] = fd[i];
}

template <class T, class Next>
void check_product(Next next, double tolerance) {
  std::vector<T> a(256), b(128);
  std::vector<float> c(128);
  for (T& x : a) x = from_float<T>(next());
  for (T& x : b) x = from_float<T>(next());
  for (float& x : c) x = next();
  test::passes([&] {
    std::vector<float> d = c;
    const cudaError_t error = host::launch(product<T>, 1, 32, 0, a.data(), b.data(), d.data());
    for (size_t m = 0; m < 16; ++m) {
      for (size_t n = 0; n < 8; ++n) {
        double wanted = static_cast<double>(c[m * 8 + n]);
        double size = std::abs(wanted);
        for (size_t k = 0; k < 16; ++k) {
          const double p = static_cast<double>(to_float(a[m * 16 + k])) *
                           static_cast<double>(to_float(b[k * 8 + n]));
          wanted += p;
          size += std::abs(p);
        }
        const double got = static_cast<double>(d[m * 8 + n]);
        if (std::isfinite(wanted)) {
          REQUIRE(std::abs(got - wanted) <= tolerance * size);
        } else {
          REQUIRE((std::isnan(wanted) ? std::isnan(got) : got == wanted));
        }
      }
    }
    return error;
  });
}

TEST_CASE("mma multiplies integers exactly and reals to fp32", "[host-execution]") {
  std::mt19937 generator(3);
  std::uniform_int_distribution<int> integers(-15, 15);
  std::normal_distribution<float> normal;
  const auto integer = [&] { return static_cast<float>(integers(generator)); };
  const auto real = [&] { return normal(generator); };
  const auto tiny = [&] { return normal(generator) * 1e-6f; };  // fp16 subnormals
  check_product<__half>(integer, 0.0);
  check_product<__nv_bfloat16>(integer, 0.0);
  check_product<__half>(real, 1e-6);
  check_product<__nv_bfloat16>(real, 1e-6);
  check_product<__half>(tiny, 1e-6);
  check_product<__nv_bfloat16>(tiny, 1e-6);
}

TEST_CASE("mma passes infinities and NaN on", "[host-execution]") {
  int i = 0;
  const auto special = [&] {
    ++i;
    if (i % 97 == 5) return std::numeric_limits<float>::infinity();
    if (i % 101 == 7) return std::numeric_limits<float>::quiet_NaN();
    return static_cast<float>(i % 7);
  };
  check_product<__half>(special, 0.0);
  check_product<__nv_bfloat16>(special, 0.0);
}

// ---- cp.async -----------------------------------------------------------------------------------

__global__ void copy_stages(const int4* source, int4* out) {
  STROBE_DYNAMIC_SHARED(shared);
  const unsigned t = threadIdx.x;
  auto* stage = reinterpret_cast<int4*>(shared);
  for (unsigned s = 0; s < 3; ++s) {
    // Every fourth is invalid: zeros are written and the pointer is not followed.
    const bool valid = (t + s) % 4 != 0;
    ptx::cp_async_16(ptx::shared_address(stage + s * 32 + t), valid ? source + s * 32 + t : nullptr,
                     valid);
    ptx::cp_async_commit();
  }
  ptx::cp_async_commit();  // an empty group counts
  ptx::cp_async_wait<3>();
  out[t] = stage[t];
  ptx::cp_async_wait<1>();
  out[64 + t] = stage[64 + t];
  ptx::cp_async_wait<0>();
  __syncthreads();
  out[32 + t] = stage[32 + (t ^ 1)];
}

TEST_CASE("cp.async copies, zero-fills and counts groups", "[host-execution]") {
  std::vector<int4> source(96);
  for (int i = 0; i < 96; ++i) source[static_cast<size_t>(i)] = make_int4(i, i + 1, -i, 7);
  test::passes([&] {
    std::vector<int4> out(96);
    const cudaError_t error = host::launch(copy_stages, 1, 32, 96 * 16, source.data(), out.data());
    for (unsigned s = 0; s < 3; ++s) {
      for (unsigned t = 0; t < 32; ++t) {
        const unsigned from = s == 1 ? t ^ 1 : t;
        const int4 got = out[s * 32 + t];
        const int4 wanted = (from + s) % 4 != 0 ? source[s * 32 + from] : make_int4(0, 0, 0, 0);
        REQUIRE((got.x == wanted.x && got.y == wanted.y && got.z == wanted.z && got.w == wanted.w));
      }
    }
    return error;
  });
}

// ---- named barriers -----------------------------------------------------------------------------

// A producer warp and a consumer warp hand one buffer back and forth.
__global__ void produce_and_consume(int* out) {
  STROBE_DYNAMIC_SHARED(shared);
  int* buffer = reinterpret_cast<int*>(shared);
  const int lane = static_cast<int>(threadIdx.x % 32);
  for (int i = 0; i < 4; ++i) {
    if (threadIdx.x < 32) {
      if (i != 0) ptx::barrier_sync(2, 64);
      buffer[lane] = i * 100 + lane;
      ptx::barrier_arrive(1, 64);
    } else {
      ptx::barrier_sync(1, 64);
      out[i * 32 + lane] = buffer[31 - lane];
      if (i < 3) ptx::barrier_arrive(2, 64);
    }
  }
}

TEST_CASE("bar.arrive and bar.sync hand a buffer over and back", "[host-execution]") {
  test::passes([] {
    std::vector<int> out(128);
    const cudaError_t error = host::launch(produce_and_consume, 1, 64, 128, out.data());
    for (int i = 0; i < 128; ++i) {
      REQUIRE(out[static_cast<size_t>(i)] == i / 32 * 100 + 31 - i % 32);
    }
    return error;
  });
}

// ---- math ---------------------------------------------------------------------------------------

TEST_CASE("approximations have the hardware's special values", "[host-execution]") {
  const float infinity = std::numeric_limits<float>::infinity();
  REQUIRE(ptx::exp2_approx(-infinity) == 0.0f);
  REQUIRE(ptx::exp2_approx(3.0f) == 8.0f);
  REQUIRE(ptx::exp2_approx(-140.0f) == 0.0f);  // flushed
  REQUIRE(ptx::log2_approx(0.0f) == -infinity);
  REQUIRE(ptx::log2_approx(1e-40f) == -infinity);  // flushed
  REQUIRE(ptx::log2_approx(0.25f) == -2.0f);
  REQUIRE(ptx::rcp_approx(0.0f) == infinity);
  REQUIRE(ptx::rcp_approx(-infinity) == 0.0f);
  REQUIRE(ptx::rcp_approx(4.0f) == 0.25f);
  REQUIRE(std::signbit(ptx::rcp_approx(-infinity)));
  REQUIRE(std::isnan(ptx::exp2_approx(std::nanf(""))));
  REQUIRE(ptx::tanh_approx(0.0f) == 0.0f);
  REQUIRE(ptx::tanh_approx(50.0f) == 1.0f);
}

TEST_CASE("pack2 rounds to nearest even, low half first", "[host-execution]") {
  REQUIRE(ptx::pack2<__half>(1.0f, -2.0f) == 0xc0003c00u);
  REQUIRE(ptx::pack2<__nv_bfloat16>(1.0f, -2.0f) == 0xc0003f80u);
  // 1 + 2^-11 is half an ulp above 1 in fp16: to even. 1 + 3 * 2^-11 goes up.
  REQUIRE(ptx::pack2<__half>(1.0f + 0x1p-11f, 1.0f + 3 * 0x1p-11f) == 0x3c023c00u);
  REQUIRE(ptx::pack2<__nv_bfloat16>(1.0f + 0x1p-8f, 1.0f + 3 * 0x1p-8f) == 0x3f823f80u);
  REQUIRE(ptx::pack2<__half>(70000.0f, -70000.0f) == 0xfc007c00u);
}

// ---- atomics ------------------------------------------------------------------------------------

__global__ void count_up(uint32_t* counter, uint32_t* old_values) {
  const unsigned id = blockIdx.x * blockDim.x + threadIdx.x;
  old_values[id] = ptx::atomic_inc_acq_rel(counter, 9);
  ptx::atomic_add_acq_rel(counter + 1, id);
  if (id == 0) ptx::store_release(counter + 2, 5u + ptx::load_acquire(counter + 3));
}

TEST_CASE("atomic increment wraps and addition adds", "[host-execution]") {
  test::passes([] {
    std::vector<uint32_t> counter = {0, 0, 0, 37}, old_values(64);
    const host::ScopedTracking tracking(counter.data(), 16);
    const cudaError_t error = host::launch(count_up, 2, 32, 0, counter.data(), old_values.data());
    int seen[10] = {};
    for (uint32_t old : old_values) {
      REQUIRE(old < 10);
      ++seen[old];
    }
    for (int value = 0; value < 10; ++value) REQUIRE(seen[value] == (value < 4 ? 7 : 6));
    REQUIRE(counter[0] == 4);
    REQUIRE(counter[1] == 63 * 64 / 2);
    REQUIRE(counter[2] == 42);
    return error;
  });
}

}  // namespace
