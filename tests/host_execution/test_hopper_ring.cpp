// SPDX-License-Identifier: MIT
// TMA, mbarrier and wgmma together, in the kernels that run on a GPU, too: right under every
// schedule, and with a fault planted either reported or at least wrong.
#include "device/probe_hopper.cuh"
#include "hopper_support.hpp"

namespace {

namespace host = strobe::host;
namespace ptx = strobe::ptx;
using probe::Ring;
using test::map_of;

// `right`: whether the result is.
template <Ring Plant>
cudaError_t launch_ring(int tiles, bool& right) {
  std::vector<__half> a, b;
  for (int row = 0; row < 64 * tiles; ++row) {
    for (int k = 0; k < 64; ++k) {
      a.push_back(__half(probe::ring_a(row, k)));
      b.push_back(__half(probe::ring_b(row, k)));
    }
  }
  std::vector<float> out(64 * 64, -1.0f);
  const uint64_t rows = static_cast<uint64_t>(tiles) * 64;
  const cudaError_t error =
      host::launch(probe::ring<__half, Plant>, 1, probe::ring_threads, probe::ring_shared_bytes,
                   map_of(a.data(), rows, 64), map_of(b.data(), rows, 64), tiles,
                   reinterpret_cast<uint32_t*>(out.data()));
  right = out == probe::expected_ring(tiles);
  return error;
}

// Reported with one of `reports`, or at least a wrong result.
template <Ring Plant>
void is_noticed(int tiles, const std::vector<std::string>& reports) {
  for (bool races : {true, false}) {
    for (const host::Options& options : test::schedules(races)) {
      const host::ScopedOptions scope(options);
      bool right = false;
      const cudaError_t error = launch_ring<Plant>(tiles, right);
      INFO(test::describe(options) << ", races " << races << ": " << host::failure());
      if (error == cudaSuccess) {
        REQUIRE(!right);
        continue;
      }
      bool known = false;
      for (const std::string& report : reports) {
        known = known || host::failure().find(report) != std::string::npos;
      }
      REQUIRE(known);
      REQUIRE(host::failure().find("device/probe_hopper.cuh:") != std::string::npos);
    }
  }
}

TEST_CASE("a ring of tiles is right under every schedule", "[host-execution]") {
  for (bool races : {true, false}) {
    for (int tiles : {1, 2, 5}) {
      test::passes(
          [&] {
            bool right = false;
            const cudaError_t error = launch_ring<Ring::whole>(tiles, right);
            if (error == cudaSuccess) REQUIRE(right);
            return error;
          },
          test::schedules(races));
    }
  }
}

TEST_CASE("a producer that does not wait for an empty stage is caught", "[host-execution]") {
  is_noticed<Ring::no_empty_wait>(5, {"shared-memory race (write after",
                                      "all 1 arrivals of the phase have come already", "deadlock"});
}

TEST_CASE("a stage given back before its products are complete is caught", "[host-execution]") {
  test::fails(
      [] {
        bool right;
        return launch_ring<Ring::early_arrival>(5, right);
      },
      {"shared-memory race (write after read)", "a wgmma not waited for, issued at device/probe_"});
}

TEST_CASE("a consumer that does not wait for its tile is caught", "[host-execution]") {
  is_noticed<Ring::no_full_wait>(
      5, {"shared-memory race (", "which nobody has written", "the block exits while the TMA load",
          "deadlock", "arrivals of the phase have come already"});
}

TEST_CASE("a wait for the wrong phase is caught", "[host-execution]") {
  is_noticed<Ring::wrong_parity>(
      5, {"shared-memory race (", "which nobody has written", "the block exits while the TMA load",
          "deadlock", "arrivals of the phase have come already"});
}

TEST_CASE("accumulators read before their wait are NaN", "[host-execution]") {
  is_noticed<Ring::early_accumulator>(1, {});
}

TEST_CASE("an mbarrier that nobody arrives at is a deadlock with its place", "[host-execution]") {
  for (bool races : {true, false}) {
    test::fails(
        [] {
          bool right;
          return launch_ring<Ring::no_arrival>(5, right);
        },
        {"deadlock", "warp 4 lanes 0: mbarrier smem+0x10 at device/probe_hopper.cuh:",
         "(parity 0; 4 of 4 arrivals missing, 0 bytes)", "warp 0 lanes 0-31: mbarrier smem+0x0"},
        test::schedules(races));
  }
}

template <class T, bool RowsAlongSum, bool FromRegisters, int N>
void products_pass() {
  test::passes([] {
    std::vector<float> out(64 * N);
    const cudaError_t error = host::launch(probe::products<T, RowsAlongSum, FromRegisters, N / 8>,
                                           1, probe::products_threads,
                                           static_cast<size_t>(probe::products_shared_bytes(N / 8)),
                                           reinterpret_cast<uint32_t*>(out.data()));
    const bool add = probe::products_add(RowsAlongSum, FromRegisters);
    if (error == cudaSuccess) REQUIRE(out == probe::expected_products(N / 8, add));
    return error;
  });
}

TEST_CASE("products are right under every schedule", "[host-execution]") {
  products_pass<__half, false, false, 16>();
  products_pass<__nv_bfloat16, true, false, 80>();
  products_pass<__half, true, true, 176>();
  products_pass<__nv_bfloat16, false, true, 128>();
}

}  // namespace
