# SPDX-License-Identifier: MIT
# vcpkg's functions, as much of them as the port uses: cmake -DPORT=.. -DPORTFILE=.. -DCURRENT_PACKAGES_DIR=..
# -DCURRENT_BUILDTREES_DIR=.. -DCMAKE_CXX_COMPILER=.. -P vcpkg.cmake
cmake_minimum_required(VERSION 3.24)

function(run)
  execute_process(COMMAND ${ARGN} OUTPUT_VARIABLE output ERROR_VARIABLE output RESULT_VARIABLE status)
  # An option that the project does not have is only a warning to CMake.
  if(status OR output MATCHES "Manually-specified variables were not used")
    message(FATAL_ERROR "${ARGN}:\n${output}")
  endif()
endfunction()

function(vcpkg_cmake_configure)
  cmake_parse_arguments(PARSE_ARGV 0 arg "" "SOURCE_PATH" "OPTIONS")
  run("${CMAKE_COMMAND}" -S "${arg_SOURCE_PATH}" -B "${CURRENT_BUILDTREES_DIR}" --fresh
    "-DCMAKE_CXX_COMPILER=${CMAKE_CXX_COMPILER}" "-DCMAKE_INSTALL_PREFIX=${CURRENT_PACKAGES_DIR}" ${arg_OPTIONS})
endfunction()

function(vcpkg_cmake_install)
  run("${CMAKE_COMMAND}" --install "${CURRENT_BUILDTREES_DIR}")
endfunction()

# Every package's CMake files lie in share/PORT, so what finds its prefix from where it lies is told so.
function(vcpkg_cmake_config_fixup)
  cmake_parse_arguments(PARSE_ARGV 0 arg "" "CONFIG_PATH" "")
  file(RENAME "${CURRENT_PACKAGES_DIR}/${arg_CONFIG_PATH}" "${CURRENT_PACKAGES_DIR}/share/${PORT}")
  file(GLOB targets "${CURRENT_PACKAGES_DIR}/share/${PORT}/*-targets.cmake")
  foreach(file IN LISTS targets)
    file(READ "${file}" text)
    string(REGEX REPLACE "(get_filename_component\\(_IMPORT_PREFIX [^\n]*\n)+"
      "get_filename_component(_IMPORT_PREFIX \"\${CMAKE_CURRENT_LIST_DIR}/../..\" ABSOLUTE)\n" text "${text}")
    file(WRITE "${file}" "${text}")
  endforeach()
endfunction()

function(vcpkg_fixup_pkgconfig)
  file(GLOB found "${CURRENT_PACKAGES_DIR}/share/pkgconfig/*.pc")
  if(NOT found)
    message(FATAL_ERROR "no .pc file to fix")
  endif()
endfunction()

function(vcpkg_install_copyright)
  cmake_parse_arguments(PARSE_ARGV 0 arg "" "" "FILE_LIST")
  file(COPY_FILE "${arg_FILE_LIST}" "${CURRENT_PACKAGES_DIR}/share/${PORT}/copyright")
endfunction()

include("${PORTFILE}")

# The function for host tests, from where it lies now, finds the headers.
include("${CURRENT_PACKAGES_DIR}/share/${PORT}/StrobeHostExecution.cmake")
strobe_host_include_dir(include_dir)
if(NOT include_dir STREQUAL "${CURRENT_PACKAGES_DIR}/include")
  message(FATAL_ERROR "StrobeHostExecution.cmake finds ${include_dir}")
endif()
