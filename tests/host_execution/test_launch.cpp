// SPDX-License-Identifier: MIT
// Launches: options, defaults, invalid configurations, blocks that wait for each other, several OS
// threads.
#include <atomic>
#include <cstdlib>
#include <thread>

#include "strobe/ptx/atomic.cuh"
#include "strobe/ptx/shared.cuh"
#include "support.hpp"

namespace {

namespace host = strobe::host;
namespace ptx = strobe::ptx;

__global__ void nothing() {}

struct Large {
  int values[200];
};

__global__ void takes_parameters(const Large large, __grid_constant__ const Large constant,
                                 int* out, double scale) {
  out[threadIdx.x] = static_cast<int>(scale) * large.values[threadIdx.x] + constant.values[1];
}

TEST_CASE("arguments are copied and convert as in a call", "[host-execution]") {
  Large large{}, constant{};
  for (int i = 0; i < 200; ++i) large.values[i] = i;
  constant.values[1] = 5;
  int out[32];
  REQUIRE(host::launch(takes_parameters, 1, 32, 0, large, constant, out, 3) == cudaSuccess);
  for (int i = 0; i < 32; ++i) REQUIRE(out[i] == 3 * i + 5);
}

TEST_CASE("launches that no GPU takes are refused", "[host-execution]") {
  REQUIRE(host::launch(nothing, 1, 1024, 227 << 10) == cudaSuccess);
  REQUIRE(host::launch(nothing, 0, 32, 0) == cudaErrorInvalidConfiguration);
  REQUIRE(host::failure().find("grid (0,1,1)") != std::string::npos);
  REQUIRE(host::launch(nothing, 1, 1025, 0) == cudaErrorInvalidConfiguration);
  REQUIRE(host::failure().find("1025 threads") != std::string::npos);
  REQUIRE(host::launch(nothing, 1, 0, 0) == cudaErrorInvalidConfiguration);
  REQUIRE(host::launch(nothing, dim3(1, 65536), 32, 0) == cudaErrorInvalidConfiguration);
  REQUIRE(host::launch(nothing, 1, 32, (227 << 10) + 1) == cudaErrorInvalidValue);
  REQUIRE(host::launch(nothing, 1, 32, 0) == cudaSuccess);
  REQUIRE(host::failure().empty());
}

__global__ void fails_in_one_block(unsigned bad) {
  STROBE_MARK(0);
  if (blockIdx.x == bad && threadIdx.x == 33) __trap();
}

TEST_CASE("after a failed launch the next one is as good as new", "[host-execution]") {
  for (int i = 0; i < 3; ++i) {
    for (const host::Options& options : test::schedules()) {
      test::fails([] { return host::launch(fails_in_one_block, 9, 64, 16, 5u); },
                  {"block (5,0,0) thread 33 (warp 1 lane 1): __trap() at %0"}, {options});
      test::passes([] { return host::launch(fails_in_one_block, 9, 64, 16, 50u); }, {options});
    }
  }
}

TEST_CASE("an instrumented program checks for races by default", "[host-execution]") {
  REQUIRE(host::Options().check_races == test::instrumented);
}

TEST_CASE("options nest", "[host-execution]") {
  const uint64_t outside = host::current_options().seed;
  {
    host::Options options;
    options.seed = 17;
    const host::ScopedOptions outer(options);
    REQUIRE(host::current_options().seed == 17);
    {
      options.seed = 18;
      const host::ScopedOptions inner(options);
      REQUIRE(host::current_options().seed == 18);
      std::thread([&] { REQUIRE(host::current_options().seed == outside); }).join();
    }
    REQUIRE(host::current_options().seed == 17);
  }
  REQUIRE(host::current_options().seed == outside);
}

// ---- blocks that wait for each other ------------------------------------------------------------

// All blocks meet twice at a counter.
__global__ void meet_all_blocks(uint32_t* counter, uint32_t* out) {
  for (uint32_t phase = 1; phase <= 2; ++phase) {
    __syncthreads();
    if (threadIdx.x == 0) {
      ptx::atomic_add_acq_rel(counter, 1);
      STROBE_MARK(0);
      while (ptx::load_acquire(counter) < phase * gridDim.x) ptx::spin_pause();
    }
    __syncthreads();
  }
  if (threadIdx.x == 1) out[blockIdx.x] = *counter;
}

auto launch_meeting(unsigned blocks) {
  return [blocks] {
    uint32_t counter = 0;
    std::vector<uint32_t> out(blocks);
    const cudaError_t error = host::launch(meet_all_blocks, blocks, 64, 0, &counter, out.data());
    if (error == cudaSuccess) {
      for (uint32_t x : out) REQUIRE(x == 2 * blocks);
    }
    return error;
  };
}

TEST_CASE("blocks that meet at an atomic run interleaved", "[host-execution]") {
  for (int resident : {2, 3, 8}) {
    std::vector<host::Options> all = test::schedules();
    for (host::Options& options : all) options.resident_blocks = resident;
    test::passes(launch_meeting(2), all);
    if (resident == 8) test::passes(launch_meeting(8), all);
  }
}

TEST_CASE("too few resident blocks are a deadlock that says so", "[host-execution]") {
  std::vector<host::Options> all = test::schedules();
  for (host::Options& options : all) options.resident_blocks = 2;
  test::fails(launch_meeting(3),
              {"deadlock: threads spin and nothing changes", "spinning at %0",
               "1 blocks have not started", "raise Options::resident_blocks (now 2)"},
              all);
}

__global__ void waits_for_nobody(uint32_t* flag) {
  STROBE_MARK(0);
  while (ptx::load_acquire(flag) == 0) ptx::spin_pause();
}

TEST_CASE("a wait that nobody ends is reported", "[host-execution]") {
  test::fails(
      [] {
        uint32_t flag = 0;
        return host::launch(waits_for_nobody, 2, 40, 0, &flag);
      },
      {"deadlock: threads spin", "warp 0 lanes 0-31: spinning at %0",
       "warp 1 lanes 0-7: spinning at %0"});
}

__global__ void one_warp_feeds_another(uint32_t* flag, int rounds) {
  for (int i = 1; i <= rounds; ++i) {
    const uint32_t round = static_cast<uint32_t>(i);
    if (threadIdx.x == 0) ptx::store_release(flag, round);
    if (threadIdx.x == 32) {
      while (ptx::load_acquire(flag) < round) __nanosleep(10);
    }
    __syncthreads();
  }
}

TEST_CASE("spinning within a block leaves the others their turn", "[host-execution]") {
  test::passes([] {
    uint32_t flag = 0;
    return host::launch(one_warp_feeds_another, 1, 64, 0, &flag, 20);
  });
}

TEST_CASE("blocks on several OS threads may wait for each other", "[host-execution]") {
  host::Options options;
  options.os_threads = 2;
  options.resident_blocks = 1;
  test::passes(launch_meeting(2), {options});
  options.order = host::Order::random;
  test::passes(launch_meeting(2), {options});
  // One more than can be resident.
  test::fails(launch_meeting(3), {"deadlock: threads spin", "1 blocks have not started"},
              {options});
}

__global__ void adds(std::atomic<int>* sum) { sum->fetch_add(1); }

TEST_CASE("several host threads launch at once", "[host-execution]") {
  std::atomic<int> sum{0};
  std::atomic<int> errors{0};
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] {
      for (int n = 0; n < 5; ++n) errors += host::launch(adds, 7, 40, 0, &sum) != cudaSuccess;
    });
  }
  for (std::thread& t : threads) t.join();
  REQUIRE(errors == 0);
  REQUIRE(sum == 4 * 5 * 7 * 40);
}

__global__ void uses_stack(int* out, int depth) {
  volatile char space[1000];
  space[threadIdx.x % 1000] = static_cast<char>(depth);
  if (depth > 0) uses_stack(out, depth - 1);
  out[threadIdx.x] += space[threadIdx.x % 1000];
}

TEST_CASE("deep stacks are had for the asking", "[host-execution]") {
  host::Options options;
  options.stack_bytes = 2 << 20;
  test::passes(
      [] {
        int out[32] = {};
        const cudaError_t error = host::launch(uses_stack, 1, 32, 0, out, 100);
        for (int x : out) REQUIRE(x == 100 * 101 / 2);
        return error;
      },
      {options});
}

// ---- one launch after another over the same memory ----------------------------------------------

__global__ void accumulate(float* out) { out[threadIdx.x] += 1; }

TEST_CASE("launches are ordered after each other", "[host-execution]") {
  std::vector<float> out(32);
  const host::ScopedTracking tracking(out.data(), out.size() * 4);
  const auto options = test::schedules();
  test::passes([&] { return host::launch(accumulate, 1, 32, 0, out.data()); }, options);
  for (float x : out) REQUIRE(x == static_cast<float>(options.size()));
}

}  // namespace
