// SPDX-License-Identifier: MIT
// What the GPU steps share besides ladder.hpp: launching, shared memory, tensors on the device, the
// clock. nvcc builds a step for the GPU; the host compiler builds the same file for strobe's host
// execution, which runs the kernels on the CPU, for tests. The two differences between them, how a
// kernel is launched and where its shared memory comes from, are here, so that the steps read like
// any CUDA program.
#pragma once

#include "../support/array.hpp"
#include "ladder.hpp"
#if STROBE_HOST_EXECUTION
#include <strobe/host/execution.hpp>
#else
#include <cuda_fp16.h>
#endif

// `__shared__ Type name`, at most 48 KB a kernel.
#if STROBE_HOST_EXECUTION
#define LADDER_SHARED(Type, name) \
  Type& name = *reinterpret_cast<Type*>(::strobe::host::dynamic_shared())
#else
#define LADDER_SHARED(Type, name) __shared__ Type name
#endif

namespace ladder {

using example::Array;
using example::require;

/// Where everything runs. One of our own, since CUDA records no graph of the default stream.
inline cudaStream_t stream() {
#if STROBE_HOST_EXECUTION
  return nullptr;
#else
  static cudaStream_t created = [] {
    cudaStream_t s;
    require(cudaStreamCreate(&s));
    return s;
  }();
  return created;
#endif
}

/// kernel<<<grid, block>>>(arguments...)
template <class... Parameters, class... Arguments>
void launch(void (*kernel)(Parameters...), dim3 grid, dim3 block, Arguments... arguments) {
#if STROBE_HOST_EXECUTION
  if (strobe::host::launch(kernel, grid, block, 48 << 10, arguments...) != cudaSuccess)
    fail(strobe::host::failure());
#else
  kernel<<<grid, block, 0, stream()>>>(arguments...);
  require(cudaGetLastError());
#endif
}

inline unsigned ceil_div(int a, int b) { return unsigned((a + b - 1) / b); }

// ---- the GPU -----------------------------------------------------------------------------------
/// What the models of the steps' limits are made of. No clock and no memory under host execution.
struct Gpu {
  std::string name = "host execution, no time";
  int compute_capability = 0;
  int sm_count = 0;
  double ghz = 0;   ///< the highest clock
  double gbps = 0;  ///< of its memory
  int l2_bytes = 0;

