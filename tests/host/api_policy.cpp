// SPDX-License-Identifier: MIT
// The default tiles of every compiled pair of widths fit the smallest supported cards. Compile-time
// numbers alone: no kernel is instantiated.
#include <cuda_fp16.h>

#include <catch2/catch_test_macros.hpp>
#include <utility>

#include "strobe/kernel/prefill_sm80.cuh"

namespace {

constexpr int widths[] = {32, 64, 96, 128, 192, 256};
constexpr int count = sizeof widths / sizeof widths[0];

template <int HeadDim, int ValueDim, class Policy>
void check_pair() {
  using Attention = strobe::Attention<__half, HeadDim, strobe::Full, strobe::Strided<__half>,
                                      strobe::NoScore, ValueDim, __half, Policy>;
  using Kernel = strobe::kernel::PrefillSm80<Attention>;
  constexpr strobe::PrefillTile tile = Policy::prefill(strobe::Family::sm80, HeadDim, ValueDim);
  CAPTURE(HeadDim, ValueDim, tile.block_q, tile.block_kv, tile.warps);

  CHECK(Kernel::shared_bytes <= 99 * 1024);
  CHECK(Kernel::threads <= 1024);
  CHECK(Kernel::threads == 32 * tile.warps);
  CHECK(tile.block_q % tile.warps == 0);
  CHECK((Kernel::warp_rows == 16 || Kernel::warp_rows == 32));
  CHECK(tile.block_kv % 16 == 0);
  CHECK(tile.block_q >= 16);
  CHECK(tile.blocks_per_sm >= 1);
  // Q, and at least one buffer of K and of V, of 16-bit elements.
  CHECK(Kernel::shared_bytes >=
        2 * (tile.block_q * HeadDim + tile.block_kv * (HeadDim + ValueDim)));
  CHECK(Kernel::threads * tile.blocks_per_sm <= 1536);  // what an SM of sm_86 and sm_89 holds
}

template <class Policy, int... Pair>
void check_all(std::integer_sequence<int, Pair...>) {
  (check_pair<widths[Pair / count], widths[Pair % count], Policy>(), ...);
}

}  // namespace

TEST_CASE("default tiles fit for every pair of compiled widths", "[cpu][policy]") {
  check_all<strobe::DefaultPolicy>(std::make_integer_sequence<int, count * count>{});
}

TEST_CASE("split_p has the same tiles", "[cpu][policy]") {
  check_all<strobe::SplitPPolicy>(std::make_integer_sequence<int, count * count>{});
  STATIC_CHECK(strobe::SplitPPolicy::precision == strobe::Precision::split_p);
  STATIC_CHECK(strobe::DefaultPolicy::precision == strobe::Precision::standard);
}

TEST_CASE("no width asks for a tile larger than a smaller width's", "[cpu][policy]") {
  for (int i = 1; i < count; ++i) {
    const auto narrow =
        strobe::DefaultPolicy::prefill(strobe::Family::sm80, widths[i - 1], widths[i - 1]);
    const auto wide = strobe::DefaultPolicy::prefill(strobe::Family::sm80, widths[i], widths[i]);
    CHECK(wide.block_q <= narrow.block_q);
    CHECK(wide.block_kv <= narrow.block_kv);
  }
}
