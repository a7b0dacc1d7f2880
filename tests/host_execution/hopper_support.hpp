// SPDX-License-Identifier: MIT
// What the tests of Hopper's instructions share: tensors of rows of 64 elements and their maps.
#pragma once

#include <vector>

#include "strobe/detail/tensor_map.cuh"
#include "support.hpp"

namespace test {

inline strobe::ptx::TensorMap map_of(const void* base, uint64_t rows, uint32_t box_rows,
                                     uint64_t columns = 64) {
  strobe::detail::TensorMapShape shape{};
  shape.base = base;
  shape.rank = 2;
  shape.extents[0] = columns;
  shape.extents[1] = rows;
  shape.strides_bytes[0] = columns * 2;
  shape.box[0] = 64;
  shape.box[1] = box_rows;
  strobe::ptx::TensorMap map{};
  REQUIRE(strobe::detail::encode_tensor_map(map, shape).ok());
  return map;
}

// 16-byte aligned, as TMA wants it.
struct alignas(16) Rows {
  explicit Rows(size_t rows, uint16_t value = 0) : elements(rows * 64, value) {}
  std::vector<uint16_t> elements;
};

}  // namespace test
