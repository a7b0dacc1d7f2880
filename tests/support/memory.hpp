// SPDX-License-Identifier: MIT
// Memory for kernels under test: guarded on both sides, poisoned where nothing valid lives. Under
// nvcc it is device memory, under host execution the host's own; the tests do not see which.
#pragma once

#include <strobe/strobe.cuh>

#include <catch2/catch_test_macros.hpp>

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#endif

// One source, two worlds: a case runs on the CPU ([host]) or on a GPU ([gpu]) and skips where there
// is none, before its first line: Catch2 takes a SKIP inside of a CHECK for a failure. `extra` adds
// tags: "[small]" marks what is cheap enough for ASan and the race checker.
#if STROBE_HOST_EXECUTION
#define STROBE_TEST_WORLD "[host]"
#else
#define STROBE_TEST_WORLD "[gpu]"
#endif
#define STROBE_TEST_JOIN_(a, b) a##b
#define STROBE_TEST_JOIN(a, b) STROBE_TEST_JOIN_(a, b)
#define STROBE_TEST_BODY STROBE_TEST_JOIN(test_body_, __LINE__)
#define STROBE_TEST_CASE(name, extra)        \
  static void STROBE_TEST_BODY();            \
  TEST_CASE(name, STROBE_TEST_WORLD extra) { \
    (void)::strobe_test::test_device();      \
    STROBE_TEST_BODY();                      \
  }                                          \
  static void STROBE_TEST_BODY()

namespace strobe_test {

inline void require_ok(const strobe::Status& status) {
  if (!status.ok()) FAIL(status.text);
}

#if !STROBE_HOST_EXECUTION
inline void require_cuda(cudaError_t error, const char* call) {
  if (error != cudaSuccess) FAIL(call << ": " << cudaGetErrorString(error));
}
#define STROBE_REQUIRE_CUDA(call) ::strobe_test::require_cuda(call, #call)
#endif

/// The device of the test; skips the test case where there is none. Under host execution
/// STROBE_TEST_DEVICE=90 in the environment makes it one of compute capability 9.0, whose kernels
/// then run on the CPU.
inline const strobe::Device& test_device() {
  static strobe::Device device;
  static const strobe::Status status = [] {
    const strobe::Status found = strobe::current_device(&device);
#if STROBE_HOST_EXECUTION
    const char* const asked = std::getenv("STROBE_TEST_DEVICE");
    if (asked != nullptr && std::string(asked) == "90") device = {0, 90, 3, 227 * 1024};
#endif
    return found;
  }();
  if (!status.ok()) SKIP("no usable GPU: " << status.text);
  return device;
}

/// What the last launch did is visible to the host afterwards, or the test fails with CUDA's error.
inline void finish(cudaStream_t stream = nullptr) {
#if STROBE_HOST_EXECUTION
  (void)stream;  // a launch has run when it returns
#else
  STROBE_REQUIRE_CUDA(cudaStreamSynchronize(stream));
  STROBE_REQUIRE_CUDA(cudaPeekAtLastError());
#endif
}

/// `bytes` of memory the kernel may touch, aligned to exactly 16 bytes (the contract's alignment
/// and not a bit more), between two guards of all-ones bytes, which are NaN in every type in use.
class GuardedMemory {
 public:
  static constexpr size_t guard_bytes = 4096;
  static constexpr unsigned char guard_byte = 0xff;

  GuardedMemory() = default;
  explicit GuardedMemory(size_t bytes, size_t misalignment = 16)
      : bytes_(bytes), front_(guard_bytes + misalignment) {
#if STROBE_HOST_EXECUTION
    // Rounded up because aligned_alloc wants a multiple of the alignment.
    base_ = static_cast<unsigned char*>(std::aligned_alloc(256, (total() + 255) / 256 * 256));
    REQUIRE(base_ != nullptr);
    std::memset(base_, guard_byte, total());
    hide_guards();
#else
    STROBE_REQUIRE_CUDA(cudaMalloc(reinterpret_cast<void**>(&base_), total()));
    STROBE_REQUIRE_CUDA(cudaMemset(base_, guard_byte, total()));
#endif
  }
  GuardedMemory(GuardedMemory&& other) noexcept
      : bytes_(std::exchange(other.bytes_, 0)),
        front_(other.front_),
        base_(std::exchange(other.base_, nullptr)) {}
  GuardedMemory& operator=(GuardedMemory&& other) noexcept {
    std::swap(bytes_, other.bytes_);
    std::swap(front_, other.front_);
    std::swap(base_, other.base_);
    return *this;
  }
  ~GuardedMemory() {
    if (base_ == nullptr) return;
#if STROBE_HOST_EXECUTION
    show_guards();
    std::free(base_);
#else
    (void)cudaFree(base_);
#endif
  }

