// SPDX-License-Identifier: MIT
// The context switch for each processor, first frames, and the stacks' memory.
// Layer: host execution, internal.
#include "fiber.hpp"

#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>
#include <cstring>

// The switch ends in `ret`, not in an indirect jump: fibers of a kernel are nearly always suspended
// under the same chain of calls, so that the processor's return predictor, which thinks it is still
// on the old stack, is right.
#if defined(__x86_64__)
asm(R"(
.text
.globl strobe_host_switch_stack
.hidden strobe_host_switch_stack
.type strobe_host_switch_stack,@function
.p2align 4
strobe_host_switch_stack:
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  movq %rsp, (%rdi)
  movq %rsi, %rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  ret
.size strobe_host_switch_stack,.-strobe_host_switch_stack
)");
#elif defined(__aarch64__)
asm(R"(
.text
.globl strobe_host_switch_stack
.hidden strobe_host_switch_stack
.type strobe_host_switch_stack,%function
.p2align 4
strobe_host_switch_stack:
  sub sp, sp, #176
  stp x19, x20, [sp, #0]
  stp x21, x22, [sp, #16]
  stp x23, x24, [sp, #32]
  stp x25, x26, [sp, #48]
  stp x27, x28, [sp, #64]
  stp x29, x30, [sp, #80]
  stp d8, d9, [sp, #96]
  stp d10, d11, [sp, #112]
  stp d12, d13, [sp, #128]
  stp d14, d15, [sp, #144]
  mov x9, sp
  str x9, [x0]
  mov sp, x1
  ldp x19, x20, [sp, #0]
  ldp x21, x22, [sp, #16]
  ldp x23, x24, [sp, #32]
  ldp x25, x26, [sp, #48]
  ldp x27, x28, [sp, #64]
  ldp x29, x30, [sp, #80]
  ldp d8, d9, [sp, #96]
  ldp d10, d11, [sp, #112]
  ldp d12, d13, [sp, #128]
  ldp d14, d15, [sp, #144]
  add sp, sp, #176
  ret
.size strobe_host_switch_stack,.-strobe_host_switch_stack
)");
#else
#error "strobe: host execution has no context switch for this processor"
#endif

namespace strobe {
inline namespace STROBE_ABI {
namespace host {
namespace {

// The frame that strobe_host_switch_stack pops when it first switches here.
void* first_frame(char* top, void (*entry)()) {
  char* aligned = reinterpret_cast<char*>(reinterpret_cast<uintptr_t>(top) & ~uintptr_t{15});
#if defined(__x86_64__)
  // Six registers, the address `ret` goes to, and a null return address for it (and for debuggers
  // to stop at).
  constexpr size_t kBytes = 8 * sizeof(void*);
  constexpr size_t kEntry = 6;
#else
  constexpr size_t kBytes = 176;
  constexpr size_t kEntry = 11;  // x30
#endif
  char* frame = aligned - kBytes;
  std::memset(frame, 0, kBytes);
  std::memcpy(frame + kEntry * sizeof(void*), &entry, sizeof entry);
  return frame;
}

}  // namespace

void prepare_context(Context& context, char* bottom, size_t size, char* top, void (*entry)()) {
#if STROBE_HOST_ASAN
  // Frames of the last fiber on this stack never returned, so their red zones are still poisoned.
  __asan_unpoison_memory_region(bottom, size);
#endif
  context.stack_bottom = bottom;
  context.stack_size = size;
  context.fake_stack = nullptr;
  context.stack_pointer = first_frame(top, entry);
}

void entered_context(Context& os_thread) {
#if STROBE_HOST_ASAN
  const void* bottom = nullptr;
  size_t size = 0;
  __sanitizer_finish_switch_fiber(nullptr, &bottom, &size);
  if (os_thread.stack_bottom == nullptr) {
    os_thread.stack_bottom = bottom;
    os_thread.stack_size = size;
  }
#else
  static_cast<void>(os_thread);
#endif
}

bool Stacks::reserve(size_t count, size_t bytes) {
  const size_t slot = ((bytes + 4095) & ~size_t{4095}) + kGuard;
  if (slot == slot_ && count <= count_) return true;
  release();
  void* memory = mmap(nullptr, slot * count, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) return false;
  memory_ = static_cast<char*>(memory);
  slot_ = slot;
  count_ = count;
  // On kernels with pages larger than 4096 bytes the guard cannot be protected; overflows are then
  // not caught.
  if (sysconf(_SC_PAGESIZE) == static_cast<long>(kGuard)) {
    for (size_t i = 0; i < count; ++i) mprotect(memory_ + i * slot, kGuard, PROT_NONE);
  }
  return true;
}

void Stacks::release() {
  if (memory_ != nullptr) munmap(memory_, slot_ * count_);
  memory_ = nullptr;
  slot_ = count_ = 0;
}

}  // namespace host
}  // namespace STROBE_ABI
}  // namespace strobe
