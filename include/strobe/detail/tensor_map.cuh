// SPDX-License-Identifier: MIT
// Tensor maps: what TMA is told of a tensor. Layer: detail, host side of .cuh files. The driver's
// encoder is found at run time, so that nothing links libcuda; under host execution the map is our
// own description, which host/src/tma.cpp reads.
#pragma once

#include "../ptx/tma.cuh"
#include "launch.cuh"
#if !STROBE_HOST_EXECUTION
#include <cuda.h>
#endif

namespace strobe {
inline namespace STROBE_ABI {
namespace detail {

/// A tensor of 16-bit elements, the contiguous dimension first; the box's rows have at most 64
/// elements and get the 128-byte swizzle. Elements outside of the extents read as zero.
struct TensorMapShape {
  const void* base;           ///< 16-byte aligned
  int rank;                   ///< 2 to 5
  uint64_t extents[5];        ///< 1 to 2^32
  uint64_t strides_bytes[4];  ///< of dimensions 1, 2, ..: multiples of 16, below 2^40
  uint32_t box[5];            ///< 1 to 256
};

/// Encodes `shape`. unsupported where TMA cannot describe it, or where the driver has no encoder.
static inline Status encode_tensor_map(ptx::TensorMap& map, const TensorMapShape& shape) noexcept {
#if STROBE_HOST_EXECUTION
  return host::encode_tensor_map(map.words, sizeof map.words, shape.base, shape.rank, shape.extents,
                                 shape.strides_bytes, shape.box)
             ? Status{}
             : unsupported() << "TMA cannot describe the tensor at " << shape.base;
#else
  static_assert(sizeof(CUtensorMap) == sizeof(ptx::TensorMap), "the same object");
  using Encode =
      CUresult (*)(CUtensorMap*, CUtensorMapDataType, cuuint32_t, void*, const cuuint64_t*,
                   const cuuint64_t*, const cuuint32_t*, const cuuint32_t*, CUtensorMapInterleave,
                   CUtensorMapSwizzle, CUtensorMapL2promotion, CUtensorMapFloatOOBfill);
  // Found once; threads that race find the same.
  static std::atomic<Encode> found{nullptr};
  Encode encode = found.load(std::memory_order_acquire);
  if (encode == nullptr) {
    void* function = nullptr;
    cudaDriverEntryPointQueryResult result = cudaDriverEntryPointSymbolNotFound;
    const cudaError_t error = cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &function,
                                                               12000, cudaEnableDefault, &result);
    if (error != cudaSuccess) return cuda_failure("cudaGetDriverEntryPointByVersion", error);
    if (result != cudaDriverEntryPointSuccess || function == nullptr)
      return unsupported() << "the driver has no cuTensorMapEncodeTiled";
    encode = reinterpret_cast<Encode>(function);
    found.store(encode, std::memory_order_release);
  }
  const cuuint32_t element_strides[5] = {1, 1, 1, 1, 1};
  cuuint64_t extents[5], strides[4];
  cuuint32_t box[5];
  for (int d = 0; d < shape.rank; ++d) {
    extents[d] = shape.extents[d];
    box[d] = shape.box[d];
    if (d > 0) strides[d - 1] = shape.strides_bytes[d - 1];
  }
  const CUresult result =
      encode(reinterpret_cast<CUtensorMap*>(&map), CU_TENSOR_MAP_DATA_TYPE_UINT16,
             cuuint32_t(shape.rank), const_cast<void*>(shape.base), extents, strides, box,
             element_strides, CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_128B,
             CU_TENSOR_MAP_L2_PROMOTION_L2_256B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  return result == CUDA_SUCCESS ? Status{}
                                : unsupported()
                                      << "TMA cannot describe the tensor at " << shape.base
                                      << " (cuTensorMapEncodeTiled: " << int(result) << ")";
#endif
}

}  // namespace detail
}  // namespace STROBE_ABI
}  // namespace strobe
