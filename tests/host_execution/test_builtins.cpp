// SPDX-License-Identifier: MIT
// The CUDA built-ins of host execution against direct computation.
#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>

#include "strobe/ptx/shared.cuh"
#include "support.hpp"

namespace {

namespace host = strobe::host;

struct Coordinates {
  uint3 thread, block;
  dim3 block_dim, grid_dim;
};

__global__ void write_coordinates(Coordinates* out) {
  const unsigned threads = blockDim.x * blockDim.y * blockDim.z;
  const unsigned block = (blockIdx.z * gridDim.y + blockIdx.y) * gridDim.x + blockIdx.x;
  const unsigned thread = (threadIdx.z * blockDim.y + threadIdx.y) * blockDim.x + threadIdx.x;
  out[block * threads + thread] = {threadIdx, blockIdx, blockDim, gridDim};
}

TEST_CASE("indices cover the grid, x fastest", "[host-execution]") {
  const dim3 grid(3, 2, 2), block(5, 4, 3);
  test::passes([&] {
    std::vector<Coordinates> out(12 * 60);
    const cudaError_t error = host::launch(write_coordinates, grid, block, 0, out.data());
    for (unsigned i = 0; i < out.size(); ++i) {
      const Coordinates& c = out[i];
      const unsigned t = i % 60, b = i / 60;
      REQUIRE((c.thread.x == t % 5 && c.thread.y == t / 5 % 4 && c.thread.z == t / 20));
      REQUIRE((c.block.x == b % 3 && c.block.y == b / 3 % 2 && c.block.z == b / 6));
      REQUIRE((c.block_dim.x == 5 && c.block_dim.y == 4 && c.block_dim.z == 3));
      REQUIRE((c.grid_dim.x == 3 && c.grid_dim.y == 2 && c.grid_dim.z == 2));
    }
    return error;
  });
}

// The source lane by the words of the programming guide; `lane` itself where the guide leaves the
// value unchanged.
int shuffle_reference(const std::string& kind, int lane, int argument, int width) {
  const int segment = lane / width * width;
  if (kind == "idx") return segment + ((argument % width) + width) % width;
  if (kind == "up") return lane - argument < segment ? lane : lane - argument;
  if (kind == "down") return lane + argument >= segment + width ? lane : lane + argument;
  const int source = lane ^ argument;
  return source >= segment + width ? lane : source;
}

template <class T>
__global__ void shuffles(T* out, int argument, int width) {
  const int lane = static_cast<int>(threadIdx.x);
  const T value = static_cast<T>(1000 + lane);
  out[lane] = __shfl_sync(~0u, value, argument, width);
  out[32 + lane] = __shfl_up_sync(~0u, value, static_cast<unsigned>(argument), width);
  out[64 + lane] = __shfl_down_sync(~0u, value, static_cast<unsigned>(argument), width);
  out[96 + lane] = __shfl_xor_sync(~0u, value, argument, width);
}

template <class T>
void check_shuffles(const std::vector<host::Options>& schedules) {
  const char* const kinds[] = {"idx", "up", "down", "xor"};
  for (int width : {1, 2, 4, 8, 16, 32}) {
    for (int argument : {0, 1, 2, 3, 5, 15, 16, 31}) {
      test::passes(
          [&] {
            std::vector<T> out(128);
            const cudaError_t error =
                host::launch(shuffles<T>, 1, 32, 0, out.data(), argument, width);
            for (int k = 0; k < 4; ++k) {
              for (int lane = 0; lane < 32; ++lane) {
                const int source = shuffle_reference(kinds[k], lane, argument, width);
                REQUIRE(out[static_cast<size_t>(k * 32 + lane)] == static_cast<T>(1000 + source));
              }
            }
            return error;
          },
          schedules);
    }
  }
}

TEST_CASE("shuffles move the value that the guide says", "[host-execution]") {
  const std::vector<host::Options> one(1);
  check_shuffles<int>(one);
  check_shuffles<unsigned long long>(one);
  check_shuffles<float>(one);
  host::Options random;
  random.order = host::Order::random;
  check_shuffles<double>({random});
}

__global__ void half_warps(int* out) {
  const int lane = static_cast<int>(threadIdx.x);
  // Halves of a warp in different collectives at once.
  if (lane < 16) {
    out[lane] = __shfl_sync(0x0000ffffu, lane * 10, 3);
    out[lane] += __shfl_xor_sync(0x0000ffffu, lane, 1);
  } else {
    out[lane] = __shfl_up_sync(0xffff0000u, lane, 1u, 16);
    __syncwarp(0xffff0000u);
  }
}

TEST_CASE("parts of a warp may diverge into collectives of their own", "[host-execution]") {
  test::passes([] {
    std::vector<int> out(32);
    const cudaError_t error = host::launch(half_warps, 1, 32, 0, out.data());
    for (int lane = 0; lane < 32; ++lane) {
      const int wanted = lane < 16 ? 30 + (lane ^ 1) : (lane == 16 ? 16 : lane - 1);
      REQUIRE(out[static_cast<size_t>(lane)] == wanted);
    }
    return error;
  });
}

__global__ void votes(unsigned* out, unsigned mask, unsigned predicate) {
  const unsigned lane = threadIdx.x;
  if ((mask >> lane & 1) == 0) return;
  const int mine = static_cast<int>(predicate >> lane & 1);
  out[lane * 3] = __ballot_sync(mask, mine);
  out[lane * 3 + 1] = static_cast<unsigned>(__any_sync(mask, mine));
  out[lane * 3 + 2] = static_cast<unsigned>(__all_sync(mask, mine));
}

TEST_CASE("votes", "[host-execution]") {
  for (unsigned mask : {0xffffffffu, 0x0000ffffu, 0x80000001u, 0x00f0f000u}) {
    for (unsigned predicate : {0u, 0xffffffffu, 0xaaaaaaaau, 0x00000001u, 0x00f0f000u}) {
      test::passes([&] {
        std::vector<unsigned> out(96, 77);
        const cudaError_t error = host::launch(votes, 1, 32, 0, out.data(), mask, predicate);
        for (unsigned lane = 0; lane < 32; ++lane) {
          if ((mask >> lane & 1) == 0) continue;
          REQUIRE(out[lane * 3] == (mask & predicate));
          REQUIRE(out[lane * 3 + 1] == ((mask & predicate) != 0));
          REQUIRE(out[lane * 3 + 2] == ((mask & predicate) == mask));
        }
        return error;
      });
    }
  }
}

__global__ void reductions(int* out) {
  const int x = static_cast<int>(threadIdx.x) * 7 - 100;
  const unsigned u = static_cast<unsigned>(x);
  int* mine = out + threadIdx.x * 7;
  mine[0] = __reduce_add_sync(~0u, x);
  mine[1] = __reduce_min_sync(~0u, x);
  mine[2] = __reduce_max_sync(~0u, x);
  mine[3] = static_cast<int>(__reduce_max_sync(~0u, u));
  mine[4] = static_cast<int>(__reduce_and_sync(~0u, u | 4u));
  mine[5] = static_cast<int>(__reduce_or_sync(~0u, u & 9u));
  mine[6] = static_cast<int>(__reduce_xor_sync(~0u, u));
}

TEST_CASE("warp reductions", "[host-execution]") {
  test::passes([] {
    std::vector<int> out(32 * 7);
    const cudaError_t error = host::launch(reductions, 1, 32, 0, out.data());
    unsigned all_and = ~0u, all_or = 0, all_xor = 0, largest = 0;
    int sum = 0;
    for (int i = 0; i < 32; ++i) {
      const unsigned u = static_cast<unsigned>(i * 7 - 100);
      sum += i * 7 - 100;
      all_and &= u | 4u;
      all_or |= u & 9u;
      all_xor ^= u;
      largest = u > largest ? u : largest;
    }
    const int wanted[] = {sum,
                          -100,
                          31 * 7 - 100,
                          static_cast<int>(largest),
                          static_cast<int>(all_and),
                          static_cast<int>(all_or),
                          static_cast<int>(all_xor)};
    for (size_t i = 0; i < out.size(); ++i) REQUIRE(out[i] == wanted[i % 7]);
    return error;
  });
}

// A block-wide sum by shuffles, shared memory and one atomic a block.
__global__ void sum(const float* x, float* out, int n) {
  STROBE_DYNAMIC_SHARED(shared);
  float* partial = reinterpret_cast<float*>(shared);
  float s = 0;
  const int stride = static_cast<int>(gridDim.x * blockDim.x);
  for (int i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x); i < n; i += stride) {
    s += __ldg(x + i);
  }
  for (unsigned offset = 16; offset != 0; offset /= 2) s += __shfl_down_sync(~0u, s, offset);
  if (threadIdx.x % 32 == 0) partial[threadIdx.x / 32] = s;
  __syncthreads();
  if (threadIdx.x < 8) {
    s = partial[threadIdx.x];
    for (int offset = 4; offset != 0; offset /= 2) s += __shfl_xor_sync(0xffu, s, offset);
    if (threadIdx.x == 0) atomicAdd(out, s);
  }
}

