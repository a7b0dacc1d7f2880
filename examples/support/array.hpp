// SPDX-License-Identifier: MIT
// What the examples need around a kernel: an array the kernel can reach (device memory under nvcc,
// host memory under host execution), a timer, and an exit with a sentence when something fails. Not
// part of the library, which allocates nothing.
#pragma once

#include <strobe/status.hpp>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

#if !STROBE_HOST_EXECUTION
#include <cuda_runtime_api.h>
#endif

namespace example {

inline void require(const strobe::Status& status) {
  if (status.ok()) return;
  std::fprintf(stderr, "strobe: %s\n", status.text);
  std::exit(1);
}

#if !STROBE_HOST_EXECUTION
inline void require(cudaError_t error) {
  if (error == cudaSuccess) return;
  std::fprintf(stderr, "CUDA: %s\n", cudaGetErrorString(error));
  std::exit(1);
}
#endif

/// Memory the kernels read and write, 256-byte aligned.
template <class T>
class Array {
 public:
  explicit Array(size_t size) : size_(size) {
#if STROBE_HOST_EXECUTION
    data_ = static_cast<T*>(std::aligned_alloc(256, (size * sizeof(T) + 255) / 256 * 256));
#else
    require(cudaMalloc(reinterpret_cast<void**>(&data_), size * sizeof(T)));
#endif
  }
  template <class U>
  explicit Array(const std::vector<U>& values) : Array(values.size()) {
    static_assert(sizeof(U) == sizeof(T), "the same bits under another name");
#if STROBE_HOST_EXECUTION
    std::memcpy(static_cast<void*>(data_), values.data(), size_ * sizeof(T));
#else
    require(cudaMemcpy(data_, values.data(), size_ * sizeof(T), cudaMemcpyHostToDevice));
#endif
  }
  ~Array() {
#if STROBE_HOST_EXECUTION
    std::free(data_);
#else
    (void)cudaFree(data_);
#endif
  }
  Array(const Array&) = delete;
  Array& operator=(const Array&) = delete;

  /// Overwrites the first elements, after the work issued before.
  void write(const std::vector<T>& values) const {
    if (values.size() > size_) std::abort();
#if STROBE_HOST_EXECUTION
    std::memcpy(static_cast<void*>(data_), values.data(), values.size() * sizeof(T));
#else
    require(cudaMemcpy(data_, values.data(), values.size() * sizeof(T), cudaMemcpyHostToDevice));
#endif
  }
  T* data() const { return data_; }
  size_t size() const { return size_; }
  /// A copy on the host; waits for the device.
  std::vector<T> to_host() const {
    std::vector<T> values(size_);
#if STROBE_HOST_EXECUTION
    std::memcpy(static_cast<void*>(values.data()), data_, size_ * sizeof(T));
#else
    require(cudaMemcpy(values.data(), data_, size_ * sizeof(T), cudaMemcpyDeviceToHost));
#endif
    return values;
  }

 private:
  T* data_ = nullptr;
  size_t size_ = 0;
};

/// Seconds one call of `work` takes: on the GPU the median of 20 timings by events after a warm-up,
/// on the CPU one call by the clock on the wall.
template <class Work>
double seconds(const Work& work) {
#if STROBE_HOST_EXECUTION
  const auto start = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
#else
  cudaEvent_t start, stop;
  require(cudaEventCreate(&start));
  require(cudaEventCreate(&stop));
  std::vector<float> times;
  for (int i = 0; i < 25; ++i) {
    require(cudaEventRecord(start));
    work();
    require(cudaEventRecord(stop));
    require(cudaEventSynchronize(stop));
    float ms = 0.f;
    require(cudaEventElapsedTime(&ms, start, stop));
    if (i >= 5) times.push_back(ms);
  }
  require(cudaEventDestroy(start));
  require(cudaEventDestroy(stop));
  std::sort(times.begin(), times.end());
  return double(times[times.size() / 2]) * 1e-3;
#endif
}

/// Where the kernels of this program run.
inline const char* place() {
#if STROBE_HOST_EXECUTION
  return "the CPU, by host execution: this program was built by the host compiler";
#else
  return "the GPU";
#endif
}

}  // namespace example