  /// TFLOP/s if each SM does so many multiply-adds a clock.
  double tflops(double multiply_adds) const { return 2e-3 * sm_count * ghz * multiply_adds; }
};

inline const Gpu& gpu() {
  static const Gpu found = [] {
    Gpu g;
#if STROBE_HOST_EXECUTION
    g.sm_count = 4;  // strobe's emulated device
#else
    int device = 0, major = 0, minor = 0, clock = 0, memory_clock = 0, bus_bits = 0;
    require(cudaGetDevice(&device));
    cudaDeviceProp properties;
    require(cudaGetDeviceProperties(&properties, device));
    g.name = properties.name;
    const auto attribute = [&](cudaDeviceAttr which, int* value) {
      require(cudaDeviceGetAttribute(value, which, device));
    };
    attribute(cudaDevAttrComputeCapabilityMajor, &major);
    attribute(cudaDevAttrComputeCapabilityMinor, &minor);
    attribute(cudaDevAttrMultiProcessorCount, &g.sm_count);
    attribute(cudaDevAttrClockRate, &clock);               // kHz
    attribute(cudaDevAttrMemoryClockRate, &memory_clock);  // kHz, two transfers a clock
    attribute(cudaDevAttrGlobalMemoryBusWidth, &bus_bits);
    attribute(cudaDevAttrL2CacheSize, &g.l2_bytes);
    g.compute_capability = 10 * major + minor;
    g.ghz = clock * 1e-6;
    g.gbps = 2.0 * memory_clock * bus_bits / 8 * 1e-6;
#endif
    return g;
  }();
  return found;
}

/// Seconds a call takes on the GPU: the median of several runs of a CUDA graph of calls, so that
/// the CPU's cost of launching does not count. `call(i)` enqueues the i-th call; it has been called
/// before. 0 under host execution.
template <class Call>
double median_seconds(const Call& call) {
#if STROBE_HOST_EXECUTION
  (void)call;
  return 0;
#else
  cudaEvent_t start, stop;
  require(cudaEventCreate(&start));
  require(cudaEventCreate(&stop));
  const auto seconds = [&](const auto& work) {
    require(cudaEventRecord(start, stream()));
    work();
    require(cudaEventRecord(stop, stream()));
    require(cudaEventSynchronize(stop));
    float ms = 0.f;
    require(cudaEventElapsedTime(&ms, start, stop));
    return double(ms) * 1e-3;
  };
  const double once = seconds([&] { call(0); });
  const int calls = std::max(1, std::min(500, int(0.01 / once)));  // 10 ms a run
  const int runs = once > 0.05 ? 3 : 9;

  cudaGraph_t graph;
  cudaGraphExec_t graph_exec;
  require(cudaStreamBeginCapture(stream(), cudaStreamCaptureModeThreadLocal));
  for (int i = 0; i < calls; ++i) call(i);
  require(cudaStreamEndCapture(stream(), &graph));
  require(cudaGraphInstantiate(&graph_exec, graph, 0));
  require(cudaGraphUpload(graph_exec, stream()));
  std::vector<double> times;
  for (int i = 0; i < runs; ++i)
    times.push_back(seconds([&] { require(cudaGraphLaunch(graph_exec, stream())); }) / calls);
  require(cudaGraphExecDestroy(graph_exec));
  require(cudaGraphDestroy(graph));
  require(cudaEventDestroy(start));
  require(cudaEventDestroy(stop));
  std::sort(times.begin(), times.end());
  return times[times.size() / 2];
#endif
}

// ---- tensors -----------------------------------------------------------------------------------
inline void convert(float from, float& to) { to = from; }
inline void convert(float from, __half& to) { to = __float2half_rn(from); }
inline float to_float(float x) { return x; }
inline float to_float(__half x) { return __half2float(x); }

/// The numbers as T, all `copies` times one after the other.
template <class T>
std::vector<T> as(const std::vector<float>& values, int copies = 1) {
  std::vector<T> converted(values.size());
  for (size_t i = 0; i < values.size(); ++i) convert(values[i], converted[i]);
  std::vector<T> repeated;
  repeated.reserve(values.size() * size_t(copies));
  for (int i = 0; i < copies; ++i)
    repeated.insert(repeated.end(), converted.begin(), converted.end());
  return repeated;
}

/// What a kernel works on, in device memory. Prefill: all [heads][len][head_dim]. Decode: q and o
/// are [heads][head_dim].
template <class T>
struct Tensors {
  const T* q;
  const T* k;
  const T* v;
  T* o;
  int len;
  int heads;
  bool causal;
};

/// A step's prefill: `attend(tensors)` enqueues it. model: the TFLOP/s that its limit allows, or 0.
template <class T, class Attend>
int prefill(const Step& step, const Options& options, double model, const Attend& attend) {
  return run_prefill(step, options, gpu().name, [&](const Problem& p, const Inputs& in) {
    // The output starts as NaN: a row that is not written shows.
    const Array<T> q(as<T>(in.q)), k(as<T>(in.k)), v(as<T>(in.v)),
        o(as<T>(std::vector<float>(in.q.size(), NAN)));
    const Tensors<T> tensors{q.data(), k.data(), v.data(), o.data(), p.len, p.heads, p.causal};
    attend(tensors);
#if !STROBE_HOST_EXECUTION
    require(cudaStreamSynchronize(stream()));
#endif
    const std::vector<T> all = o.to_host();
    Result result;
    for (int head = 0; head < p.heads; ++head) {
      for (const int row : p.rows) {
        const T* from = &all[(size_t(head) * size_t(p.len) + size_t(row)) * head_dim];
        for (int d = 0; d < head_dim; ++d) result.o.push_back(to_float(from[d]));
      }
    }
    result.model = model;
    result.seconds = median_seconds([&](int) { attend(tensors); });
    return result;
  });
}

/// A step's decode: `attend(tensors)` enqueues it, `note(len)` says how. Each call reads another
/// copy of K and V, together twice what L2 holds, because in a model the other layers would have
/// swept it.
template <class T, class Attend, class Note>
int decode(const Step& step, const Options& options, const Attend& attend, const Note& note) {
  return run_decode(step, options, gpu().name, [&](const Problem& p, const Inputs& in) {
    const int copies = 1 + int(2.0 * gpu().l2_bytes / p.decode_bytes());
    std::vector<float> last_rows;
    for (int head = 0; head < p.heads; ++head) {
      const float* row = &in.q[(size_t(head) + 1) * size_t(p.len) * head_dim - head_dim];
      last_rows.insert(last_rows.end(), row, row + head_dim);
    }
    const Array<T> q(as<T>(last_rows)), k(as<T>(in.k, copies)), v(as<T>(in.v, copies)),
        o(as<T>(std::vector<float>(last_rows.size(), NAN)));
    const auto call = [&](int i) {
      const size_t offset = size_t(i % copies) * in.k.size();
      attend(Tensors<T>{q.data(), k.data() + offset, v.data() + offset, o.data(), p.len, p.heads,
                        false});
    };
    call(0);
#if !STROBE_HOST_EXECUTION
    require(cudaStreamSynchronize(stream()));
#endif
    Result result;
    for (const T x : o.to_host()) result.o.push_back(to_float(x));
    result.model = gpu().gbps;
    result.note = note(p.len);
    result.seconds = median_seconds(call);
    return result;
  });
}

}  // namespace ladder