TEST_CASE("a reduction over blocks, also on two OS threads", "[host-execution]") {
  std::vector<float> x(10000);
  for (size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i % 13);
  const float wanted = std::accumulate(x.begin(), x.end(), 0.0f);
  for (int os_threads : {1, 2}) {
    std::vector<host::Options> all = test::schedules();
    for (host::Options& options : all) options.os_threads = os_threads;
    test::passes(
        [&] {
          float out = 0;
          const cudaError_t error =
              host::launch(sum, 5, 256, 32, x.data(), &out, static_cast<int>(x.size()));
          REQUIRE(out == wanted);
          return error;
        },
        all);
  }
}

__global__ void counted_barriers(int* out) {
  const int t = static_cast<int>(threadIdx.x);
  out[t * 4] = __syncthreads_count(t % 3 == 0);
  out[t * 4 + 1] = __syncthreads_or(t == 40);
  out[t * 4 + 2] = __syncthreads_and(t >= 0);
  out[t * 4 + 3] = __syncthreads_and(t != 63) + 2 * __syncthreads_or(0);
}

TEST_CASE("barriers that count, also", "[host-execution]") {
  test::passes([] {
    std::vector<int> out(64 * 4);
    const cudaError_t error = host::launch(counted_barriers, 1, 64, 0, out.data());
    for (size_t t = 0; t < 64; ++t) {
      REQUIRE(out[t * 4] == 22);
      REQUIRE(out[t * 4 + 1] == 1);
      REQUIRE(out[t * 4 + 2] == 1);
      REQUIRE(out[t * 4 + 3] == 0);
    }
    return error;
  });
}