  void* data() const { return base_ + front_; }
  size_t bytes() const { return bytes_; }

  void upload(const void* from) const {
    if (bytes_ == 0) return;
#if STROBE_HOST_EXECUTION
    std::memcpy(data(), from, bytes_);
#else
    STROBE_REQUIRE_CUDA(cudaMemcpy(data(), from, bytes_, cudaMemcpyHostToDevice));
#endif
  }
  void download(void* to) const {
    if (bytes_ == 0) return;
#if STROBE_HOST_EXECUTION
    std::memcpy(to, data(), bytes_);
#else
    STROBE_REQUIRE_CUDA(cudaMemcpy(to, data(), bytes_, cudaMemcpyDeviceToHost));
#endif
  }

  /// Empty, or where the nearest overwritten guard byte is.
  std::string guard_damage() const {
    std::vector<unsigned char> front(front_), back(guard_bytes);
#if STROBE_HOST_EXECUTION
    show_guards();
    std::memcpy(front.data(), base_, front_);
    std::memcpy(back.data(), base_ + front_ + bytes_, guard_bytes);
    hide_guards();
#else
    STROBE_REQUIRE_CUDA(cudaMemcpy(front.data(), base_, front_, cudaMemcpyDeviceToHost));
    STROBE_REQUIRE_CUDA(
        cudaMemcpy(back.data(), base_ + front_ + bytes_, guard_bytes, cudaMemcpyDeviceToHost));
#endif
    for (size_t i = 0; i < front_; ++i)
      if (front[front_ - 1 - i] != guard_byte)
        return std::to_string(i + 1) + " bytes before the buffer were overwritten";
    for (size_t i = 0; i < guard_bytes; ++i)
      if (back[i] != guard_byte)
        return "the byte " + std::to_string(i) + " past the end of the buffer was overwritten";
    return {};
  }

 private:
  size_t total() const { return front_ + bytes_ + guard_bytes; }
#if STROBE_HOST_EXECUTION
  // Under AddressSanitizer even reading a guard is an error, named with file and line.
  void hide_guards() const {
#if defined(__SANITIZE_ADDRESS__)
    ASAN_POISON_MEMORY_REGION(base_, front_);
    ASAN_POISON_MEMORY_REGION(base_ + front_ + bytes_, guard_bytes);
#endif
  }
  void show_guards() const {
#if defined(__SANITIZE_ADDRESS__)
    ASAN_UNPOISON_MEMORY_REGION(base_, total());
#endif
  }
#endif
  size_t bytes_ = 0;
  size_t front_ = guard_bytes;
  unsigned char* base_ = nullptr;
};

/// A host array and its guarded copy for the kernel.
template <class T>
class Buffer {
 public:
  Buffer() = default;
  explicit Buffer(std::vector<T> values, size_t misalignment = 16)
      : host(std::move(values)), memory_(host.size() * sizeof(T), misalignment) {
    upload();
  }
  T* data() const { return static_cast<T*>(memory_.data()); }
  void upload() const { memory_.upload(host.data()); }
  std::vector<T> download() const {
    std::vector<T> copy(host.size());
    memory_.download(copy.data());
    return copy;
  }
  std::string guard_damage() const { return memory_.guard_damage(); }

  std::vector<T> host;  ///< what upload() sends; kernels' results come from download()

 private:
  GuardedMemory memory_;
};

/// Small tables that masks and scores point to: readable by the kernel and, through the same
/// pointer, by the oracle, which asks the same mask on the host.
template <class T>
class SharedTable {
 public:
  explicit SharedTable(const std::vector<T>& values) {
    const size_t bytes = values.size() * sizeof(T) + 1;
#if STROBE_HOST_EXECUTION
    data_ = static_cast<T*>(std::malloc(bytes));
#else
    STROBE_REQUIRE_CUDA(cudaMallocManaged(reinterpret_cast<void**>(&data_), bytes));
#endif
    for (size_t i = 0; i < values.size(); ++i) data_[i] = values[i];
  }
  SharedTable(const SharedTable&) = delete;
  SharedTable& operator=(const SharedTable&) = delete;
  ~SharedTable() {
#if STROBE_HOST_EXECUTION
    std::free(data_);
#else
    (void)cudaFree(data_);
#endif
  }
  const T* data() const { return data_; }

 private:
  T* data_ = nullptr;
};

}  // namespace strobe_test
