// SPDX-License-Identifier: MIT
// Fibers: a stack each, and a switch from one to another that costs a few nanoseconds.
// Layer: host execution, internal. x86-64 and aarch64, System V calling conventions.
#pragma once

#include <cstddef>

#include "../../version.hpp"

#if defined(__SANITIZE_ADDRESS__)
#define STROBE_HOST_ASAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define STROBE_HOST_ASAN 1
#endif
#endif
#if !defined(STROBE_HOST_ASAN)
#define STROBE_HOST_ASAN 0
#endif

// Saves the callee-saved registers on the running stack, stores that stack's pointer in *save and
// continues on the stack `load`. Returns when something switches back.
extern "C" void strobe_host_switch_stack(void** save, void* load);

#if STROBE_HOST_ASAN
extern "C" void __sanitizer_start_switch_fiber(void** fake_stack, const void* bottom, size_t size);
extern "C" void __sanitizer_finish_switch_fiber(void* fake_stack, const void** bottom,
                                                size_t* size);
extern "C" void __asan_poison_memory_region(const volatile void* address, size_t size);
extern "C" void __asan_unpoison_memory_region(const volatile void* address, size_t size);
#endif

namespace strobe {
inline namespace STROBE_ABI {
namespace host {

// One stack to switch to: what a fiber, and the OS thread itself, need.
struct Context {
  void* stack_pointer = nullptr;
  const void* stack_bottom = nullptr;  // for AddressSanitizer, with the two below
  size_t stack_size = 0;
  void* fake_stack = nullptr;
};

// Switches from `from` to `to`. `finished`: nobody will switch back to `from`.
inline void switch_context(Context& from, Context& to, [[maybe_unused]] bool finished = false) {
#if STROBE_HOST_ASAN
  __sanitizer_start_switch_fiber(finished ? nullptr : &from.fake_stack, to.stack_bottom,
                                 to.stack_size);
#endif
  strobe_host_switch_stack(&from.stack_pointer, to.stack_pointer);
#if STROBE_HOST_ASAN
  __sanitizer_finish_switch_fiber(from.fake_stack, nullptr, nullptr);
#endif
}

// Makes `context` start in `entry` (which must not return) when it is first switched to. `top` is
// the end of its stack.
void prepare_context(Context& context, char* bottom, size_t size, char* top, void (*entry)());

// First thing in `entry`. Fills in the bounds of the OS thread's own stack on the first switch away
// from it.
void entered_context(Context& os_thread);

// Memory for `count` stacks with a guard page below each, kept and reused from launch to launch.
class Stacks {
 public:
  Stacks() = default;
  ~Stacks() { release(); }
  Stacks(const Stacks&) = delete;
  Stacks& operator=(const Stacks&) = delete;

  bool reserve(size_t count, size_t bytes);  // false: no memory
  char* bottom(size_t index) const { return memory_ + index * slot_ + kGuard; }
  size_t bytes() const { return slot_ - kGuard; }

 private:
  static constexpr size_t kGuard = 4096;
  void release();
  char* memory_ = nullptr;
  size_t slot_ = 0;
  size_t count_ = 0;
};

}  // namespace host
}  // namespace STROBE_ABI
}  // namespace strobe