struct AtomicCells {
  int add;
  unsigned sub, inc, dec, bits_and, bits_or, bits_xor, exchanged;
  int smallest, largest;
  unsigned long long wide;
  float real;
  int winners;
  int lock;
};

__global__ void atomics(AtomicCells* c) {
  const int id = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  const unsigned uid = static_cast<unsigned>(id);
  atomicAdd(&c->add, id);
  atomicSub(&c->sub, uid);
  atomicInc(&c->inc, 6u);
  atomicDec(&c->dec, 4u);
  atomicMin(&c->smallest, -id);
  atomicMax(&c->largest, id);
  atomicAnd(&c->bits_and, ~(1u << id % 32));
  atomicOr(&c->bits_or, 1u << id % 32);
  atomicXor(&c->bits_xor, uid);
  atomicAdd(&c->wide, 1ull << 33);
  atomicAdd(&c->real, 0.5f);
  if (atomicCAS(&c->lock, 0, id + 1) == 0) atomicAdd(&c->winners, 1);
  atomicExch(&c->exchanged, 9u);
}

TEST_CASE("relaxed atomics", "[host-execution]") {
  test::passes([] {
    constexpr int n = 3 * 64;
    AtomicCells c{};
    c.bits_and = ~0u;
    const host::ScopedTracking tracking(&c, sizeof c);
    const cudaError_t error = host::launch(atomics, 3, 64, 0, &c);
    REQUIRE(c.add == n * (n - 1) / 2);
    REQUIRE(c.sub == 0u - static_cast<unsigned>(n * (n - 1) / 2));
    REQUIRE(c.inc == n % 7);
    REQUIRE(c.dec == 5 - (n - 1) % 5 - 1);
    REQUIRE(c.smallest == -(n - 1));
    REQUIRE(c.largest == n - 1);
    REQUIRE(c.bits_and == 0);
    REQUIRE(c.bits_or == ~0u);
    unsigned x = 0;
    for (unsigned i = 0; i < n; ++i) x ^= i;
    REQUIRE(c.bits_xor == x);
    REQUIRE(c.wide == n * (1ull << 33));
    REQUIRE(c.real == n * 0.5f);
    REQUIRE(c.winners == 1);
    REQUIRE(c.exchanged == 9);
    return error;
  });
}

