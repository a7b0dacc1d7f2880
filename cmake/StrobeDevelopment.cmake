# SPDX-License-Identifier: MIT
# What strobe's own tests, benchmarks and examples share: nvcc, warnings, and where Catch2 and Google
# Benchmark come from. Projects that only use strobe never read this file.

option(STROBE_WARNINGS_AS_ERRORS "Treat warnings in strobe's own programs as errors" OFF)
option(STROBE_FETCH_DEPENDENCIES "Download Catch2 and Google Benchmark when they are not installed" OFF)

if(NOT CMAKE_BUILD_TYPE AND NOT CMAKE_CONFIGURATION_TYPES)
  set(CMAKE_BUILD_TYPE Release)  # kernels without optimisation are hundreds of times slower
endif()

if(STROBE_ENABLE_CUDA)
  # Two front-end passes and one ptxas run, the least that runs on every supported GPU: compute capability 9.0
  # takes the sm_90a code (the only kind that can hold wgmma), everything else from 8.0 up compiles the
  # compute_80 PTX when the program starts. An a-suffixed PTX would run nowhere else, hence -real.
  if(NOT DEFINED CMAKE_CUDA_ARCHITECTURES)
    set(CMAKE_CUDA_ARCHITECTURES "90a-real;80-virtual")
  endif()
  enable_language(CUDA)
endif()

# The warnings that users may have switched on. Not -Wpedantic: nvcc's own line directives break it.
add_library(strobe_warnings INTERFACE)
set(gcc_warnings -Wall -Wextra -Wconversion -Wshadow)
list(JOIN gcc_warnings "," nvcc_warnings)
target_compile_options(strobe_warnings INTERFACE
  "$<$<COMPILE_LANGUAGE:CXX>:${gcc_warnings}>"
  "$<$<COMPILE_LANGUAGE:CUDA>:-Xcompiler=${nvcc_warnings}>")
if(STROBE_WARNINGS_AS_ERRORS)
  target_compile_options(strobe_warnings INTERFACE
    $<$<COMPILE_LANGUAGE:CXX>:-Werror>
    "$<$<COMPILE_LANGUAGE:CUDA>:SHELL:-Werror all-warnings -Xcompiler=-Werror>")
endif()

# strobe_find(PACKAGE VERSION DEBIAN_PACKAGE GIT_REPOSITORY GIT_TAG): an installed package or, when
# STROBE_FETCH_DEPENDENCIES allows it, a download.
macro(strobe_find package version debian_package repository tag)
  find_package(${package} ${version} QUIET)
  if(${package}_FOUND)
    message(STATUS "strobe: ${package} ${${package}_VERSION} from ${${package}_DIR}")
  elseif(STROBE_FETCH_DEPENDENCIES)
    message(STATUS "strobe: downloading ${package} ${tag}")
    include(FetchContent)
    FetchContent_Declare(${package} GIT_REPOSITORY ${repository} GIT_TAG ${tag} GIT_SHALLOW ON)
    FetchContent_MakeAvailable(${package})
  else()
    message(FATAL_ERROR "strobe: ${package} ${version} or newer was not found.\n"
      "Debian and Ubuntu: apt-get install ${debian_package} (on Debian 12 Catch2 comes from bookworm-backports; "
      "`bash tests/run.sh` sets that up). Installed elsewhere: -D${package}_ROOT=FOLDER. To let CMake download "
      "it: -DSTROBE_FETCH_DEPENDENCIES=ON. To do without: -DSTROBE_BUILD_TESTS=OFF, -DSTROBE_BUILD_BENCHMARKS=OFF.")
  endif()
endmacro()

macro(strobe_find_catch2)
  strobe_find(Catch2 3.4 libcatch2-dev https://github.com/catchorg/Catch2.git v3.7.1)
  if(catch2_SOURCE_DIR)
    list(APPEND CMAKE_MODULE_PATH "${catch2_SOURCE_DIR}/extras")
  endif()
  include(Catch)
endmacro()

macro(strobe_find_benchmark)
  set(BENCHMARK_ENABLE_TESTING OFF)  # of Google Benchmark itself, when it is downloaded
  strobe_find(benchmark 1.7 libbenchmark-dev https://github.com/google/benchmark.git v1.8.5)
endmacro()
