// SPDX-License-Identifier: MIT
// What the tests of host execution share: every schedule, launches that must pass or fail, and
// where a fault was planted.
#pragma once

#include <catch2/catch_test_macros.hpp>
#include <string>
#include <vector>

#include "strobe/host/execution.hpp"

// GCC has macros for its sanitizers, Clang a test.
#if defined(__has_feature)
#define STROBE_TEST_FEATURE(NAME) __has_feature(NAME)
#else
#define STROBE_TEST_FEATURE(NAME) 0
#endif
#if defined(__SANITIZE_THREAD__) || STROBE_TEST_FEATURE(thread_sanitizer)
#define STROBE_TEST_INSTRUMENTED 1
#else
#define STROBE_TEST_INSTRUMENTED 0
#endif
#if defined(__SANITIZE_ADDRESS__) || STROBE_TEST_FEATURE(address_sanitizer)
#define STROBE_TEST_ADDRESS 1
#else
#define STROBE_TEST_ADDRESS 0
#endif

namespace test {

namespace host = strobe::host;

// True where plain loads and stores are seen by the race checker.
constexpr bool instrumented = STROBE_TEST_INSTRUMENTED != 0;

// All orders, asynchronies and a few seeds, with race checking or without.
inline std::vector<host::Options> schedules(bool check_races = true) {
  std::vector<host::Options> all;
  for (auto order : {host::Order::in_order, host::Order::reverse, host::Order::random}) {
    for (auto when : {host::Asynchrony::lazy, host::Asynchrony::eager, host::Asynchrony::mixed}) {
      const bool seeded = order == host::Order::random || when == host::Asynchrony::mixed;
      for (uint64_t seed = 1; seed <= (seeded ? 3u : 1u); ++seed) {
        host::Options options;
        options.order = order;
        options.asynchrony = when;
        options.seed = seed;
        options.check_races = check_races;
        all.push_back(options);
      }
    }
  }
  return all;
}

inline std::string describe(const host::Options& o) {
  return "order " + std::to_string(static_cast<int>(o.order)) + ", asynchrony " +
         std::to_string(static_cast<int>(o.asynchrony)) + ", seed " + std::to_string(o.seed);
}

// Launches under every schedule (or the given ones) and requires success.
template <class LaunchFunction>
void passes(LaunchFunction launch, const std::vector<host::Options>& all = schedules()) {
  for (const host::Options& options : all) {
    const host::ScopedOptions scope(options);
    const cudaError_t error = launch();
    INFO(describe(options));
    INFO(host::failure());
    REQUIRE(error == cudaSuccess);
    REQUIRE(host::failure().empty());
  }
}

// Where faults were planted. `STROBE_MARK(0);` in a kernel marks the *next* line; "%0" in an
// expected text becomes "folder/file.cpp:line" of it, as messages name places.
struct Mark {
  const char* file = "";
  int line = 0;
};
inline Mark marks[4];

inline std::string place(const Mark& mark) {
  const std::string path = mark.file;
  size_t cut = path.rfind('/');
  if (cut != std::string::npos && cut != 0) cut = path.rfind('/', cut - 1);
  return (cut == std::string::npos ? path : path.substr(cut + 1)) + ":" + std::to_string(mark.line);
}

inline std::string with_places(std::string text) {
  for (size_t i = 0; i < 4; ++i) {
    const std::string name = "%" + std::to_string(i);
    for (size_t at; (at = text.find(name)) != std::string::npos;) {
      text.replace(at, 2, place(marks[i]));
    }
  }
  return text;
}

// Launches under every schedule (or the given ones) and requires a failure whose text has each of
// `parts`.
template <class LaunchFunction>
void fails(LaunchFunction launch, const std::vector<std::string>& parts,
           const std::vector<host::Options>& all = schedules()) {
  for (const host::Options& options : all) {
    const host::ScopedOptions scope(options);
    const cudaError_t error = launch();
    INFO(describe(options));
    REQUIRE(error == cudaErrorLaunchFailure);
    const std::string text = host::failure();
    for (const std::string& part : parts) {
      INFO("wanted: " << with_places(part) << "\nin: " << text);
      REQUIRE(text.find(with_places(part)) != std::string::npos);
    }
  }
}

}  // namespace test

#define STROBE_MARK(INDEX) (::test::marks[INDEX] = ::test::Mark{__FILE__, __LINE__ + 1})
