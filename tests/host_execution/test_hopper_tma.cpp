// SPDX-License-Identifier: MIT
// Misused TMA loads and stores: each is reported with its place under every schedule.
#include "hopper_support.hpp"
#include "strobe/ptx/atomic.cuh"
#include "strobe/ptx/ldmatrix.cuh"
#include "strobe/ptx/mbarrier.cuh"
#include "strobe/ptx/shared.cuh"
#include "strobe/ptx/stmatrix.cuh"
#include "strobe/ptx/tma.cuh"

namespace {

namespace host = strobe::host;
namespace ptx = strobe::ptx;
using test::map_of;
using test::Rows;

enum class Load {
  whole,
  no_fence_init,
  wild_map,
  three_coordinates,
  misaligned,
  between_chunks,
  outside,
  no_wait,
  fewer_bytes,
  more_bytes,
  one_waits,
};

__global__ void loads(const __grid_constant__ ptx::TensorMap map, Load load, uint32_t* out) {
  STROBE_DYNAMIC_SHARED(shared);
  const uint32_t barrier = ptx::shared_address(shared), tile = barrier + 1024;
  if (threadIdx.x == 0) {
    STROBE_MARK(2);
    ptx::mbarrier_init(barrier, 1);
    if (load != Load::no_fence_init) ptx::mbarrier_fence_init();
  }
  __syncthreads();
  if (threadIdx.x == 0) {
    uint32_t bytes = 1024;
    if (load == Load::fewer_bytes) bytes = 512;
    if (load == Load::more_bytes) bytes = 2048;
    ptx::mbarrier_arrive_expect(barrier, bytes);
    uint32_t to = tile;
    if (load == Load::misaligned) to += 64;
    if (load == Load::outside) to += 128;
    if (load == Load::three_coordinates) {
      const int at[3] = {};
      STROBE_MARK(0);
      ptx::tma_load(to, map, at, barrier, ptx::L2Hint::normal);
    } else {
      const int at[2] = {load == Load::between_chunks ? 4 : 0, 0};
      STROBE_MARK(0);
      ptx::tma_load(to, map, at, barrier, ptx::L2Hint::normal);
    }
  }
  const bool waits = load != Load::no_wait && (load != Load::one_waits || threadIdx.x == 0);
  STROBE_MARK(1);
  if (waits) ptx::mbarrier_wait(barrier, 0);
  if (load == Load::no_wait) __syncthreads();
  uint32_t r[4];
  STROBE_MARK(3);
  ptx::ldmatrix_x4(r, tile + threadIdx.x * 16);
  for (uint32_t i = 0; i < 4; ++i) out[i * 32 + threadIdx.x] = r[i];
  if (load == Load::no_wait) ptx::mbarrier_wait(barrier, 0);
}

auto launch_load(Load load) {
  return [=] {
    const Rows rows(8, 0x1234);
    std::vector<uint32_t> out(128);
    ptx::TensorMap map = map_of(rows.elements.data(), 8, 8);
    if (load == Load::wild_map) map = ptx::TensorMap{};
    const cudaError_t error = host::launch(loads, 1, 32, 2048, map, load, out.data());
    for (uint32_t i = 0; i < 128 && error == cudaSuccess; ++i) REQUIRE(out[i] == 0x12341234u);
    return error;
  };
}

TEST_CASE("misused TMA loads are caught", "[host-execution]") {
  for (bool races : {true, false}) {
    const auto all = test::schedules(races);
    test::passes(launch_load(Load::whole), all);
    test::fails(launch_load(Load::no_fence_init),
                {"TMA load at %0: no mbarrier_fence_init after the mbarrier.init at %2"}, all);
    test::fails(launch_load(Load::wild_map), {"TMA load at %0", "is not a tensor map"}, all);
    test::fails(launch_load(Load::three_coordinates),
                {"TMA load at %0: 3 coordinates for a tensor map of 2 dimensions"}, all);
    test::fails(launch_load(Load::misaligned),
                {"TMA load at %0: shared address smem+0x440 is not 128-byte aligned"}, all);
    test::fails(
        launch_load(Load::between_chunks),
        {"TMA load at %0: coordinate 4 of the contiguous dimension is not a multiple of 16"}, all);
    test::fails(launch_load(Load::outside), {"TMA load at %0", "outside the block's"}, all);
    test::fails(launch_load(Load::more_bytes),
                {"deadlock", "mbarrier smem+0x0 at %1", "0 of 1 arrivals missing, 1024 bytes"},
                all);
    test::fails(launch_load(Load::fewer_bytes),
                {"deadlock", "mbarrier smem+0x0 at %1", "0 of 1 arrivals missing, -512 bytes"},
                all);
  }
}

TEST_CASE("reading a tile without waiting for its barrier is caught", "[host-execution]") {
  // Neither __syncthreads nor another thread's wait will do.
  test::fails(launch_load(Load::no_wait), {"shared-memory race (read after write)", "%3",
                                           "a TMA load not waited for, issued at %0"});
  test::fails(launch_load(Load::one_waits), {"shared-memory race (read after write)", "%3",
                                             "a TMA load not waited for, issued at %0"});
}

__global__ void leaves_early(const __grid_constant__ ptx::TensorMap map) {
  STROBE_DYNAMIC_SHARED(shared);
  const uint32_t barrier = ptx::shared_address(shared);
  ptx::mbarrier_init(barrier, 1);
  ptx::mbarrier_fence_init();
  ptx::mbarrier_arrive_expect(barrier, 1024);
  const int at[2] = {};
  STROBE_MARK(0);
  ptx::tma_load(barrier + 1024, map, at, barrier, ptx::L2Hint::normal);
}

TEST_CASE("a block that leaves with a TMA load in flight is caught", "[host-execution]") {
  const Rows rows(8);
  test::fails(
      [&] { return host::launch(leaves_early, 1, 1, 2048, map_of(rows.elements.data(), 8, 8)); },
      {"the block exits while the TMA load issued at %0 is in flight"}, {host::Options()});
}

enum class Store { whole, no_fence, fence_after_barrier, no_wait, overwrite, leave, negative };

__global__ void stores(const __grid_constant__ ptx::TensorMap map, Store store) {
  STROBE_DYNAMIC_SHARED(shared);
  const uint32_t tile = ptx::shared_address(shared), lane = threadIdx.x % 32;
  const uint32_t r[4] = {1, 1, 1, 1};
  if (threadIdx.x < 32) {
    STROBE_MARK(1);
    ptx::stmatrix_x4(tile + lane * 16, r);
    ptx::stmatrix_x4(tile + 512 + lane * 16, r);
    if (store != Store::no_fence && store != Store::fence_after_barrier) ptx::fence_proxy_async();
  }
  __syncthreads();
  if (threadIdx.x == 32) {
    if (store == Store::fence_after_barrier) ptx::fence_proxy_async();
    const int at[2] = {0, store == Store::negative ? -1 : 0};
    STROBE_MARK(0);
    ptx::tma_store(map, at, tile);
    ptx::tma_store_commit();
    if (store == Store::no_wait || store == Store::leave) {
      ptx::tma_store_wait_read<1>();
    } else {
      ptx::tma_store_wait_read<0>();
    }
  }
  if (store != Store::overwrite && store != Store::leave) __syncthreads();
  if (threadIdx.x < 32 && store != Store::leave) {
    STROBE_MARK(2);
    ptx::stmatrix_x4(tile + lane * 16, r);
  }
  if (threadIdx.x == 32 && store == Store::no_wait) ptx::tma_store_wait_read<0>();
}

TEST_CASE("misused TMA stores are caught", "[host-execution]") {
  const auto with = [](Store store) {
    return [=] {
      Rows rows(8);
      const cudaError_t error =
          host::launch(stores, 1, 64, 1024, map_of(rows.elements.data(), 8, 8), store);
      for (size_t i = 0; i < rows.elements.size() && error == cudaSuccess; ++i) {
        REQUIRE(rows.elements[i] == (i % 2 == 0 ? 1 : 0));
      }
      return error;
    };
  };
  test::passes(with(Store::whole));
  for (Store store : {Store::no_fence, Store::fence_after_barrier}) {
    test::fails(with(store), {"the async proxy reads smem+0x", "at %0, but thread", "wrote it at",
                              "no fence.proxy.async since"});
  }
  test::fails(with(Store::no_wait), {"shared-memory race (write after read)", "%2",
                                     "a TMA store not waited for, issued at %0"});
  test::fails(with(Store::overwrite), {"%2"});
  test::fails(with(Store::negative), {"TMA store at %0: coordinate -1 of dimension 1 is negative"});
  for (bool races : {true, false}) {
    test::fails(with(Store::leave),
                {"exits before the TMA store issued at %0 has read shared memory"},
                test::schedules(races));
  }
}

// The same with plain stores, which the instrumented build sees.
__global__ void stores_plainly(const __grid_constant__ ptx::TensorMap map, bool fence) {
  STROBE_DYNAMIC_SHARED(shared);
  STROBE_MARK(1);
  for (unsigned i = threadIdx.x; i < 256; i += 64) reinterpret_cast<uint32_t*>(shared)[i] = i;
  if (fence) ptx::fence_proxy_async();
  __syncthreads();
  if (threadIdx.x != 0) return;
  const int at[2] = {};
  STROBE_MARK(0);
  ptx::tma_store(map, at, ptx::shared_address(shared));
  ptx::tma_store_commit();
  ptx::tma_store_wait_read<0>();
}

TEST_CASE("plain stores that the async proxy has not been told of are caught", "[host-execution]") {
  const auto with = [](bool fence) {
    return [=] {
      const Rows rows(8);
      return host::launch(stores_plainly, 1, 64, 1024, map_of(rows.elements.data(), 8, 8), fence);
    };
  };
  test::passes(with(true));
  if (!test::instrumented) return;
  test::fails(with(false), {"the async proxy reads smem+0x0 at %0, but thread 0, which wrote it at",
                            "%1", "no fence.proxy.async since"});
}

__global__ void loads_from_workspace(const __grid_constant__ ptx::TensorMap map, unsigned* word) {
  STROBE_DYNAMIC_SHARED(shared);
  if (blockIdx.x == 0) {
    STROBE_MARK(0);
    atomicAdd(word, 1u);
    return;
  }
  const uint32_t barrier = ptx::shared_address(shared);
  ptx::mbarrier_init(barrier, 1);
  ptx::mbarrier_fence_init();
  ptx::mbarrier_arrive_expect(barrier, 1024);
  const int at[2] = {};
  STROBE_MARK(1);
  ptx::tma_load(barrier + 1024, map, at, barrier, ptx::L2Hint::normal);
  ptx::mbarrier_wait(barrier, 0);
}

TEST_CASE("a TMA load from a workspace that another block changes is caught", "[host-execution]") {
  Rows rows(16);
  const host::ScopedTracking tracking(rows.elements.data(), rows.elements.size() * 2);
  const auto with = [&](size_t row) {
    return [&rows, row] {
      return host::launch(loads_from_workspace, 2, 1, 2048, map_of(rows.elements.data(), 16, 8),
                          reinterpret_cast<unsigned*>(rows.elements.data() + row * 64));
    };
  };
  test::passes(with(8));
  test::fails(with(7), {"global-memory race", "at %0", "at %1"});
}

__global__ void stores_by_all_blocks(const __grid_constant__ ptx::TensorMap map, int stride) {
  STROBE_DYNAMIC_SHARED(shared);
  const int at[2] = {0, static_cast<int>(blockIdx.x) * stride};
  STROBE_MARK(0);
  ptx::tma_store(map, at, ptx::shared_address(shared));
  ptx::tma_store_commit();
  ptx::tma_store_wait_read<0>();
}

TEST_CASE("blocks whose TMA stores overlap are caught", "[host-execution]") {
  if (test::instrumented) return;  // that the tiles are not initialised comes first
  const auto with = [](int stride) {
    return [=] {
      const Rows rows(64);
      const host::ScopedTracking tracking(rows.elements.data(), rows.elements.size() * 2);
      return host::launch(stores_by_all_blocks, 4, 1, 1024, map_of(rows.elements.data(), 64, 8),
                          stride);
    };
  };
  test::passes(with(8));
  test::fails(with(7), {"global-memory race (write after write)", "at %0"});
}

}  // namespace
