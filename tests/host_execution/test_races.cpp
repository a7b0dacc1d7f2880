// SPDX-License-Identifier: MIT
// The race checker: plain accesses to shared memory (in the instrumented build), and workspaces
// shared by blocks. Each fault is caught under every schedule, and its corrected twin passes.
#include "strobe/ptx/atomic.cuh"
#include "strobe/ptx/cp_async.cuh"
#include "strobe/ptx/shared.cuh"
#include "support.hpp"

namespace {

namespace host = strobe::host;
namespace ptx = strobe::ptx;

// ---- plain accesses to shared memory ------------------------------------------------------------

enum class Order { none, warp, block };

__global__ void neighbours(float* out, unsigned distance, Order order) {
  STROBE_DYNAMIC_SHARED(shared);
  float* values = reinterpret_cast<float*>(shared);
  STROBE_MARK(0);
  values[threadIdx.x] = static_cast<float>(threadIdx.x);
  if (order == Order::warp) __syncwarp();
  if (order == Order::block) __syncthreads();
  STROBE_MARK(1);
  out[threadIdx.x] = values[threadIdx.x ^ distance];
}

TEST_CASE("plain shared-memory accesses without a barrier are caught", "[host-execution]") {
  static float out[64];
  const auto with = [](unsigned distance, Order order) {
    return [=] { return host::launch(neighbours, 1, 64, 256, out, distance, order); };
  };
  test::passes(with(1, Order::warp));
  test::passes(with(32, Order::block));
  test::passes(with(0, Order::none));
  if (!test::instrumented) return;
  // The reader may come before the writer: then its read is the first of the two, of memory not yet
  // written.
  test::fails(with(1, Order::none), {"%1"});
  test::fails(with(32, Order::warp), {"%1"});
}

__global__ void read_then_overwrite(float* out, bool barrier) {
  STROBE_DYNAMIC_SHARED(shared);
  float* values = reinterpret_cast<float*>(shared);
  values[threadIdx.x] = 1;
  __syncthreads();
  STROBE_MARK(0);
  const float seen = values[threadIdx.x ^ 32];
  if (barrier) __syncthreads();
  STROBE_MARK(1);
  values[threadIdx.x] = 2;
  out[threadIdx.x] = seen;
}

TEST_CASE("writes that overtake reads are caught", "[host-execution]") {
  static float out[64];
  test::passes([] { return host::launch(read_then_overwrite, 1, 64, 256, out, true); });
  if (!test::instrumented) return;
  test::fails([] { return host::launch(read_then_overwrite, 1, 64, 256, out, false); },
              {"shared-memory race", "%0", "%1"});
}

__global__ void several_readers(float* out, bool barrier) {
  STROBE_DYNAMIC_SHARED(shared);
  volatile float* values = reinterpret_cast<float*>(shared);
  if (threadIdx.x == 0) values[0] = 1;
  __syncthreads();
  STROBE_MARK(0);
  out[threadIdx.x] = values[0];
  if (barrier) __syncthreads();
  STROBE_MARK(1);
  if (threadIdx.x == 40) values[0] = 2;
}

TEST_CASE("a write is checked against all readers", "[host-execution]") {
  static float out[64];
  test::passes([] { return host::launch(several_readers, 1, 64, 4, out, true); });
  if (!test::instrumented) return;
  test::fails([] { return host::launch(several_readers, 1, 64, 4, out, false); },
              {"shared-memory race", "%0", "%1"});
}

__global__ void reads_fresh_memory(float* out, bool write) {
  STROBE_DYNAMIC_SHARED(shared);
  float* values = reinterpret_cast<float*>(shared);
  if (write) values[threadIdx.x] = 0;
  STROBE_MARK(0);
  out[threadIdx.x] = values[threadIdx.x];
}

TEST_CASE("reading shared memory that nobody wrote is caught", "[host-execution]") {
  static float out[32];
  test::passes([] { return host::launch(reads_fresh_memory, 1, 32, 128, out, true); });
  if (test::instrumented) {
    test::fails([] { return host::launch(reads_fresh_memory, 1, 32, 128, out, false); },
                {"reads smem+", "at %0", "which nobody has written"});
  } else {
    // At least it is NaN, in every type.
    test::passes([] {
      const cudaError_t error = host::launch(reads_fresh_memory, 1, 32, 128, out, false);
      for (float x : out) REQUIRE(x != x);
      return error;
    });
  }
}

__global__ void reads_in_flight(const char* source, float* out, bool wait) {
  STROBE_DYNAMIC_SHARED(shared);
  STROBE_MARK(0);
  ptx::cp_async_16(ptx::shared_address(shared), source, true);
  ptx::cp_async_commit();
  if (wait) ptx::cp_async_wait<0>();
  STROBE_MARK(1);
  *out = *reinterpret_cast<float*>(shared);
  ptx::cp_async_wait<0>();
}

TEST_CASE("a plain read of bytes in flight is caught", "[host-execution]") {
  alignas(16) static const float source[4] = {5, 6, 7, 8};
  static float out;
  const auto with = [](bool wait) {
    return [=] {
      return host::launch(reads_in_flight, 1, 1, 16, reinterpret_cast<const char*>(source), &out,
                          wait);
    };
  };
  test::passes(with(true));
  REQUIRE(out == 5);
  if (!test::instrumented) return;
  test::fails(with(false), {"reads smem+0x0 at %1", "before the cp.async issued at %0"});
}

// ---- workspaces ---------------------------------------------------------------------------------

// Every block writes a partial; the last to arrive sums them. Which step is left out?
enum class Merge { correct, fences, no_barrier, relaxed };

__global__ void last_block_sums(float* workspace, uint32_t* counter, float* out, Merge merge) {
  STROBE_DYNAMIC_SHARED(shared);
  uint32_t* arrived = reinterpret_cast<uint32_t*>(shared);
  float* mine = workspace + blockIdx.x * blockDim.x;
  STROBE_MARK(0);
  mine[threadIdx.x] = static_cast<float>(blockIdx.x + 1);
  if (merge != Merge::no_barrier) __syncthreads();
  if (threadIdx.x == 0) {
    if (merge == Merge::fences) __threadfence();
    if (merge == Merge::relaxed || merge == Merge::fences) {
      arrived[0] = atomicInc(counter, gridDim.x - 1);
    } else {
      arrived[0] = ptx::atomic_inc_acq_rel(counter, gridDim.x - 1);
    }
    if (merge == Merge::fences) __threadfence();
  }
  __syncthreads();
  if (arrived[0] != gridDim.x - 1) return;
  float sum = 0;
  for (unsigned b = 0; b < gridDim.x; ++b) {
    STROBE_MARK(1);
    sum += workspace[b * blockDim.x + threadIdx.x];
  }
  out[threadIdx.x] = sum;
}

auto launch_merge(Merge merge, int blocks = 6) {
  return [=] {
    std::vector<float> workspace(static_cast<size_t>(blocks) * 64), out(64);
    uint32_t counter = 0;
    const host::ScopedTracking floats(workspace.data(), workspace.size() * 4);
    const host::ScopedTracking counters(&counter, 4);
    const cudaError_t error = host::launch(last_block_sums, static_cast<unsigned>(blocks), 64, 8,
                                           workspace.data(), &counter, out.data(), merge);
    if (error == cudaSuccess) {
      REQUIRE(counter == 0);
      for (float x : out) REQUIRE(x == static_cast<float>(blocks * (blocks + 1) / 2));
    }
    return error;
  };
}

TEST_CASE("a merge in the last-arriving block passes", "[host-execution]") {
  test::passes(launch_merge(Merge::correct));
  test::passes(launch_merge(Merge::fences));
  for (int resident : {1, 2, 16}) {
    host::Options options;
    options.order = host::Order::random;
    options.resident_blocks = resident;
    options.check_races = true;
    test::passes(launch_merge(Merge::correct, 11), {options});
  }
}

TEST_CASE("a last-arriving block without acquire and release is caught", "[host-execution]") {
  if (!test::instrumented) return;
  test::fails(launch_merge(Merge::relaxed), {"global-memory race (read after write)", "%0", "%1"});
}

TEST_CASE("a publishing block without its barrier is caught", "[host-execution]") {
  if (!test::instrumented) return;
  test::fails(launch_merge(Merge::no_barrier), {"global-memory race", "%0", "%1"});
}

__global__ void acquires_too_late(uint32_t* flag, float* data, float* out, bool barrier) {
  if (blockIdx.x == 0) {
    if (threadIdx.x == 0) {
      STROBE_MARK(0);
      *data = 3;
      ptx::store_release(flag, 1);
    }
    return;
  }
  if (threadIdx.x == 0) {
    while (ptx::load_acquire(flag) == 0) ptx::spin_pause();
  }
  if (barrier) __syncthreads();
  STROBE_MARK(1);
  if (threadIdx.x == 5) *out = *data;
}

TEST_CASE("a receiving block without its barrier is caught", "[host-execution]") {
  const auto with = [](bool barrier) {
    return [=] {
      uint32_t flag = 0;
      float data = 0, out = 0;
      const host::ScopedTracking tracking(&data, 4);
      const cudaError_t error =
          host::launch(acquires_too_late, 2, 32, 0, &flag, &data, &out, barrier);
      if (error == cudaSuccess) REQUIRE(out == 3);
      return error;
    };
  };
  test::passes(with(true));
  if (!test::instrumented) return;
  test::fails(with(false), {"global-memory race", "%0", "%1"});
}

__global__ void overlapping_outputs(float* out, unsigned stride) {
  STROBE_MARK(0);
  out[blockIdx.x * stride + threadIdx.x] = 1;
}

TEST_CASE("blocks that write the same output are caught", "[host-execution]") {
  const auto with = [](unsigned stride) {
    return [=] {
      std::vector<float> out(256);
      const host::ScopedTracking tracking(out.data(), out.size() * 4);
      return host::launch(overlapping_outputs, 4, 32, 0, out.data(), stride);
    };
  };
  test::passes(with(32));
  if (!test::instrumented) return;
  test::fails(with(31), {"global-memory race (write after write)", "at %0", "; block ("});
  // A block that starts in the place of a finished one is no later than it.
  host::Options one_at_a_time;
  one_at_a_time.resident_blocks = 1;
  one_at_a_time.check_races = true;
  test::fails(with(31), {"global-memory race (write after write)", "%0"}, {one_at_a_time});
}

// A wrapper's access to tracked memory is seen without instrumentation.
__global__ void copies_from_workspace(char* workspace) {
  STROBE_DYNAMIC_SHARED(shared);
  STROBE_MARK(0);
  if (blockIdx.x == 0) atomicAdd(reinterpret_cast<unsigned*>(workspace), 1u);
  if (blockIdx.x != 0) {
    STROBE_MARK(1);
    ptx::cp_async_16(ptx::shared_address(shared), workspace, true);
    ptx::cp_async_commit();
    ptx::cp_async_wait<0>();
  }
}

TEST_CASE("cp.async from a workspace that another block changes is caught", "[host-execution]") {
  test::fails(
      [] {
        alignas(16) static char workspace[16];
        const host::ScopedTracking tracking(workspace, 16);
        return host::launch(copies_from_workspace, 2, 1, 16, workspace);
      },
      {"global-memory race", "%0", "%1"});
}

TEST_CASE("untracked memory is not checked", "[host-execution]") {
  test::passes([] {
    std::vector<float> out(256);
    { const host::ScopedTracking tracking(out.data(), out.size() * 4); }
    return host::launch(overlapping_outputs, 4, 32, 0, out.data(), 31u);
  });
}

}  // namespace
