// SPDX-License-Identifier: MIT
// What a measurement needs of the GPU: memory, random inputs, and timing by CUDA events. Errors are
// exceptions: this is a program, not the library.
#pragma once

#include <cuda_runtime_api.h>
#include <strobe/device.cuh>

#include <cstdint>
#include <functional>
#include <map>
#include <stdexcept>
#include <string>
#include <vector>

namespace bench {

inline void check(cudaError_t error, const char* call) {
  if (error == cudaSuccess) return;
  (void)cudaGetLastError();  // what is reported here is not reported again
  throw std::runtime_error(std::string(call) + ": " + cudaGetErrorString(error));
}
inline void check(const strobe::Status& status) {
  if (!status.ok()) throw std::runtime_error("strobe: " + std::string(status.text));
}

/// What cudaMalloc aligns to, and every tensor in a larger buffer too.
inline constexpr size_t aligned(size_t bytes) { return (bytes + 255) / 256 * 256; }

/// Device memory that grows on demand; growing loses the contents.
class Buffer {
 public:
  Buffer() = default;
  ~Buffer() { (void)cudaFree(data_); }
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;

  void* at_least(size_t bytes);
  void* data() const { return data_; }
  size_t bytes() const { return bytes_; }

 private:
  void* data_ = nullptr;
  size_t bytes_ = 0;
};

/// How much is measured: figures to publish, or a first look. Short bursts with a pause before
/// each, because a GPU kept busy sinks to its power limit: an H200's 8192^3 matrix product had a
/// median of 665 TFLOP/s over 0.15 s and of 767 over 0.03 s (2026-11-30).
struct Effort {
  int replays = 9;         ///< of a graph, for decode
  int least_samples = 10;  ///< for everything else: at least these, and at least the seconds
  double seconds = 0.03;
  double pause_seconds = 0.1;
};
inline constexpr Effort quick_effort{5, 5, 0.015, 0.1};

/// The device, and what stays allocated over a run. A cell's calls go to `stream`.
class Gpu {
 public:
  /// Throws when there is no usable GPU. `expected_bytes`: the largest normals() to come.
  explicit Gpu(size_t expected_bytes);
  ~Gpu() { (void)cudaStreamDestroy(stream); }
  Gpu(const Gpu&) = delete;
  Gpu& operator=(const Gpu&) = delete;

  /// `bytes` of standard normals of a 16-bit type. One allocation serves all cells, since 20 GB
  /// take long to get and to fill; nothing writes to it.
  void* normals(const std::string& type, size_t bytes);
  /// Memory for a result, every 16-bit value in it a NaN: see require_finite.
  void* poisoned_output(size_t bytes);
  /// A workspace for strobe, its header cleared.
  strobe::Workspace workspace(size_t bytes);
  /// A copy of host values; it lives until the next call of this function.
  template <class T>
  const T* constants(const std::vector<T>& values) {
    return static_cast<const T*>(upload(values.data(), values.size() * sizeof(T)));
  }

  strobe::Device device;
  cudaStream_t stream = nullptr;
  Buffer sweep;  ///< several times L2: writing it leaves nothing else there
  Buffer lse;
  Buffer scratch;  ///< a few words for kernels that count or pretend to store

 private:
  const void* upload(const void* values, size_t bytes);

  Buffer normals_, output_, workspace_, constants_;
  size_t expected_bytes_;
  std::string filled_type_;
  size_t filled_bytes_ = 0;
};

/// Throws unless all `count` values of a 16-bit type are finite.
void require_finite(Gpu& gpu, const std::string& type, const void* values, size_t count);

/// Lets the clocks rise before the first cell.
void warm_up(Gpu& gpu);

/// Enqueues call number i on gpu.stream.
using Call = std::function<void(int i)>;

/// Microseconds a call, ascending: one sample a replay of a CUDA graph of `calls` calls. Before
/// each replay L2 is swept (cold), or the same graph runs once untimed.
std::vector<double> graph_samples(Gpu& gpu, int calls, const Call& call, int replays, bool cold);

/// Microseconds a call, ascending, which finds in L2 what the call before it left: in a graph where
/// launching would count, else one by one.
std::vector<double> warm_samples(Gpu& gpu, const Call& call, const Effort& effort);

/// Median microseconds of a kernel that only reads `bytes`, timed like a decode cell: `copies` lie
/// one after another from `data` on, each at an aligned() place. The fastest of a few such kernels;
/// measured once for each number of bytes.
class ReadFloor {
 public:
  double operator()(Gpu& gpu, const void* data, size_t bytes, int copies, int calls, int replays,
                    bool cold);

 private:
  std::map<size_t, double> known_;
};

/// The ceilings: microseconds, ascending, of the fastest of a few kernels.
std::vector<double> copy_samples(Gpu& gpu, size_t bytes, const Effort& effort);
std::vector<double> read_samples(Gpu& gpu, size_t bytes, const Effort& effort);
/// Its kernel computes `exp2_count` exponentials on the special-function units, nothing else.
std::vector<double> exp2_samples(Gpu& gpu, const Effort& effort);
double exp2_count(const Gpu& gpu);

}  // namespace bench
