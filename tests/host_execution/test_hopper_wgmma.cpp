// SPDX-License-Identifier: MIT
// Misused products of warpgroups: each is reported with its place under every schedule.
#include <cmath>

#include "strobe/ptx/shared.cuh"
#include "strobe/ptx/stmatrix.cuh"
#include "strobe/ptx/tma.cuh"
#include "strobe/ptx/wgmma.cuh"
#include "support.hpp"

namespace {

namespace host = strobe::host;
namespace ptx = strobe::ptx;

enum class Product {
  whole,
  no_proxy_fence,
  overwritten_operand,
  no_wgmma_fence,
  touched,
  leave,
  two_places,
  lane_operands,
  warp_operands,
  a_warp_less,
  misaligned,
  outside,
  other_columns,
};

// A and B: the same 64 rows of ones.
__global__ void multiplies(Product product, float* out) {
  STROBE_DYNAMIC_SHARED(shared);
  uint32_t tile = ptx::shared_address(shared);
  const uint32_t t = threadIdx.x;
  const uint32_t ones[4] = {0x3c003c00u, 0x3c003c00u, 0x3c003c00u, 0x3c003c00u};
  STROBE_MARK(1);
  for (uint32_t i = 0; i < 4; ++i) ptx::stmatrix_x4(tile + i * 2048 + t * 16, ones);
  if (product != Product::no_proxy_fence) ptx::fence_proxy_async();
  __syncthreads();

  float d[8][4] = {};
  if (product == Product::misaligned) tile += 128;
  if (product == Product::outside) tile += 1024;
  uint64_t a = ptx::wgmma_operand(tile), b = a;
  if (product == Product::lane_operands && t == 77) b += 2;
  if (product == Product::warp_operands && t / 32 == 2) b += 2;
  if (product == Product::a_warp_less && t / 32 == 1) return;
  if (product != Product::no_wgmma_fence) ptx::wgmma_fence();
  if (product == Product::two_places && t / 32 == 3) {
    STROBE_MARK(2);
    ptx::wgmma<__half, false>(d, a, b, true);
  } else {
    STROBE_MARK(0);
    ptx::wgmma<__half, false>(d, a, b, true);
  }
  if (product == Product::other_columns) {
    STROBE_MARK(2);
    ptx::wgmma<__half, false>(reinterpret_cast<float(&)[4][4]>(d), a, b, true);
  }
  ptx::wgmma_commit();
  if (product == Product::touched) d[3][1] = 1;
  STROBE_MARK(3);
  if (product == Product::overwritten_operand) ptx::stmatrix_x4(tile + t * 16, ones);
  if (product == Product::leave) return;
  ptx::wgmma_wait<0>(d);
  for (uint32_t c = 0; c < 8; ++c) {
    for (uint32_t i = 0; i < 4; ++i) out[(c * 4 + i) * 128 + t] = d[c][i];
  }
}

auto launch_multiplies(Product product, unsigned threads = 128) {
  return [=] {
    std::vector<float> out(32 * 128);
    const cudaError_t error = host::launch(multiplies, 1, threads, 8192, product, out.data());
    for (size_t i = 0; i < out.size() && error == cudaSuccess; ++i) REQUIRE(out[i] == 16.0f);
    return error;
  };
}

TEST_CASE("misused products are caught", "[host-execution]") {
  for (bool races : {true, false}) {
    const auto all = test::schedules(races);
    test::passes(launch_multiplies(Product::whole), all);
    test::fails(launch_multiplies(Product::no_wgmma_fence), {"wgmma at %0: no wgmma_fence"}, all);
    test::fails(launch_multiplies(Product::touched),
                {"accumulators were written between the wgmma at %0 and its wait"}, all);
    test::fails(launch_multiplies(Product::leave),
                {"exits before the wgmma issued at %0 has been waited for"}, all);
    test::fails(launch_multiplies(Product::two_places), {"divergent warpgroup", "%0", "%2"}, all);
    test::fails(launch_multiplies(Product::lane_operands),
                {"divergent warpgroup: wgmma.mma_async at %0 with other operands than other lanes "
                 "issued at %0"},
                all);
    test::fails(launch_multiplies(Product::warp_operands),
                {"divergent warpgroup: wgmma.mma_async at %0 with other operands than another warp "
                 "issued at %0"},
                all);
    test::fails(launch_multiplies(Product::a_warp_less), {"warp", "exit", "wgmma"}, all);
    test::fails(launch_multiplies(Product::misaligned), {"wgmma at %0: descriptor", "of B"}, all);
    test::fails(launch_multiplies(Product::outside), {"wgmma's B at %0", "outside the block's"},
                all);
    test::fails(launch_multiplies(Product::other_columns),
                {"wgmma at %2", "another number of columns since %0"}, all);
    test::fails(launch_multiplies(Product::whole, 64), {"warp", "is not in a warpgroup"}, all);
  }
}

TEST_CASE("operands that the async proxy has not been told of are caught", "[host-execution]") {
  test::fails(launch_multiplies(Product::no_proxy_fence),
              {"the async proxy reads smem+0x", "at %0, but thread", "which wrote it at %1",
               "no fence.proxy.async since"});
}

TEST_CASE("an operand overwritten before the wait is caught", "[host-execution]") {
  test::fails(
      launch_multiplies(Product::overwritten_operand),
      {"shared-memory race (write after read)", "%3", "a wgmma not waited for, issued at %0"});
}

// Two groups in flight on different accumulators: a wait for the older one delivers it alone.
__global__ void keeps_one_in_flight(float* out) {
  STROBE_DYNAMIC_SHARED(shared);
  const uint32_t tile = ptx::shared_address(shared), t = threadIdx.x;
  const uint32_t ones[4] = {0x3c003c00u, 0x3c003c00u, 0x3c003c00u, 0x3c003c00u};
  for (uint32_t i = 0; i < 4; ++i) ptx::stmatrix_x4(tile + i * 2048 + t * 16, ones);
  ptx::fence_proxy_async();
  __syncthreads();
  const uint64_t operand = ptx::wgmma_operand(tile);
  float d[2][4], e[2][4];
  for (auto& registers : d) {
    for (float& x : registers) x = 5;
  }
  ptx::wgmma_fence();
  ptx::wgmma<__half, true>(d, ones, operand, true);
  ptx::wgmma_commit();
  ptx::wgmma<__half, true>(e, ones, operand, false);
  ptx::wgmma<__half, true>(e, ones, operand, true);
  ptx::wgmma_commit();
  ptx::wgmma_wait<1>(d);
  out[t] = d[1][3];
  out[128 + t] = e[1][3];
  ptx::wgmma_wait<0>(e);
  out[256 + t] = e[1][3];
}

TEST_CASE("groups are delivered one by one", "[host-execution]") {
  test::passes([] {
    std::vector<float> out(3 * 128);
    const cudaError_t error = host::launch(keeps_one_in_flight, 1, 128, 8192, out.data());
    for (size_t t = 0; t < 128; ++t) {
      REQUIRE(out[t] == 21.0f);
      REQUIRE(std::isnan(out[128 + t]));
      REQUIRE(out[256 + t] == 32.0f);
    }
    return error;
  });
}

}  // namespace
