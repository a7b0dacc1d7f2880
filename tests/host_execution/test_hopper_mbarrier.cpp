// SPDX-License-Identifier: MIT
// Misused mbarriers: each is reported with its place under every schedule.
#include "strobe/ptx/ldmatrix.cuh"
#include "strobe/ptx/mbarrier.cuh"
#include "strobe/ptx/shared.cuh"
#include "strobe/ptx/stmatrix.cuh"
#include "support.hpp"

namespace {

namespace host = strobe::host;
namespace ptx = strobe::ptx;

enum class Misuse {
  none,
  no_init,
  misaligned,
  outside,
  init_twice,
  none_expected,
  too_many,
  overwritten
};

__global__ void uses_barrier(Misuse misuse) {
  STROBE_DYNAMIC_SHARED(shared);
  const uint32_t barrier = ptx::shared_address(shared) + (misuse == Misuse::misaligned ? 4u : 0u) +
                           (misuse == Misuse::outside ? 64u : 0u);
  if (threadIdx.x == 0 && misuse != Misuse::no_init) {
    STROBE_MARK(1);
    ptx::mbarrier_init(barrier, misuse == Misuse::none_expected ? 0 : 32);
    STROBE_MARK(2);
    if (misuse == Misuse::init_twice) ptx::mbarrier_init(barrier, 32);
    if (misuse == Misuse::overwritten) *reinterpret_cast<uint64_t*>(shared) = 0;
  }
  __syncthreads();
  STROBE_MARK(0);
  ptx::mbarrier_arrive(barrier);
  STROBE_MARK(3);
  if (misuse == Misuse::too_many && threadIdx.x == 0) ptx::mbarrier_arrive_expect(barrier, 1 << 20);
  ptx::mbarrier_wait(barrier, 0);
}

TEST_CASE("misused mbarriers are caught", "[host-execution]") {
  const auto with = [](Misuse misuse) {
    return [=] { return host::launch(uses_barrier, 1, 32, 64, misuse); };
  };
  for (bool races : {true, false}) {
    const auto all = test::schedules(races);
    test::passes(with(Misuse::none), all);
    test::fails(with(Misuse::no_init),
                {"mbarrier.arrive at %0: no mbarrier has been initialised at smem+0x0"}, all);
    test::fails(with(Misuse::misaligned),
                {"mbarrier.init at %1: shared address smem+0x4 is not 8-byte aligned"}, all);
    test::fails(with(Misuse::outside), {"mbarrier.init at %1", "outside the block's 64 bytes"},
                all);
    test::fails(with(Misuse::init_twice),
                {"mbarrier.init at %2: smem+0x0 is an mbarrier already, since %1"}, all);
    test::fails(with(Misuse::none_expected), {"mbarrier.init at %1: 0 arrivals"}, all);
    test::fails(with(Misuse::overwritten),
                {"mbarrier.arrive at %0: the mbarrier at smem+0x0, initialised at %1, was over"},
                all);
    test::fails(with(Misuse::too_many), {"mbarrier.arrive.expect_tx at %3"}, all);
  }
}

__global__ void arrives_too_often(uint32_t times) {
  STROBE_DYNAMIC_SHARED(shared);
  const uint32_t barrier = ptx::shared_address(shared);
  ptx::mbarrier_init(barrier, 1);
  ptx::mbarrier_arrive_expect(barrier, 16);
  STROBE_MARK(0);
  for (uint32_t i = 1; i < times; ++i) ptx::mbarrier_arrive(barrier);
}

TEST_CASE("more arrivals than a phase has are caught", "[host-execution]") {
  test::passes([] { return host::launch(arrives_too_often, 1, 1, 8, 1u); });
  test::fails([] { return host::launch(arrives_too_often, 1, 1, 8, 2u); },
              {"mbarrier.arrive at %0: all 1 arrivals of the phase have come already (the phase "
               "waits for 16 more bytes)"});
}

__global__ void uses_unsynchronised_barrier(bool synchronise) {
  STROBE_DYNAMIC_SHARED(shared);
  const uint32_t barrier = ptx::shared_address(shared);
  STROBE_MARK(1);
  if (threadIdx.x == 0) ptx::mbarrier_init(barrier, 32);
  if (synchronise) __syncwarp();
  STROBE_MARK(0);
  ptx::mbarrier_arrive(barrier);
}

TEST_CASE("an mbarrier used before a barrier has published it is caught", "[host-execution]") {
  test::passes([] { return host::launch(uses_unsynchronised_barrier, 1, 32, 8, true); });
  // Another thread may come before the init.
  test::fails([] { return host::launch(uses_unsynchronised_barrier, 1, 32, 8, false); },
              {"mbarrier.arrive at %0: no "});
}

// What threads did before they arrived, those who waited may see: and only those.
__global__ void passes_values_on(uint32_t* out, bool wait) {
  STROBE_DYNAMIC_SHARED(shared);
  const uint32_t barrier = ptx::shared_address(shared), tile = barrier + 1024;
  if (threadIdx.x == 0) ptx::mbarrier_init(barrier, 32);
  __syncthreads();
  const uint32_t lane = threadIdx.x % 32;
  uint32_t r[4] = {lane, lane + 32, lane + 64, lane + 96};
  if (threadIdx.x < 32) {
    STROBE_MARK(0);
    ptx::stmatrix_x4(tile + lane * 16, r);
    ptx::mbarrier_arrive(barrier);
  } else {
    if (wait) ptx::mbarrier_wait(barrier, 0);
    STROBE_MARK(1);
    ptx::ldmatrix_x4(r, tile + lane * 16);
    for (uint32_t i = 0; i < 4; ++i) out[i * 32 + lane] = r[i];
  }
}

TEST_CASE("mbarriers order what is done before and after", "[host-execution]") {
  const auto with = [](bool wait) {
    return [=] {
      std::vector<uint32_t> out(128);
      const cudaError_t error = host::launch(passes_values_on, 1, 64, 2048, out.data(), wait);
      for (uint32_t i = 0; i < 128 && error == cudaSuccess; ++i) REQUIRE(out[i] == i);
      return error;
    };
  };
  test::passes(with(true));
  test::fails(with(false), {test::instrumented ? "%1" : "shared-memory race"});
}

__global__ void one_block_waits() {
  STROBE_DYNAMIC_SHARED(shared);
  const uint32_t barrier = ptx::shared_address(shared);
  ptx::mbarrier_init(barrier, 1);
  STROBE_MARK(0);
  if (blockIdx.x == 1) ptx::mbarrier_wait(barrier, 0);
}

TEST_CASE("a deadlock of one block after another has finished is caught", "[host-execution]") {
  test::fails([] { return host::launch(one_block_waits, 2, 1, 8); },
              {"deadlock", "block (1,0,0)", "mbarrier smem+0x0 at %0"});
}

}  // namespace
