// SPDX-License-Identifier: MIT
// Options::trace: each kind of event is told, once, by the right thread and in an order that a
// kernel could have.
#include <algorithm>

#include "hopper_support.hpp"
#include "strobe/ptx/barrier.cuh"
#include "strobe/ptx/mbarrier.cuh"
#include "strobe/ptx/shared.cuh"
#include "strobe/ptx/tma.cuh"

namespace {

namespace host = strobe::host;
namespace ptx = strobe::ptx;
using Kind = host::TraceEvent::Kind;

// Warp 0 loads a box of 8 rows and waits for it; then the two warps meet at barrier 3.
__global__ void loads_and_meets(const __grid_constant__ ptx::TensorMap map) {
  STROBE_DYNAMIC_SHARED(shared);
  const uint32_t barrier = ptx::shared_address(shared), tile = barrier + 1024;
  if (threadIdx.x == 0) {
    ptx::mbarrier_init(barrier, 1);
    ptx::mbarrier_fence_init();
  }
  __syncthreads();
  if (threadIdx.x < 32) {
    if (threadIdx.x == 0) {
      ptx::mbarrier_arrive_expect(barrier, 1024);
      const int at[2] = {0, 0};
      ptx::tma_load(tile, map, at, barrier, ptx::L2Hint::evict_last);
    }
    ptx::mbarrier_wait(barrier, 0);
    ptx::barrier_arrive(3, 64);
  } else {
    ptx::barrier_sync(3, 64);
  }
}

TEST_CASE("a trace tells who did what, in order", "[host-execution]") {
  const test::Rows source(8, 7);
  const ptx::TensorMap map = test::map_of(source.elements.data(), 8, 8);
  for (const host::Options& schedule : test::schedules(false)) {
    std::vector<host::TraceEvent> events;
    host::Options options = schedule;
    options.trace = [](void* to, const host::TraceEvent& event) {
      static_cast<std::vector<host::TraceEvent>*>(to)->push_back(event);
    };
    options.trace_context = &events;
    const host::ScopedOptions scope(options);
    REQUIRE(host::launch(loads_and_meets, 1, 64, 2048, map) == cudaSuccess);

    const auto where = [&](Kind kind, uint32_t thread, uint32_t at) {
      const auto is = [&](const host::TraceEvent& e) {
        return e.kind == kind && e.thread == thread && e.at == at && e.block == 0;
      };
      REQUIRE(std::count_if(events.begin(), events.end(), is) == 1);
      return std::find_if(events.begin(), events.end(), is) - events.begin();
    };
    constexpr uint32_t none = host::TraceEvent::kNoThread;
    const auto loaded = where(Kind::tile_load, 0, 1024),
               landed = where(Kind::tile_land, none, 1024);
    const auto arrived = where(Kind::mbarrier_arrive, 0, 0),
               complete = where(Kind::mbarrier_complete, none, 0);
    REQUIRE(events[size_t(loaded)].value == 1024);
    REQUIRE(events[size_t(arrived)].value == 1024);
    REQUIRE(events[size_t(complete)].value == 1);
    REQUIRE(loaded < landed);
    REQUIRE(landed < complete);
    REQUIRE(arrived < complete);
    for (uint32_t thread = 0; thread < 32; ++thread) {
      REQUIRE(where(Kind::mbarrier_wait, thread, 0) < where(Kind::mbarrier_pass, thread, 0));
      REQUIRE(complete < where(Kind::mbarrier_pass, thread, 0));
    }
    const auto met = where(Kind::barrier_complete, none, 3);
    REQUIRE(where(Kind::barrier_arrive, 0, 3) < met);
    REQUIRE(where(Kind::barrier_arrive, 32, 3) < met);
    REQUIRE(met < where(Kind::barrier_pass, 32, 3));
  }
}

}  // namespace