TEST_CASE("min, max and integer built-ins", "[host-execution]") {
  REQUIRE(min(3, -2) == -2);
  REQUIRE(max(3, -2) == 3);
  REQUIRE(min(3u, 7) == 3u);
  REQUIRE(max(-1, 5u) == ~0u);  // as in CUDA: converted to unsigned
  REQUIRE(min(-1ll, 5ll) == -1ll);
  REQUIRE(min(size_t{4}, size_t{9}) == 4);
  REQUIRE(max(1.0f, std::nanf("")) == 1.0f);
  REQUIRE(min(2.0, 1.0) == 1.0);
  REQUIRE(__popc(0xf0f0u) == 8);
  REQUIRE(__popcll(~0ull) == 64);
  REQUIRE(__ffs(0) == 0);
  REQUIRE(__ffs(8) == 4);
  REQUIRE(__clz(0) == 32);
  REQUIRE(__clz(1) == 31);
  REQUIRE(__clzll(1) == 63);
  REQUIRE(__brev(1u) == 0x80000000u);
  REQUIRE(__umulhi(0xffffffffu, 0xffffffffu) == 0xfffffffeu);
  REQUIRE(__mulhi(-1, 1) == -1);
  REQUIRE(__umul64hi(~0ull, 2ull) == 1ull);
  REQUIRE(__byte_perm(0x33221100u, 0x77665544u, 0x7410u) == 0x77441100u);
  REQUIRE(__funnelshift_r(0x12345678u, 0x9abcdef0u, 8) == 0xf0123456u);
  REQUIRE(__funnelshift_l(0x12345678u, 0x9abcdef0u, 8) == 0xbcdef012u);
  REQUIRE(__float_as_uint(1.0f) == 0x3f800000u);
  REQUIRE(__float_as_int(-0.0f) == std::numeric_limits<int>::min());
  REQUIRE(__uint_as_float(0x40000000u) == 2.0f);
  REQUIRE(__int_as_float(0x40400000) == 3.0f);
}

TEST_CASE("floating-point built-ins", "[host-execution]") {
  REQUIRE(rsqrtf(4.0f) == 0.5f);
  REQUIRE(__fdividef(1.0f, 4.0f) == 0.25f);
  REQUIRE(__frcp_rn(8.0f) == 0.125f);
  REQUIRE(__fmaf_rn(2.0f, 3.0f, 4.0f) == 10.0f);
  REQUIRE(__expf(0.0f) == 1.0f);
  REQUIRE(__logf(1.0f) == 0.0f);
  REQUIRE(__log2f(8.0f) == 3.0f);
  REQUIRE(__powf(2.0f, 10.0f) == 1024.0f);
  REQUIRE(__saturatef(std::nanf("")) == 0.0f);
  REQUIRE(__saturatef(2.0f) == 1.0f);
  REQUIRE(__float2int_rn(2.5f) == 2);
  REQUIRE(__float2int_rd(-2.5f) == -3);
  REQUIRE(__float2int_rz(-2.5f) == -2);
  // Not contracted to a fused operation, whose result would be -2^-24.
  const float x = 1.0f + std::ldexp(1.0f, -12);
  REQUIRE(__fadd_rn(__fmul_rn(x, x), -(1.0f + std::ldexp(1.0f, -11))) == 0.0f);
}

}  // namespace
