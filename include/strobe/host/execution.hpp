// SPDX-License-Identifier: MIT
/// @file
/// Host execution: run a CUDA kernel on the CPU and find the bugs a GPU hides. One fiber a CUDA
/// thread; warp collectives, ldmatrix, mma, cp.async, barriers and atomics are emulated and their
/// misuse is named with file and line. For tests: yours and the library's. Needs the toolkit's
/// headers, not nvcc, a GPU or libcudart. Compile with the host compiler,
/// -DSTROBE_HOST_EXECUTION=1, and link src/*.cpp (cmake/StrobeHostExecution.cmake does both).
/// Layer: host execution, above the ptx wrappers' runtime.hpp.
#pragma once

#include <driver_types.h>
#include <vector_types.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <tuple>

#include "builtins.hpp"

namespace strobe {
inline namespace STROBE_ABI {
namespace host {

/// Which of the threads that could run runs next. A correct kernel gives the same result under
/// each.
enum class Order {
  in_order,  ///< stays in a warp, lowest lane first, blocks in launch order: the fastest
  reverse,   ///< stays in a warp, highest lane first, last warp first
  random,    ///< any thread of any resident block, from the seed
};

/// When asynchronous copies happen between their issue and their wait. The destination holds NaN
/// patterns until then.
enum class Asynchrony {
  lazy,   ///< at the wait: finds reads that do not wait
  eager,  ///< at the issue: finds copies into a buffer still being read
  mixed,  ///< either, per copy, from the seed
};

/// What a kernel did that others may wait for, as it was carried out: for teaching and for
/// pictures. `at` and `value` by kind; offsets are bytes from the start of the block's dynamic
/// shared memory.
struct TraceEvent {
  enum class Kind {
    // a thread, at an mbarrier (at: its offset)
    mbarrier_arrive,    ///< value: bytes that the arrival announces
    mbarrier_wait,      ///< is about to wait; value: the parity
    mbarrier_pass,      ///< need not wait, or has waited; value: the parity
    mbarrier_complete,  ///< a phase has ended; value: phases so far. thread: kNoThread
    // a warp, at a barrier of the block (at: its id); thread: its first lane
    barrier_arrive,
    barrier_complete,  ///< thread: kNoThread
    barrier_pass,
    // TMA loads (at: destination, value: bytes)
    tile_load,
    tile_land,  ///< thread: kNoThread
    // wgmma, a warp's part of it; thread: its first lane
    wgmma,         ///< at: operand B's first byte, value: columns
    wgmma_commit,  ///< at: the group's number
    wgmma_wait,    ///< is over; at: groups that are complete
  };
  static constexpr uint32_t kNoThread = 0xffffffffu;

  Kind kind;
  uint64_t block;   ///< linear, in the grid
  uint32_t thread;  ///< linear, in the block
  uint32_t at;
  uint32_t value;
};

/// Called on the stack of the thread in question; it must not throw.
using TraceSink = void (*)(void* context, const TraceEvent& event);

/// True in a program with a file compiled with -fsanitize=thread.
bool plain_accesses_are_seen();

/// How launches are carried out.
struct Options {
  Order order = Order::in_order;
  Asynchrony asynchrony = Asynchrony::lazy;
  uint64_t seed = 1;
  /// Happens-before checking (vector clocks) of shared memory and of tracked global ranges.
  /// Accesses through the ptx wrappers are always seen; plain loads and stores when the kernel's
  /// file is compiled with -fsanitize=thread (libtsan is not linked: src/tsan_hooks.cpp receives
  /// the calls). On unless said otherwise in a program that has such a file, off in others, where
  /// it costs more than it finds.
  bool check_races = plain_accesses_are_seen();
  /// Blocks interleaved on one OS thread. Blocks that wait for each other need as many as wait; the
  /// report of a deadlock says when more are needed.
  int resident_blocks = 4;
  /// Blocks are spread over this many OS threads. Only blocks of one OS thread are interleaved and
  /// race-checked against each other.
  int os_threads = 1;
  size_t stack_bytes = 128 << 10;  ///< of each CUDA thread; a guard page lies below
  /// Told of each TraceEvent, where it is not null; by several OS threads at once if there are any.
  TraceSink trace = nullptr;
  void* trace_context = nullptr;
};

/// The defaults, changed by the environment: STROBE_HOST_ORDER (in_order, reverse, random),
/// STROBE_HOST_ASYNC (lazy, eager, mixed), STROBE_HOST_SEED, STROBE_HOST_RACES (0, 1),
/// STROBE_HOST_BLOCKS, STROBE_HOST_THREADS.
Options default_options();

/// The options of launches made by this OS thread: the innermost ScopedOptions, or the defaults.
Options current_options();

/// Sets the options for launches by this OS thread until the end of the scope.
class ScopedOptions {
 public:
  explicit ScopedOptions(const Options& options);
  ~ScopedOptions();
  ScopedOptions(const ScopedOptions&) = delete;
  ScopedOptions& operator=(const ScopedOptions&) = delete;

 private:
  Options previous_;
  bool had_previous_;
};

/// What went wrong in this OS thread's last launch that failed: a sentence with block, thread, file
/// and line, or a list of who waits where. Empty if no launch has failed, or after a launch that
/// succeeded.
std::string failure();

/// Global memory whose accesses by different blocks (and threads) of a launch are checked against
/// each other: workspaces, outputs. For launches by this OS thread; `bytes` from `pointer`. Between
/// launches everything is ordered.
void track_global(const void* pointer, size_t bytes);
/// Ends that for the range that begins at `pointer`.
void untrack_global(const void* pointer);

/// track_global until the end of the scope.
class ScopedTracking {
 public:
  ScopedTracking(const void* pointer, size_t bytes) : pointer_(pointer) {
    track_global(pointer, bytes);
  }
  ~ScopedTracking() { untrack_global(pointer_); }
  ScopedTracking(const ScopedTracking&) = delete;
  ScopedTracking& operator=(const ScopedTracking&) = delete;

 private:
  const void* pointer_;
};

/// One launch, its kernel's type erased.
struct Launch {
  dim3 grid;
  dim3 block;
  size_t dynamic_shared_bytes;
  void (*call)(const void* arguments);
  const void* arguments;
};
/// What launch() does, which is what you call.
cudaError_t run(const Launch& launch) noexcept;

/// T, but not deduced from: arguments convert to the kernel's parameters as in a call.
template <class T>
struct Parameter {
  using type = T;
};

/// kernel<<<grid, block, dynamic_shared_bytes>>>(arguments...) on the CPU; returns when it has
/// finished. Called by a host thread, from several at once if need be. cudaSuccess;
/// cudaErrorInvalidConfiguration or cudaErrorInvalidValue for a launch no GPU would take;
/// cudaErrorLaunchFailure with failure() set. Never throws.
template <class... Parameters>
cudaError_t launch(void (*kernel)(Parameters...), dim3 grid, dim3 block,
                   size_t dynamic_shared_bytes,
                   typename Parameter<Parameters>::type... arguments) noexcept {
  struct Call {
    void (*kernel)(Parameters...);
    std::tuple<Parameters...> parameters;
  };
  const Call call{kernel, std::tuple<Parameters...>(arguments...)};
  return run(Launch{grid, block, dynamic_shared_bytes,
                    [](const void* erased) {
                      const Call& c = *static_cast<const Call*>(erased);
                      std::apply(c.kernel, c.parameters);
                    },
                    &call});
}

}  // namespace host
}  // namespace STROBE_ABI
}  // namespace strobe
