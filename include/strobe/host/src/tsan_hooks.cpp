// SPDX-License-Identifier: MIT
// Receives the calls that -fsanitize=thread puts before a kernel's plain loads and stores, and
// hands them to the race checker. libtsan is not linked: this file takes its place, and is itself
// compiled without that flag.
// Layer: host execution, internal. Link it into race builds only.
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "engine.hpp"

namespace {

void plain_access(const void* pointer, size_t bytes, bool write, const void* pc) {
  namespace host = strobe::host;
  if (host::current == nullptr || !host::engine->races.enabled || bytes == 0) return;
  host::engine->plain_access(pointer, bytes, write, host::Site::code(pc));
}

}  // namespace

#define STROBE_TSAN_PC __builtin_return_address(0)

extern "C" {

void __tsan_init() { strobe::host::instrumented = true; }
void __tsan_func_entry(void*) {}
void __tsan_func_exit() {}
void __tsan_vptr_update(void**, void*) {}
void __tsan_vptr_read(void**) {}

#define STROBE_TSAN_ACCESS(BYTES)                                                               \
  void __tsan_read##BYTES(void* p) { plain_access(p, BYTES, false, STROBE_TSAN_PC); }           \
  void __tsan_write##BYTES(void* p) { plain_access(p, BYTES, true, STROBE_TSAN_PC); }           \
  void __tsan_volatile_read##BYTES(void* p) { plain_access(p, BYTES, false, STROBE_TSAN_PC); }  \
  void __tsan_volatile_write##BYTES(void* p) { plain_access(p, BYTES, true, STROBE_TSAN_PC); }  \
  void __tsan_unaligned_read##BYTES(void* p) { plain_access(p, BYTES, false, STROBE_TSAN_PC); } \
  void __tsan_unaligned_write##BYTES(void* p) { plain_access(p, BYTES, true, STROBE_TSAN_PC); } \
  void __tsan_read_write##BYTES(void* p) { plain_access(p, BYTES, true, STROBE_TSAN_PC); }      \
  void __tsan_unaligned_read_write##BYTES(void* p) { plain_access(p, BYTES, true, STROBE_TSAN_PC); }
STROBE_TSAN_ACCESS(1)
STROBE_TSAN_ACCESS(2)
STROBE_TSAN_ACCESS(4)
STROBE_TSAN_ACCESS(8)
STROBE_TSAN_ACCESS(16)

void __tsan_read_range(void* p, size_t n) { plain_access(p, n, false, STROBE_TSAN_PC); }
void __tsan_write_range(void* p, size_t n) { plain_access(p, n, true, STROBE_TSAN_PC); }

// Clang's instrumentation calls these instead of the functions.
void* __tsan_memcpy(void* to, const void* from, size_t n) {
  plain_access(from, n, false, STROBE_TSAN_PC);
  plain_access(to, n, true, STROBE_TSAN_PC);
  return std::memcpy(to, from, n);
}
void* __tsan_memmove(void* to, const void* from, size_t n) {
  plain_access(from, n, false, STROBE_TSAN_PC);
  plain_access(to, n, true, STROBE_TSAN_PC);
  return std::memmove(to, from, n);
}
void* __tsan_memset(void* to, int value, size_t n) {
  plain_access(to, n, true, STROBE_TSAN_PC);
  return std::memset(to, value, n);
}

// The compiler replaces atomic operations by calls, so these must do the work. What a kernel's
// atomics mean to the checker, host::before_atomic has said already.
#define STROBE_TSAN_RMW(BITS, TYPE, NAME)                                \
  TYPE __tsan_atomic##BITS##_##NAME(volatile TYPE* p, TYPE value, int) { \
    return __atomic_##NAME(p, value, __ATOMIC_SEQ_CST);                  \
  }
#define STROBE_TSAN_ATOMIC(BITS, TYPE)                                                            \
  TYPE __tsan_atomic##BITS##_load(const volatile TYPE* p, int) {                                  \
    return __atomic_load_n(p, __ATOMIC_SEQ_CST);                                                  \
  }                                                                                               \
  void __tsan_atomic##BITS##_store(volatile TYPE* p, TYPE value, int) {                           \
    __atomic_store_n(p, value, __ATOMIC_SEQ_CST);                                                 \
  }                                                                                               \
  TYPE __tsan_atomic##BITS##_exchange(volatile TYPE* p, TYPE value, int) {                        \
    return __atomic_exchange_n(p, value, __ATOMIC_SEQ_CST);                                       \
  }                                                                                               \
  STROBE_TSAN_RMW(BITS, TYPE, fetch_add)                                                          \
  STROBE_TSAN_RMW(BITS, TYPE, fetch_sub)                                                          \
  STROBE_TSAN_RMW(BITS, TYPE, fetch_and)                                                          \
  STROBE_TSAN_RMW(BITS, TYPE, fetch_or)                                                           \
  STROBE_TSAN_RMW(BITS, TYPE, fetch_xor)                                                          \
  STROBE_TSAN_RMW(BITS, TYPE, fetch_nand)                                                         \
  int __tsan_atomic##BITS##_compare_exchange_strong(volatile TYPE* p, TYPE* expected, TYPE value, \
                                                    int, int) {                                   \
    return __atomic_compare_exchange_n(p, expected, value, false, __ATOMIC_SEQ_CST,               \
                                       __ATOMIC_SEQ_CST);                                         \
  }                                                                                               \
  int __tsan_atomic##BITS##_compare_exchange_weak(volatile TYPE* p, TYPE* expected, TYPE value,   \
                                                  int, int) {                                     \
    return __atomic_compare_exchange_n(p, expected, value, true, __ATOMIC_SEQ_CST,                \
                                       __ATOMIC_SEQ_CST);                                         \
  }                                                                                               \
  TYPE __tsan_atomic##BITS##_compare_exchange_val(volatile TYPE* p, TYPE expected, TYPE value,    \
                                                  int, int) {                                     \
    __atomic_compare_exchange_n(p, &expected, value, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);  \
    return expected;                                                                              \
  }
STROBE_TSAN_ATOMIC(8, uint8_t)
STROBE_TSAN_ATOMIC(16, uint16_t)
STROBE_TSAN_ATOMIC(32, uint32_t)
STROBE_TSAN_ATOMIC(64, uint64_t)

void __tsan_atomic_thread_fence(int) { __atomic_thread_fence(__ATOMIC_SEQ_CST); }
void __tsan_atomic_signal_fence(int) {}

}  // extern "C"
