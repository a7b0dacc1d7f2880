// SPDX-License-Identifier: MIT
// Faults planted in kernels that use the ptx wrappers: each is caught under every schedule and
// named with file and line, and its corrected twin passes.
#include <cstring>

#include "strobe/ptx/barrier.cuh"
#include "strobe/ptx/cp_async.cuh"
#include "strobe/ptx/ldmatrix.cuh"
#include "strobe/ptx/mma.cuh"
#include "strobe/ptx/shared.cuh"
#include "support.hpp"

namespace {

namespace host = strobe::host;
namespace ptx = strobe::ptx;

// ---- asynchronous copies ------------------------------------------------------------------------

enum class Plant { none, no_wait, no_barrier, too_few_groups, overwrite };

// Two warps copy 1 kB each and read what the other has copied, twice over.
__global__ void exchange_tiles(const char* source, uint32_t* out, Plant plant) {
  STROBE_DYNAMIC_SHARED(shared);
  const unsigned t = threadIdx.x;
  const unsigned other = t ^ 32;
  for (int i = 0; i < 2; ++i) {
    STROBE_MARK(0);
    ptx::cp_async_16(ptx::shared_address(shared + t * 16), source + t * 16, true);
    ptx::cp_async_commit();
    if (plant == Plant::too_few_groups) {
      ptx::cp_async_wait<1>();
    } else if (plant != Plant::no_wait) {
      ptx::cp_async_wait<0>();
    }
    if (plant != Plant::no_barrier) __syncthreads();
    uint32_t r[4];
    STROBE_MARK(1);
    ptx::ldmatrix_x4(r, ptx::shared_address(shared + other * 16));
    std::memcpy(out + t * 4, r, 16);
    if (plant != Plant::overwrite) __syncthreads();
  }
  ptx::cp_async_wait<0>();
}

auto launch_exchange(Plant plant) {
  return [plant] {
    std::vector<uint32_t> source(256), out(256);
    for (uint32_t i = 0; i < 256; ++i) source[i] = i * 3;
    // Aligned: std::vector gives 16 bytes.
    const cudaError_t error =
        host::launch(exchange_tiles, 1, 64, 1024, reinterpret_cast<const char*>(source.data()),
                     out.data(), plant);
    if (error == cudaSuccess) {
      for (uint32_t t = 0; t < 64; ++t) {
        const uint32_t lane = t % 32, first = (t ^ 32) / 32 * 128;
        for (uint32_t m = 0; m < 4; ++m) {
          REQUIRE(out[t * 4 + m] == (first + m * 32 + lane) * 3);
        }
      }
    }
    return error;
  };
}

TEST_CASE("a tile exchange that waits and synchronises passes", "[host-execution]") {
  test::passes(launch_exchange(Plant::none));
}

TEST_CASE("a read without cp.async wait is caught", "[host-execution]") {
  test::fails(launch_exchange(Plant::no_wait),
              {"at %1 before the cp.async issued at %0 has been waited for", "block (0,0,0)"});
}

TEST_CASE("a wait for too few groups is caught", "[host-execution]") {
  test::fails(launch_exchange(Plant::too_few_groups),
              {"at %1 before the cp.async issued at %0 has been waited for"});
}

TEST_CASE("a missing barrier after the wait is caught", "[host-execution]") {
  // Seen from the reader or from the writer, whoever comes second; or by a reader of memory that is
  // not written yet.
  if (test::instrumented) {
    test::fails(launch_exchange(Plant::no_barrier), {"%1"});
  } else {
    test::fails(launch_exchange(Plant::no_barrier), {"shared-memory race", "%0", "%1"});
  }
}

TEST_CASE("a copy into a buffer that is still read is caught", "[host-execution]") {
  test::fails(launch_exchange(Plant::overwrite), {"%0", "%1"});
}

__global__ void never_waits(const char* source, bool wait) {
  STROBE_DYNAMIC_SHARED(shared);
  STROBE_MARK(0);
  ptx::cp_async_16(ptx::shared_address(shared + threadIdx.x * 16), source, true);
  ptx::cp_async_commit();
  if (wait) ptx::cp_async_wait<0>();
}

TEST_CASE("leaving with a cp.async in flight is caught", "[host-execution]") {
  alignas(16) static const char source[16] = {};
  for (bool races : {false, true}) {
    test::fails([] { return host::launch(never_waits, 1, 32, 512, source, false); },
                {"exits with an unfinished cp.async issued at %0"}, test::schedules(races));
    test::passes([] { return host::launch(never_waits, 1, 32, 512, source, true); },
                 test::schedules(races));
  }
}

__global__ void copies(const char* source, uint32_t offset, uint32_t from) {
  STROBE_DYNAMIC_SHARED(shared);
  STROBE_MARK(0);
  ptx::cp_async_16(ptx::shared_address(shared) + offset, source + from, true);
  ptx::cp_async_commit();
  ptx::cp_async_wait<0>();
}

TEST_CASE("misaligned and outlying cp.async addresses are caught", "[host-execution]") {
  alignas(16) static const char source[64] = {};
  const auto with = [](uint32_t offset, uint32_t from) {
    return [=] { return host::launch(copies, 1, 1, 64, source, offset, from); };
  };
  test::passes(with(48, 32));
  test::fails(with(8, 0), {"cp.async at %0: shared address smem+0x8 is not 16-byte aligned"});
  test::fails(with(64, 0), {"cp.async at %0", "outside the block's 64 bytes"});
  test::fails(with(0, 4), {"cp.async at %0: the global address is not 16-byte aligned"});
}

// ---- ldmatrix -----------------------------------------------------------------------------------

__global__ void loads_at(int offset) {
  STROBE_DYNAMIC_SHARED(shared);
  uint32_t r[4];
  for (unsigned i = threadIdx.x; i < 512; i += 32) shared[i] = 1;
  __syncwarp();
  STROBE_MARK(0);
  ptx::ldmatrix_x4(r,
                   ptx::shared_address(shared) + threadIdx.x * 16 + static_cast<uint32_t>(offset));
}

TEST_CASE("misaligned and outlying ldmatrix addresses are caught", "[host-execution]") {
  const auto at = [](int offset) {
    return [=] { return host::launch(loads_at, 1, 32, 512, offset); };
  };
  test::passes(at(0));
  test::fails(at(8), {"ldmatrix at %0", "not 16-byte aligned"});
  test::fails(at(16), {"ldmatrix at %0", "outside the block's 512 bytes"});
  test::fails(at(-16), {"ldmatrix at %0", "16 bytes at smem-16 are outside"});
}

__global__ void address_of(const void* pointer) {
  STROBE_MARK(0);
  ptx::shared_address(pointer);
}

TEST_CASE("the shared address of another memory is caught", "[host-execution]") {
  static int global;
  test::fails([] { return host::launch(address_of, 1, 1, 64, &global); },
              {"shared_address at %0: the pointer is not into dynamic shared memory"});
}

// ---- divergence ---------------------------------------------------------------------------------

__global__ void two_barriers(bool diverge) {
  if (!diverge || threadIdx.x < 32) {
    STROBE_MARK(0);
    __syncthreads();
  } else {
    STROBE_MARK(1);
    __syncthreads();
  }
}

TEST_CASE("barriers at two places are caught", "[host-execution]") {
  test::fails([] { return host::launch(two_barriers, 1, 64, 0, true); },
              {"divergent barrier", "at %0", "at %1"});
  test::passes([] { return host::launch(two_barriers, 1, 64, 0, false); });
}

__global__ void some_skip(unsigned limit) {
  STROBE_MARK(0);
  if (threadIdx.x < limit) __syncthreads();
}

TEST_CASE("threads that skip a barrier and exit are caught", "[host-execution]") {
  test::fails([] { return host::launch(some_skip, 1, 128, 0, 96u); }, {"%0"});
  test::passes([] { return host::launch(some_skip, 1, 128, 0, 128u); });
}

__global__ void half_a_warp(bool diverge) {
  if (diverge && threadIdx.x % 32 < 16) {
    STROBE_MARK(0);
    __shfl_sync(~0u, 1, 0);
  } else {
    STROBE_MARK(1);
    __syncwarp();
  }
}

TEST_CASE("lanes in different collectives are caught", "[host-execution]") {
  test::fails([] { return host::launch(half_a_warp, 1, 32, 0, true); },
              {"divergent warp", "%0", "%1", "__syncwarp", "__shfl_sync"});
  test::passes([] { return host::launch(half_a_warp, 1, 32, 0, false); });
}

__global__ void two_products(bool diverge) {
  const uint32_t a[4] = {};
  float d[4] = {};
  if (diverge && threadIdx.x == 0) {
    STROBE_MARK(0);
    ptx::mma_m16n8k16<__half>(d, a, 0, 0);
  } else {
    STROBE_MARK(1);
    ptx::mma_m16n8k16<__half>(d, a, 0, 0);
  }
}

TEST_CASE("an aligned instruction at two places is caught", "[host-execution]") {
  test::fails([] { return host::launch(two_products, 1, 32, 0, true); },
              {"divergent warp: mma", "%0", "%1"});
  test::passes([] { return host::launch(two_products, 1, 32, 0, false); });
}

__global__ void one_leaves(unsigned mask) {
  if (threadIdx.x == 7) return;
  STROBE_MARK(0);
  __shfl_sync(mask, 1, 0);
}

TEST_CASE("a mask that names exited lanes is caught", "[host-execution]") {
  // Lane 7 leaves before the others come, or after: two wordings.
  test::fails([] { return host::launch(one_leaves, 1, 32, 0, ~0u); }, {"at %0", "ffffffff"});
  test::passes([] { return host::launch(one_leaves, 1, 32, 0, ~(1u << 7)); });
}

__global__ void lanes_that_do_not_exist(unsigned mask) {
  STROBE_MARK(0);
  __ballot_sync(mask, 1);
}

TEST_CASE("a full mask in a short warp is caught", "[host-execution]") {
  test::fails([] { return host::launch(lanes_that_do_not_exist, 1, 8, 0, ~0u); },
              {"__ballot_sync at %0", "names lanes 8-31, which have exited or do not exist"});
  test::passes([] { return host::launch(lanes_that_do_not_exist, 1, 8, 0, 0xffu); });
}

__global__ void reads_outside(int source) {
  if (threadIdx.x >= 16) return;
  STROBE_MARK(0);
  __shfl_sync(0xffffu, 1, source);
}

TEST_CASE("reading a lane outside the mask is caught", "[host-execution]") {
  test::fails([] { return host::launch(reads_outside, 1, 32, 0, 20); },
              {"__shfl_sync at %0: reads lane 20, which is not in mask 0000ffff"});
  test::passes([] { return host::launch(reads_outside, 1, 32, 0, 15); });
}

__global__ void not_in_mask(unsigned mask) {
  STROBE_MARK(0);
  __syncwarp(mask);
}

TEST_CASE("calling outside one's mask is caught", "[host-execution]") {
  test::fails([] { return host::launch(not_in_mask, 1, 32, 0, 0x7fffffffu); },
              {"__syncwarp at %0: the calling lane is not in mask 7fffffff", "lane 31"});
  test::passes([] { return host::launch(not_in_mask, 1, 32, 0, ~0u); });
}

// ---- named barriers -----------------------------------------------------------------------------

__global__ void named(int id, int threads) {
  STROBE_MARK(0);
  ptx::barrier_sync(id, threads);
}

TEST_CASE("impossible named barriers are caught", "[host-execution]") {
  const auto use = [](int id, int threads) {
    return [=] { return host::launch(named, 1, 64, 0, id, threads); };
  };
  test::passes(use(15, 64));
  test::passes(use(1, 32));
  test::fails(use(16, 64), {"bar.sync at %0: barrier 16 does not exist"});
  test::fails(use(1, 48), {"bar.sync at %0: 48 threads is not a positive multiple of 32"});
  test::fails(use(1, 96), {"bar.sync at %0: waits for 96 threads in a block of 64"});
}

__global__ void disagree(int second_count) {
  if (threadIdx.x < 32) {
    STROBE_MARK(0);
    ptx::barrier_sync(3, 64);
  } else {
    STROBE_MARK(1);
    ptx::barrier_sync(3, second_count);
  }
}

TEST_CASE("a named barrier with two counts is caught", "[host-execution]") {
  test::fails([] { return host::launch(disagree, 1, 96, 0, 96); }, {"%0", "%1", "barrier 3"});
  test::fails([] { return host::launch(disagree, 1, 64, 0, 32); }, {"%0", "barrier 3"});
  test::passes([] { return host::launch(disagree, 1, 64, 0, 64); });
}

__global__ void arrives_twice(bool twice) {
  if (threadIdx.x < 32) {
    ptx::barrier_arrive(4, 96);
    STROBE_MARK(0);
    if (twice) ptx::barrier_arrive(4, 96);
  } else {
    ptx::barrier_sync(4, 96);
  }
}

TEST_CASE("arriving twice in a phase is caught", "[host-execution]") {
  test::fails([] { return host::launch(arrives_twice, 1, 96, 0, true); },
              {"bar.arrive at %0: the warp arrives twice at barrier 4"});
  test::passes([] { return host::launch(arrives_twice, 1, 96, 0, false); });
}

__global__ void partial_warp(unsigned lanes) {
  STROBE_MARK(0);
  if (threadIdx.x % 32 < lanes) ptx::barrier_sync(5, 32);
}

TEST_CASE("a named barrier that half a warp comes to is caught", "[host-execution]") {
  test::fails([] { return host::launch(partial_warp, 1, 64, 0, 16u); },
              {"bar.sync at %0", "ffffffff"});
  test::passes([] { return host::launch(partial_warp, 1, 64, 0, 32u); });
}

// ---- deadlocks ----------------------------------------------------------------------------------

__global__ void wait_for_each_other(bool cross) {
  if (threadIdx.x < 32) {
    STROBE_MARK(0);
    ptx::barrier_sync(3, 64);
  } else {
    STROBE_MARK(1);
    ptx::barrier_sync(cross ? 4 : 3, 64);
  }
}

TEST_CASE("a deadlock lists who waits where", "[host-execution]") {
  for (bool races : {false, true}) {
    test::fails(
        [] { return host::launch(wait_for_each_other, 1, 64, 0, true); },
        {"deadlock", "block (0,0,0)", "warp 0 lanes 0-31: barrier 3 at %0 (1 of 2 warps arrived)",
         "warp 1 lanes 0-31: barrier 4 at %1 (1 of 2 warps arrived)"},
        test::schedules(races));
  }
  test::passes([] { return host::launch(wait_for_each_other, 1, 64, 0, false); });
}

__global__ void traps() {
  STROBE_MARK(0);
  if (threadIdx.x == 3) __trap();
}

TEST_CASE("__trap fails the launch", "[host-execution]") {
  test::fails([] { return host::launch(traps, 1, 32, 0); },
              {"block (0,0,0) thread 3 (warp 0 lane 3): __trap() at %0"});
}

// ---- a place named by the caller ----------------------------------------------------------------

STROBE_DEVICE void helper(uint32_t address STROBE_AND_SITE) {
  uint32_t r[4];
  ptx::ldmatrix_x4(r, address STROBE_PASS_SITE);
}

__global__ void calls_helper() {
  STROBE_MARK(0);
  helper(0);
}

TEST_CASE("a helper can have its caller named", "[host-execution]") {
  test::fails([] { return host::launch(calls_helper, 1, 32, 64); }, {"ldmatrix at %0"});
}

}  // namespace
