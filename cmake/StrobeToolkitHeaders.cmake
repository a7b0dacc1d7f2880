# SPDX-License-Identifier: MIT
# CUDA::toolkit and CUDA::cudart_static for the host-only build. find_package(CUDAToolkit) wants nvcc; a
# machine that only runs kernels on the CPU needs just the toolkit's headers (cuda_fp16.h and friends).
find_package(CUDAToolkit 12.8 QUIET GLOBAL)
if(CUDAToolkit_FOUND)
  return()
endif()

set(toolkit_places ${CUDAToolkit_ROOT} $ENV{CUDAToolkit_ROOT} $ENV{CUDA_HOME} $ENV{CUDA_PATH} /usr/local/cuda)
find_path(STROBE_CUDA_INCLUDE_DIR cuda_runtime_api.h HINTS ${toolkit_places} PATH_SUFFIXES include)
if(NOT STROBE_CUDA_INCLUDE_DIR)
  message(FATAL_ERROR "strobe: neither nvcc nor the CUDA headers were found. Install the CUDA toolkit (12.8 or "
    "newer), or only its headers, and set CUDAToolkit_ROOT to the folder that holds include/cuda_runtime_api.h.")
endif()
file(STRINGS "${STROBE_CUDA_INCLUDE_DIR}/cuda_runtime_api.h" cudart_version REGEX "^#define CUDART_VERSION +[0-9]+")
string(REGEX REPLACE ".* ([0-9]+).*" "\\1" cudart_version "${cudart_version}")
if(cudart_version LESS 12080)
  message(FATAL_ERROR "strobe: the CUDA headers in ${STROBE_CUDA_INCLUDE_DIR} are version ${cudart_version}; 12080 is needed")
endif()

add_library(CUDA::toolkit IMPORTED INTERFACE GLOBAL)
target_include_directories(CUDA::toolkit SYSTEM INTERFACE "${STROBE_CUDA_INCLUDE_DIR}")

# The runtime library is linked where it exists; host execution does without.
add_library(CUDA::cudart_static IMPORTED INTERFACE GLOBAL)
find_library(STROBE_CUDART_STATIC cudart_static HINTS ${toolkit_places} PATH_SUFFIXES lib64 lib)
if(STROBE_CUDART_STATIC)
  find_package(Threads REQUIRED)
  target_link_libraries(CUDA::cudart_static INTERFACE
    "${STROBE_CUDART_STATIC}" Threads::Threads ${CMAKE_DL_LIBS} rt)
endif()
