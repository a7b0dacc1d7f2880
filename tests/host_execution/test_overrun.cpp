// SPDX-License-Identifier: MIT
// Overruns of shared and global memory, and misaligned vectors. Who catches them depends on the
// build: guard bytes in every one, the race checker with file and line, AddressSanitizer and
// UndefinedBehaviorSanitizer by ending the process; these run in a child process whose words are
// read.
#include <cstdint>

#include "strobe/ptx/cp_async.cuh"
#include "strobe/ptx/shared.cuh"
#include "support.hpp"

#if STROBE_TEST_ADDRESS
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#endif

namespace {

namespace host = strobe::host;
namespace ptx = strobe::ptx;

__global__ void writes_at(int index) {
  STROBE_DYNAMIC_SHARED(shared);
  STROBE_MARK(0);
  reinterpret_cast<volatile float*>(shared)[index] = 1;
}

TEST_CASE("writes inside dynamic shared memory pass", "[host-execution]") {
  for (int index : {0, 24}) {
    test::passes([&] { return host::launch(writes_at, 2, 1, 100, index); });
  }
}

#if !STROBE_TEST_ADDRESS

TEST_CASE("writes outside dynamic shared memory are caught", "[host-execution]") {
  for (int index : {25, 200, -1}) {
    // Without instrumentation the guard bytes say only that it happened.
    const std::string where = test::instrumented ? "bytes of dynamic shared memory, at %0"
                                                 : "wrote outside its 100 bytes";
    test::fails([&] { return host::launch(writes_at, 2, 1, 100, index); },
                {where, index < 0 ? "-4" : std::to_string(index * 4)});
    test::fails([&] { return host::launch(writes_at, 2, 1, 100, index); },
                {"wrote outside its 100 bytes of dynamic shared memory, at offset"},
                test::schedules(/*check_races=*/false));
  }
}

#else

// Runs `launch` in a child, which must die; returns what it printed.
template <class LaunchFunction>
std::string words_of_dying(LaunchFunction launch) {
  int ends[2];
  REQUIRE(pipe(ends) == 0);
  std::fflush(nullptr);
  const pid_t child = fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    dup2(ends[1], 2);
    launch();
    _exit(0);
  }
  close(ends[1]);
  std::string words;
  char buffer[1024];
  for (ssize_t n; (n = read(ends[0], buffer, sizeof buffer)) > 0;) {
    words.append(buffer, static_cast<size_t>(n));
  }
  close(ends[0]);
  int status = 0;
  waitpid(child, &status, 0);
  INFO(words);
  REQUIRE((WIFSIGNALED(status) || WEXITSTATUS(status) != 0));
  return words;
}

void require_words(const std::string& words, const std::vector<std::string>& parts) {
  for (const std::string& part : parts) {
    INFO("wanted: " << part << "\nin: " << words);
    REQUIRE(words.find(part) != std::string::npos);
  }
}

TEST_CASE("AddressSanitizer catches overruns of shared memory", "[host-execution]") {
  for (int index : {25, 26, 100, -1}) {
    require_words(words_of_dying([&] { host::launch(writes_at, 1, 32, 100, index); }),
                  {"AddressSanitizer", "WRITE of size 4", "writes_at"});
  }
}

__global__ void copies_from(const char* source) {
  STROBE_DYNAMIC_SHARED(shared);
  ptx::cp_async_16(ptx::shared_address(shared), source, true);
  ptx::cp_async_commit();
  ptx::cp_async_wait<0>();
}

TEST_CASE("AddressSanitizer catches cp.async from beyond a buffer", "[host-execution]") {
  for (host::Asynchrony when : {host::Asynchrony::lazy, host::Asynchrony::eager}) {
    host::Options options;
    options.asynchrony = when;
    const host::ScopedOptions scope(options);
    std::vector<char> source(24 + 16);
    const char* aligned = source.data() + source.size() - 24;
    aligned += (16 - reinterpret_cast<uintptr_t>(aligned) % 16) % 16;
    aligned += 16;  // at most 8 of the 16 bytes are the buffer's
    require_words(words_of_dying([&] { host::launch(copies_from, 1, 1, 16, aligned); }),
                  {"AddressSanitizer: heap-buffer-overflow"});
  }
}

__global__ void reads_vector(const char* source, float* out) {
  *out = reinterpret_cast<const float4*>(source)->x;
}

TEST_CASE("UndefinedBehaviorSanitizer catches misaligned vectors", "[host-execution]") {
  alignas(16) static const char source[32] = {};
  static float out;
  REQUIRE(host::launch(reads_vector, 1, 1, 0, source + 16, &out) == cudaSuccess);
  require_words(words_of_dying([&] { host::launch(reads_vector, 1, 1, 0, source + 4, &out); }),
                {"misaligned address", "16 byte alignment"});
}

__global__ void overruns_stack(int* out) {
  volatile int local[4] = {};
  volatile int* volatile pointer = local;  // so that nobody knows its bounds at compile time
  pointer[4 + threadIdx.x] = 1;
  out[0] = local[0];
}

TEST_CASE("AddressSanitizer knows the stacks of the threads", "[host-execution]") {
  static int out;
  const std::string words = words_of_dying([&] { host::launch(overruns_stack, 1, 1, 0, &out); });
  require_words(words, {"stack-buffer-overflow", "overruns_stack"});
}

#endif

}  // namespace
