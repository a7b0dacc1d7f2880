// SPDX-License-Identifier: MIT
// The default tiles of every compiled pair of widths fit the smallest supported cards. Compile-time
// numbers alone: no kernel is instantiated.
#include <cuda_fp16.h>

#include <catch2/catch_test_macros.hpp>
#include <utility>

#include "strobe/kernel/prefill_sm80.cuh"
#include "strobe/kernel/prefill_sm90a.cuh"

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

TEST_CASE("the 9.0 kernel exists for every width, and for what it can do alone", "[cpu][policy]") {
  using strobe::Attention;
  using strobe::Full;
  using strobe::NoScore;
  using strobe::Strided;
  using strobe::kernel::PrefillSm90a;
  STATIC_CHECK(PrefillSm90a<Attention<__half, 32>>::exists);
  STATIC_CHECK(PrefillSm90a<Attention<__half, 64>>::exists);
  STATIC_CHECK(PrefillSm90a<Attention<__half, 96>>::exists);
  STATIC_CHECK(PrefillSm90a<Attention<__nv_bfloat16, 128>>::exists);
  STATIC_CHECK(PrefillSm90a<Attention<__half, 192>>::exists);
  STATIC_CHECK(PrefillSm90a<Attention<__half, 256>>::exists);
  using Narrow = Attention<__half, 192, Full, Strided<__half>, NoScore, 128>;
  STATIC_CHECK(PrefillSm90a<Narrow>::exists);
  using Wide = Attention<__half, 64, Full, Strided<__half>, NoScore, 256>;
  STATIC_CHECK(PrefillSm90a<Wide>::exists);
  STATIC_CHECK_FALSE(PrefillSm90a<Attention<__half, 64, Full, strobe::Paged<__half>>>::exists);
  using Split =
      Attention<__half, 64, Full, Strided<__half>, NoScore, 64, __half, strobe::SplitPPolicy>;
  STATIC_CHECK_FALSE(PrefillSm90a<Split>::exists);
  using Fixed =
      Attention<__half, 64, Full, Strided<__half>, NoScore, 64, __half, strobe::FixedPolicy<>>;
  STATIC_CHECK_FALSE(PrefillSm90a<Fixed>::exists);
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
