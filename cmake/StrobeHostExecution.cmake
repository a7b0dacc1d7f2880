# SPDX-License-Identifier: MIT
# Kernels on the CPU: tests that need the CUDA toolkit's headers, but no nvcc, no GPU and no libcudart.
#
#   strobe_add_host_test(<name> SOURCES <file>... [SANITIZE address|races] [LIBRARIES <target>...])
#
# Makes an executable from .cpp and .cu files, all compiled by the C++ compiler with STROBE_HOST_EXECUTION=1, and
# links the host runtime. It does not call add_test: the test library at hand knows best how.
#
#   SANITIZE address   AddressSanitizer and UndefinedBehaviorSanitizer: overruns and misaligned vectors
#   SANITIZE races     plain loads and stores of your files are reported to the race checker, too, which is
#                      then on by default (Options::check_races, STROBE_HOST_RACES)
#
# Works from the build tree, and after find_package(strobe-attention). The headers of the toolkit come from
# CUDA::toolkit, from CUDAToolkit_INCLUDE_DIRS, or from STROBE_CUDA_INCLUDE_DIR, the first that is there.

# include/ lies beside cmake/ in the sources, three folders up in an install tree (share/cmake/strobe-attention),
# two where vcpkg has moved it to share/strobe-attention.
function(strobe_host_include_dir out)
  foreach(candidate IN ITEMS ../include ../../include ../../../include)
    get_filename_component(include_dir "${CMAKE_CURRENT_FUNCTION_LIST_DIR}/${candidate}" ABSOLUTE)
    if(EXISTS "${include_dir}/strobe/host/execution.hpp")
      set(${out} "${include_dir}" PARENT_SCOPE)
      return()
    endif()
  endforeach()
  message(FATAL_ERROR "strobe: no include/strobe/host beside or above ${CMAKE_CURRENT_FUNCTION_LIST_DIR}")
endfunction()

# The runtime's library for one kind of build, made when it is first asked for.
function(strobe_host_runtime sanitize out)
  set(target strobe_host_runtime)
  if(sanitize)
    string(APPEND target "_${sanitize}")
  endif()
  set(${out} ${target} PARENT_SCOPE)
  if(TARGET ${target})
    return()
  endif()

  strobe_host_include_dir(include_dir)
  file(GLOB sources CONFIGURE_DEPENDS "${include_dir}/strobe/host/src/*.cpp")
  if(NOT sources)
    message(FATAL_ERROR "strobe: the host runtime's sources are not in ${include_dir}/strobe/host/src")
  endif()
  if(NOT sanitize STREQUAL "races")
    list(FILTER sources EXCLUDE REGEX "/tsan_hooks\\.cpp$")
  endif()

  if(TARGET CUDA::toolkit)
    set(cuda_include_dirs "$<TARGET_PROPERTY:CUDA::toolkit,INTERFACE_INCLUDE_DIRECTORIES>")
  elseif(CUDAToolkit_INCLUDE_DIRS)
    set(cuda_include_dirs "${CUDAToolkit_INCLUDE_DIRS}")
  elseif(STROBE_CUDA_INCLUDE_DIR)
    set(cuda_include_dirs "${STROBE_CUDA_INCLUDE_DIR}")
  else()
    message(FATAL_ERROR "strobe: host execution needs the CUDA toolkit's headers; set STROBE_CUDA_INCLUDE_DIR")
  endif()

  find_package(Threads REQUIRED)
  add_library(${target} STATIC EXCLUDE_FROM_ALL ${sources})
  target_compile_features(${target} PUBLIC cxx_std_17)
  target_compile_definitions(${target} PUBLIC STROBE_HOST_EXECUTION=1)
  target_include_directories(${target} PUBLIC "${include_dir}")
  target_include_directories(${target} SYSTEM PUBLIC "${cuda_include_dirs}")
  target_link_libraries(${target} PUBLIC Threads::Threads ${CMAKE_DL_LIBS})
  # Kernels are full of `#pragma unroll`.
  # -Wno-psabi: a note of GCC about parameters aligned to 64 bytes, as tensor maps are.
  target_compile_options(${target} PUBLIC -Wno-unknown-pragmas -Wno-psabi)
  # Optimised even in a Debug build: your kernels are what you debug, and the emulation is most of the time.
  target_compile_options(${target} PRIVATE -O2 -g)
  if(sanitize STREQUAL "address")
    set(flags -fsanitize=address,undefined -fno-sanitize-recover=undefined -fno-omit-frame-pointer)
    target_compile_options(${target} PUBLIC ${flags} -g)
    target_link_options(${target} PUBLIC ${flags})
  elseif(sanitize STREQUAL "races")
    # Users of the runtime, not the runtime itself; and no -fsanitize=thread for the linker, which would bring libtsan.
    target_compile_options(${target} INTERFACE -fsanitize=thread -g)
  elseif(sanitize)
    message(FATAL_ERROR "strobe_add_host_test: SANITIZE is address or races, not ${sanitize}")
  endif()
endfunction()

function(strobe_add_host_test name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "SANITIZE" "SOURCES;LIBRARIES")
  if(arg_UNPARSED_ARGUMENTS OR NOT arg_SOURCES)
    message(FATAL_ERROR "strobe_add_host_test(<name> SOURCES <file>... [SANITIZE address|races] [LIBRARIES <target>...])")
  endif()
  strobe_host_runtime("${arg_SANITIZE}" runtime)

  # A .cu file is included by a .cpp of its own: its LANGUAGE property would hold for CUDA targets of the folder, too.
  set(sources)
  foreach(source IN LISTS arg_SOURCES)
    get_filename_component(source "${source}" ABSOLUTE)
    if(source MATCHES "\\.cu$")
      get_filename_component(stem "${source}" NAME)
      set(wrapper "${CMAKE_CURRENT_BINARY_DIR}/${name}.host/${stem}.cpp")
      file(CONFIGURE OUTPUT "${wrapper}" CONTENT "#include \"@source@\"\n" @ONLY)
      set(source "${wrapper}")
    endif()
    list(APPEND sources "${source}")
  endforeach()
  add_executable(${name} ${sources})
  target_link_libraries(${name} PRIVATE ${runtime} ${arg_LIBRARIES})
endfunction()
