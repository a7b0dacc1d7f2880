// SPDX-License-Identifier: MIT
// The CUDA built-ins as the host compiler sees them: keywords, indices, barriers and what lies in
// builtins_*.hpp.
// Layer: host execution. Included through the ptx/ headers; semantics: CUDA C++ Programming Guide,
// "C++ Language Extensions".
//
// `__shared__` variables do not exist here: several blocks run interleaved on one OS thread, so a
// static would be shared between them. Kernels take their shared memory from STROBE_DYNAMIC_SHARED
// (ptx/shared.cuh).
#pragma once

#if defined(__CUDACC__)
#error "strobe: host execution is for the host compiler; do not compile this with nvcc"
#endif

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <vector_functions.h>
#include <vector_types.h>

#include "builtins_atomic.hpp"
#include "builtins_math.hpp"
#include "builtins_warp.hpp"
#include "runtime.hpp"

// The toolkit's headers define the other keywords (__global__, __device__, __grid_constant__ ...)
// to nothing.
#undef __shared__
#define __shared__ strobe_host_execution_has_no_shared_variables_use_STROBE_DYNAMIC_SHARED
#undef __launch_bounds__
#define __launch_bounds__(...)
#undef __cluster_dims__
#define __cluster_dims__(...)

#define threadIdx (::strobe::host::current->thread_index)
#define blockIdx (::strobe::host::current->block_index)
#define blockDim (::strobe::host::current->block_dim)
#define gridDim (::strobe::host::current->grid_dim)
constexpr int warpSize = 32;

// ---- barriers: called by every thread of the block ----------------------------------------------
inline void __syncthreads(strobe::host::Site site = strobe::host::Site::here()) {
  strobe::host::block_barrier(0, "__syncthreads", site);
}
inline int __syncthreads_count(int predicate,
                               strobe::host::Site site = strobe::host::Site::here()) {
  return strobe::host::block_barrier(predicate, "__syncthreads_count", site);
}
inline int __syncthreads_or(int predicate, strobe::host::Site site = strobe::host::Site::here()) {
  return strobe::host::block_barrier(predicate, "__syncthreads_or", site) != 0;
}
inline int __syncthreads_and(int predicate, strobe::host::Site site = strobe::host::Site::here()) {
  return strobe::host::block_barrier(!predicate, "__syncthreads_and", site) == 0;
}

// ---- the rest -----------------------------------------------------------------------------------
template <class T>
inline T __ldg(const T* pointer) {
  return *pointer;
}
inline void __nanosleep(unsigned, strobe::host::Site site = strobe::host::Site::here()) {
  strobe::host::yield(site);
}
[[noreturn]] inline void __trap(strobe::host::Site site = strobe::host::Site::here()) {
  strobe::host::fail("__trap()", site);
}
