// SPDX-License-Identifier: MIT
// What only a GPU has: streams, graphs, launches of several host threads at once, CUDA's own
// refusal. Empty under host execution.
#pragma once

#include "memory.hpp"

#if !STROBE_HOST_EXECUTION

#include <string>
#include <thread>
#include <vector>

namespace strobe_test {

class Stream {
 public:
  explicit Stream(unsigned flags = cudaStreamNonBlocking) {
    STROBE_REQUIRE_CUDA(cudaStreamCreateWithFlags(&stream_, flags));
  }
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;
  ~Stream() { (void)cudaStreamDestroy(stream_); }
  operator cudaStream_t() const { return stream_; }

 private:
  cudaStream_t stream_ = nullptr;
};

/// A captured launch.
class Graph {
 public:
  template <class Launch>
  Graph(cudaStream_t stream, const Launch& launch) {
    STROBE_REQUIRE_CUDA(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
    const strobe::Status status = launch(stream);
    STROBE_REQUIRE_CUDA(cudaStreamEndCapture(stream, &graph_));
    require_ok(status);
    STROBE_REQUIRE_CUDA(cudaGraphInstantiate(&ready_, graph_, 0));
  }
  Graph(const Graph&) = delete;
  Graph& operator=(const Graph&) = delete;
  ~Graph() {
    (void)cudaGraphExecDestroy(ready_);
    (void)cudaGraphDestroy(graph_);
  }
  size_t nodes() const {
    size_t count = 0;
    STROBE_REQUIRE_CUDA(cudaGraphGetNodes(graph_, nullptr, &count));
    return count;
  }
  void launch(cudaStream_t stream) const { STROBE_REQUIRE_CUDA(cudaGraphLaunch(ready_, stream)); }

 private:
  cudaGraph_t graph_ = nullptr;
  cudaGraphExec_t ready_ = nullptr;
};

/// Runs launch(i, stream) `rounds` times on each of `count` host threads, a stream each, and waits
/// for all of them. Returns per thread the first Status that is not ok.
template <class Launch>
std::vector<strobe::Status> launch_from_threads(int count, int rounds, const Launch& launch) {
  const int device = test_device().ordinal;
  std::vector<strobe::Status> statuses(count);  // Catch2's assertions belong to the main thread
  std::vector<std::thread> threads;
  for (int i = 0; i < count; ++i)
    threads.emplace_back([&, i] {
      cudaStream_t stream = nullptr;
      (void)cudaSetDevice(device);
      (void)cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking);
      for (int round = 0; round < rounds && statuses[size_t(i)].ok(); ++round)
        statuses[size_t(i)] = launch(i, stream);
      (void)cudaStreamSynchronize(stream);
      (void)cudaStreamDestroy(stream);
    });
  for (std::thread& thread : threads) thread.join();
  return statuses;
}

/// Calls launch(stream) where CUDA itself refuses it: while a blocking stream captures, a launch
/// into the legacy stream would wait for it. Checks that the refusal is returned as a Status and
/// that no error is left pending. launch must have run once: attributes are set by then.
template <class Launch>
void check_refused_by_cuda(const Launch& launch) {
  const Stream capturing(cudaStreamDefault);
  STROBE_REQUIRE_CUDA(cudaStreamBeginCapture(capturing, cudaStreamCaptureModeGlobal));
  const strobe::Status status = launch(cudaStreamLegacy);
  const cudaError_t pending = cudaGetLastError();
  cudaGraph_t graph = nullptr;
  (void)cudaStreamEndCapture(capturing, &graph);
  if (graph != nullptr) (void)cudaGraphDestroy(graph);
  (void)cudaGetLastError();
  CHECK(status.code == strobe::Code::launch_failed);
  CHECK(status.cuda != cudaSuccess);
  CHECK(std::string(status.text).find("cudaLaunchKernel") != std::string::npos);
  CHECK(pending == cudaSuccess);
}

/// Checks that launch(device) names `device.ordinal` where the facts are of another device than the
/// current one.
template <class Launch>
void check_other_device_refused(const Launch& launch) {
  strobe::Device other = test_device();
  other.ordinal += 1;
  const strobe::Status status = launch(other);
  CHECK(status.code == strobe::Code::invalid);
  CHECK(std::string(status.text).find("device.ordinal") == 0);
}

}  // namespace strobe_test

#endif
