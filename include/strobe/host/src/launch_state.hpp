// SPDX-License-Identifier: MIT
// What the OS threads of one launch share: the blocks still to run, and the first error.
// Layer: host execution, internal.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "race.hpp"

namespace strobe {
inline namespace STROBE_ABI {
namespace host {

struct LaunchState {
  uint64_t blocks = 0;
  int os_threads = 1;
  std::vector<TrackedRange> tracked;

  std::atomic<uint64_t> next_block{0};
  std::atomic<int> idle{0};  // OS threads whose fibers all spin, or that have finished
  std::atomic<bool> failed{false};
  std::mutex mutex;
  std::string error;  // guarded by mutex

  bool take_block(uint64_t& linear) {
    if (failed) return false;
    linear = next_block++;
    return linear < blocks;
  }
  uint64_t blocks_not_started() const {
    const uint64_t next = next_block;
    return next < blocks ? blocks - next : 0;
  }
  void fail(const std::string& text) {
    const std::lock_guard<std::mutex> lock(mutex);
    if (!failed.exchange(true)) error = text;
  }
  static void pause() { std::this_thread::sleep_for(std::chrono::milliseconds(1)); }
};

}  // namespace host
}  // namespace STROBE_ABI
}  // namespace strobe
