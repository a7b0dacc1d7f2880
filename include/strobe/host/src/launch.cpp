// SPDX-License-Identifier: MIT
// What users call: options and their defaults, tracked ranges, launches and the text of a failure.
// Layer: host execution.
#include <cstdlib>
#include <cstring>
#include <exception>
#include <memory>
#include <thread>

#include "engine.hpp"
#include "launch_state.hpp"

namespace strobe {
inline namespace STROBE_ABI {
namespace host {
namespace {

thread_local bool has_options = false;
thread_local Options scoped_options;
thread_local std::string last_failure;
thread_local std::vector<TrackedRange> tracked;
thread_local std::unique_ptr<Engine> own_engine;

// The position of an environment variable's value in a list, or -1 if it is unset.
int read_choice(const char* variable, std::initializer_list<const char*> choices,
                std::string& error) {
  const char* value = std::getenv(variable);
  if (value == nullptr) return -1;
  int index = 0;
  for (const char* choice : choices) {
    if (std::strcmp(value, choice) == 0) return index;
    ++index;
  }
  error = std::string(variable) + "=" + value + ": want one of";
  for (const char* choice : choices) error += std::string(" ") + choice;
  return -1;
}

bool read_number(const char* variable, uint64_t& number, std::string& error) {
  const char* value = std::getenv(variable);
  if (value == nullptr) return false;
  char* end = nullptr;
  number = std::strtoull(value, &end, 0);
  if (end != value && *end == '\0') return true;
  error = std::string(variable) + "=" + value + ": want a number";
  return false;
}

struct Defaults {
  Options options;
  std::string error;  // of the environment
};

const Defaults& defaults() {
  static const Defaults value = [] {
    Defaults d;
    const int order = read_choice("STROBE_HOST_ORDER", {"in_order", "reverse", "random"}, d.error);
    if (order >= 0) d.options.order = static_cast<Order>(order);
    const int async = read_choice("STROBE_HOST_ASYNC", {"lazy", "eager", "mixed"}, d.error);
    if (async >= 0) d.options.asynchrony = static_cast<Asynchrony>(async);
    const int races = read_choice("STROBE_HOST_RACES", {"0", "1"}, d.error);
    if (races >= 0) d.options.check_races = races == 1;
    uint64_t number;
    if (read_number("STROBE_HOST_SEED", number, d.error)) d.options.seed = number;
    if (read_number("STROBE_HOST_BLOCKS", number, d.error)) {
      d.options.resident_blocks = static_cast<int>(number);
    }
    if (read_number("STROBE_HOST_THREADS", number, d.error)) {
      d.options.os_threads = static_cast<int>(number);
    }
    return d;
  }();
  return value;
}

// Each OS thread keeps its engine, and with it stacks and arenas, from launch to launch.
void run_on_this_thread(const Launch& launch, LaunchState& state, const Options& options) {
  try {
    if (own_engine == nullptr) own_engine = std::make_unique<Engine>();
    engine = own_engine.get();
    engine->run(launch, state, options);
  } catch (const std::exception& e) {
    state.fail(std::string("the host runtime failed: ") + e.what());
  }
}

cudaError_t launch_failure(const std::string& text) {
  last_failure = text;
  return cudaErrorLaunchFailure;
}

cudaError_t run_checked(const Launch& launch) {
  constexpr uint64_t kMaxThreads = 1024;
  constexpr size_t kMaxShared = 227 << 10;  // sm_90: the most any supported architecture has
  last_failure.clear();
  if (current != nullptr) fail("a kernel launches a kernel", Site());
  if (!defaults().error.empty()) return launch_failure(defaults().error);
  const uint64_t threads = uint64_t{launch.block.x} * launch.block.y * launch.block.z;
  const uint64_t blocks = uint64_t{launch.grid.x} * launch.grid.y * launch.grid.z;
  if (threads == 0 || threads > kMaxThreads || blocks == 0 || launch.grid.y > 65535 ||
      launch.grid.z > 65535) {
    last_failure = format("invalid launch: %llu threads a block, grid (%u,%u,%u)",
                          static_cast<unsigned long long>(threads), launch.grid.x, launch.grid.y,
                          launch.grid.z)
                       .text;
    return cudaErrorInvalidConfiguration;
  }
  if (launch.dynamic_shared_bytes > kMaxShared) {
    last_failure = format("invalid launch: %zu bytes of dynamic shared memory, at most %zu",
                          launch.dynamic_shared_bytes, kMaxShared)
                       .text;
    return cudaErrorInvalidValue;
  }

  const Options options = current_options();
  LaunchState state;
  state.blocks = blocks;
  state.os_threads = options.os_threads > 1 ? options.os_threads : 1;
  state.tracked = tracked;
  if (state.os_threads == 1) {
    run_on_this_thread(launch, state, options);
  } else {
    std::vector<std::thread> workers;
    for (int i = 0; i < state.os_threads; ++i) {
      workers.emplace_back([&] { run_on_this_thread(launch, state, options); });
    }
    for (std::thread& worker : workers) worker.join();
  }
  return state.failed ? launch_failure(state.error) : cudaSuccess;
}

}  // namespace

Options default_options() { return defaults().options; }

Options current_options() { return has_options ? scoped_options : defaults().options; }

ScopedOptions::ScopedOptions(const Options& options)
    : previous_(scoped_options), had_previous_(has_options) {
  scoped_options = options;
  has_options = true;
}

ScopedOptions::~ScopedOptions() {
  scoped_options = previous_;
  has_options = had_previous_;
}

std::string failure() { return last_failure; }

void track_global(const void* pointer, size_t bytes) {
  tracked.push_back({static_cast<const unsigned char*>(pointer), bytes});
}

void untrack_global(const void* pointer) {
  for (size_t i = tracked.size(); i-- != 0;) {
    if (tracked[i].begin != pointer) continue;
    tracked.erase(tracked.begin() + static_cast<std::ptrdiff_t>(i));
    return;
  }
}

cudaError_t run(const Launch& launch) noexcept {
  try {
    return run_checked(launch);
  } catch (...) {
    return cudaErrorLaunchFailure;
  }
}

}  // namespace host
}  // namespace STROBE_ABI
}  // namespace strobe
