# SPDX-License-Identifier: MIT
# The ways to get strobe::strobe. STROBE_FROM picks one; STROBE_SOURCE is a checkout for those that need it.
if(STROBE_FROM STREQUAL "find_package")
  find_package(strobe-attention 0.1 CONFIG REQUIRED)
  find_package(strobe-attention 0.1 CONFIG REQUIRED)  # a second dependency that wants it too
elseif(STROBE_FROM STREQUAL "add_subdirectory")
  add_subdirectory("${STROBE_SOURCE}" strobe)
  add_subdirectory("${STROBE_SOURCE}" strobe_again)
elseif(STROBE_FROM STREQUAL "fetch_content")
  include(FetchContent)
  set(FETCHCONTENT_SOURCE_DIR_STROBE-ATTENTION "${STROBE_SOURCE}")  # in place of a download
  FetchContent_Declare(strobe-attention GIT_REPOSITORY not-contacted GIT_TAG main)
  FetchContent_MakeAvailable(strobe-attention)
else()
  message(FATAL_ERROR "STROBE_FROM=${STROBE_FROM}")
endif()

# A dependency must not bring its tests, its install rules or its flags along.
if(NOT STROBE_FROM STREQUAL "find_package")
  foreach(option IN ITEMS STROBE_BUILD_TESTS STROBE_BUILD_BENCHMARKS STROBE_BUILD_EXAMPLES STROBE_INSTALL)
    if(${option})
      message(FATAL_ERROR "${option} is on in a project that only uses strobe")
    endif()
  endforeach()
endif()
