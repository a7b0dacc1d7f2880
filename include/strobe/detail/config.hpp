// SPDX-License-Identifier: MIT
// The library's few macros. Layer: below everything; includes nothing but the version.
#pragma once

#include "../version.hpp"

// STROBE_HOST_EXECUTION 1: kernels are compiled by the host compiler and run on the CPU
// (include/strobe/host).
#if !defined(STROBE_HOST_EXECUTION)
#define STROBE_HOST_EXECUTION 0
#endif

#if STROBE_HOST_EXECUTION && defined(__CUDACC__)
#error "strobe: STROBE_HOST_EXECUTION is for the host compiler; build this file without nvcc"
#endif

#if defined(__CUDACC__) && !defined(__CUDACC_RTC__)
#if __CUDACC_VER_MAJOR__ < 12 || (__CUDACC_VER_MAJOR__ == 12 && __CUDACC_VER_MINOR__ < 8)
#error "strobe needs CUDA 12.8 or newer"
#endif
#endif

#if !defined(__CUDACC_RTC__) && __cplusplus < 201703L && \
    !(defined(_MSVC_LANG) && _MSVC_LANG >= 201703L)
#error "strobe needs C++17 or newer"
#endif

// Functions that masks, scores and schedules offer to kernels and to host tests alike.
#if defined(__CUDACC__)
#define STROBE_HOST_DEVICE __host__ __device__ __forceinline__
#define STROBE_DEVICE __device__ __forceinline__
#else
#define STROBE_HOST_DEVICE inline
#define STROBE_DEVICE inline
#endif

// The device pass of a build for compute capability 8.0 or newer, or host execution: the portable
// kernels' instructions exist. Kernels branch on this and never on __CUDA_ARCH__.
#if STROBE_HOST_EXECUTION || (defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800)
#define STROBE_HAS_SM80 1
#else
#define STROBE_HAS_SM80 0
#endif

// The device pass of a build for 9.0a (the `a` is what unlocks wgmma and setmaxnreg), or host
// execution: Hopper's instructions exist.
#if STROBE_HOST_EXECUTION || defined(__CUDA_ARCH_FEAT_SM90_ALL)
#define STROBE_HAS_SM90A 1
#else
#define STROBE_HAS_SM90A 0
#endif

#define STROBE_TEXT_OF_(...) #__VA_ARGS__
#define STROBE_TEXT_OF(...) STROBE_TEXT_OF_(__VA_ARGS__)

// For nvcc's device pass: the host compiler would warn of a pragma it does not know.
#if defined(__CUDA_ARCH__)
#define STROBE_UNROLL _Pragma("unroll")
#define STROBE_UNROLL_BY(n) _Pragma(STROBE_TEXT_OF(unroll n))
#else
#define STROBE_UNROLL
#define STROBE_UNROLL_BY(n)
#endif

// Code that only nvcc's device pass can compile (intrinsics) sits behind this, with a plain C++
// twin for the host.
#if defined(__CUDA_ARCH__)
#define STROBE_DEVICE_PASS 1
#else
#define STROBE_DEVICE_PASS 0
#endif
