// SPDX-License-Identifier: MIT
// The shared-memory layout: nothing collides, ldmatrix meets no bank conflict, and the cheap way to
// move a cursor lands where the full formula does.
#include <catch2/catch_template_test_macros.hpp>
#include <catch2/catch_test_macros.hpp>
#include <set>
#include <vector>

#include "strobe/tile/layout.hpp"

using strobe::tile::chunk_bytes;
using strobe::tile::Swizzled;

#define WIDTHS Swizzled<32>, Swizzled<64>, Swizzled<96>, Swizzled<128>, Swizzled<192>, Swizzled<256>

namespace {
constexpr int rows = 64;
}

TEMPLATE_TEST_CASE("Swizzled is a bijection that keeps a row in its row", "[cpu][layout]", WIDTHS) {
  std::set<uint32_t> seen;
  for (int row = 0; row < rows; ++row)
    for (int chunk = 0; chunk < TestType::chunks; ++chunk) {
      const uint32_t at = TestType::offset(row, chunk);
      REQUIRE(at % chunk_bytes == 0);
      REQUIRE(int(at) / TestType::row_bytes == row);
      REQUIRE(seen.insert(at).second);
    }
  CHECK(int(seen.size()) == rows * TestType::chunks);
  CHECK(TestType::row_bytes == TestType::chunks * chunk_bytes);
}

TEMPLATE_TEST_CASE("the eight rows of an ldmatrix matrix lie in eight bank groups", "[cpu][layout]",
                   WIDTHS) {
  // 32 banks of 4 bytes; a 16-byte row takes four neighbours: eight groups.
  for (int row = 0; row < rows; row += 8)
    for (int chunk = 0; chunk < TestType::chunks; ++chunk) {
      std::set<uint32_t> groups;
      for (int r = 0; r < 8; ++r) groups.insert(TestType::offset(row + r, chunk) % 128 / 16);
      CAPTURE(row, chunk);
      REQUIRE(groups.size() == 8);
    }
}

TEMPLATE_TEST_CASE("a warp's 16-byte stores of whole rows meet no bank conflict either",
                   "[cpu][layout]", WIDTHS) {
  // Eight lanes are served at a time; load_rows_async gives them neighbouring chunks in row order.
  for (int copy = 0; copy < rows * TestType::chunks; copy += 8) {
    std::set<uint32_t> groups;
    for (int i = copy; i < copy + 8; ++i)
      groups.insert(TestType::offset(i / TestType::chunks, i % TestType::chunks) % 128 / 16);
    CAPTURE(copy);
    REQUIRE(groups.size() == 8);
  }
}

TEMPLATE_TEST_CASE("advance equals offset, for every legal step", "[cpu][layout]", WIDTHS) {
  int steps = 0;
  for (int row = 0; row < 16; ++row)
    for (int chunk = 0; chunk < TestType::chunks; ++chunk)
      for (int down = 0; down < rows; down += 8)
        for (int step = 0; step < TestType::chunks; step += 2) {
          if ((chunk & step) != 0 || (chunk ^ step) >= TestType::chunks) continue;
          const uint32_t right = TestType::offset(row + down, chunk ^ step);
          REQUIRE(TestType::advance(TestType::offset(row, chunk), down, step) == right);
          // The same for an address, when the tile starts at a multiple of 128 bytes.
          const uint32_t start = 128 * 37;
          REQUIRE(TestType::advance(start + TestType::offset(row, chunk), down, step) ==
                  start + right);
          ++steps;
        }
  CHECK(steps > 0);
}

TEMPLATE_TEST_CASE("advance reaches every chunk pair a kernel reads", "[cpu][layout]", WIDTHS) {
  // The kernels' cursors stand at chunk 0 or 1 and step by 2 * d: both halves of every 16 columns.
  for (int half : {0, 1})
    for (int d = 0; d < TestType::chunks / 2; ++d)
      for (int row = 0; row < 16; ++row)
        REQUIRE(TestType::advance(TestType::offset(row, half), 0, 2 * d) ==
                TestType::offset(row, 2 * d + half));
}
