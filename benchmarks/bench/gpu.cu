// SPDX-License-Identifier: MIT
// See gpu.hpp. The kernels here are the machine's own measures: random numbers, reading, copying,
// exponentials.
#include "gpu.hpp"

#include <strobe/ptx/math.cuh>

#include <algorithm>
#include <chrono>
#include <thread>

#include "../spec.hpp"

namespace bench {
namespace {

constexpr int threads = 256;
constexpr size_t sweep_bytes = size_t(256) << 20;

// ---- random numbers
// ------------------------------------------------------------------------------

// The finalizer of SplitMix64 (Steele, Lea, Flood, "Fast Splittable Pseudorandom Number
// Generators", 2014): each index gets 64 bits that look independent.
__device__ uint64_t scramble(uint64_t index) {
  uint64_t z = (index + 1) * 0x9e3779b97f4a7c15ull;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
  return z ^ (z >> 31);
}

// Pairs [begin, end) of a buffer, by the method of Box and Muller (1958): two normals from two
// uniforms. A pair depends on its index alone.
template <class T>
__global__ void fill_normals(uint32_t* pairs, size_t begin, size_t end) {
  const size_t stride = size_t(gridDim.x) * blockDim.x;
  for (size_t i = begin + size_t(blockIdx.x) * blockDim.x + threadIdx.x; i < end; i += stride) {
    const uint64_t bits = scramble(i);
    const float in_0_1 = (float(uint32_t(bits) >> 8) + 0.5f) * 0x1p-24f;
    const float turn = float(uint32_t(bits >> 32) >> 8) * 0x1p-24f;
    // Close to 1 the fast logarithm may come out above 0.
    const float radius = sqrtf(fmaxf(-2.f * __logf(in_0_1), 0.f));
    float sine, cosine;
    __sincosf(6.2831853f * turn, &sine, &cosine);
    pairs[i] = strobe::ptx::pack2<T>(radius * cosine, radius * sine);
  }
}

// Infinities and NaNs are the values whose exponent bits are all set.
__global__ void count_not_finite(const uint16_t* values, size_t count, uint16_t exponent,
                                 unsigned* found) {
  const size_t stride = size_t(gridDim.x) * blockDim.x;
  for (size_t i = size_t(blockIdx.x) * blockDim.x + threadIdx.x; i < count; i += stride)
    if ((values[i] & exponent) == exponent) atomicAdd(found, 1u);
}

// ---- limits
// --------------------------------------------------------------------------------------

// Sixteen bytes a load, `Loads` of them on their way at once. What was read meets in a value that
// is stored in one case of 2^32, so that no load can be left out.
template <int Loads>
__global__ void read_all(const uint4* data, uint4*, size_t count, unsigned* scratch) {
  const size_t stride = size_t(gridDim.x) * blockDim.x;
  unsigned met = 0;
  for (size_t i = size_t(blockIdx.x) * blockDim.x + threadIdx.x; i < count; i += Loads * stride) {
    uint4 piece[Loads];
#pragma unroll
    for (int j = 0; j < Loads; ++j)
      piece[j] = i + j * stride < count ? __ldcs(data + i + j * stride) : uint4{};
#pragma unroll
    for (int j = 0; j < Loads; ++j) met ^= piece[j].x ^ piece[j].y ^ piece[j].z ^ piece[j].w;
  }
  if (met == 0x9e3779b9u) *scratch = met;
}

template <int Loads>
__global__ void copy_all(const uint4* data, uint4* to, size_t count, unsigned*) {
  const size_t stride = size_t(gridDim.x) * blockDim.x;
  for (size_t i = size_t(blockIdx.x) * blockDim.x + threadIdx.x; i < count; i += Loads * stride) {
    uint4 piece[Loads];
#pragma unroll
    for (int j = 0; j < Loads; ++j)
      piece[j] = i + j * stride < count ? __ldcs(data + i + j * stride) : uint4{};
#pragma unroll
    for (int j = 0; j < Loads; ++j)
      if (i + j * stride < count) __stcs(to + i + j * stride, piece[j]);
  }
}

using Mover = void (*)(const uint4* data, uint4* to, size_t count, unsigned* scratch);
struct MoverChoice {
  Mover kernel;
  int loads;          ///< a thread has on their way at once
  int blocks_per_sm;  ///< that loop; or `no_loop`: a block for each piece
};
constexpr int no_loop = 1 << 20;
const MoverChoice readers[] = {{read_all<1>, 1, no_loop}, {read_all<2>, 2, no_loop},
                               {read_all<4>, 4, no_loop}, {read_all<8>, 8, no_loop},
                               {read_all<4>, 4, 8},       {read_all<8>, 8, 4}};
const MoverChoice copiers[] = {
    {copy_all<1>, 1, no_loop}, {copy_all<4>, 4, no_loop}, {copy_all<4>, 4, 8}, {copy_all<8>, 8, 4}};

void launch(Gpu& gpu, const MoverChoice& mover, const void* data, void* to, size_t bytes) {
  const size_t count = bytes / sizeof(uint4), piece = size_t(mover.loads * threads);
  const size_t needed = (count + piece - 1) / piece;
  const size_t most = size_t(mover.blocks_per_sm) * size_t(gpu.device.sm_count);
  mover.kernel<<<unsigned(std::min(needed, most)), threads, 0, gpu.stream>>>(
      static_cast<const uint4*>(data), static_cast<uint4*>(to), count,
      static_cast<unsigned*>(gpu.scratch.data()));
  check(cudaGetLastError(), "launching a kernel that reads or copies");
}

constexpr int exp2_chains = 8, exp2_rounds = 2048, exp2_blocks_per_sm = 8;

// Chains x = 2^-x that do not wait for each other. They stay positive, so nothing is stored.
__global__ void exponentials(float start, float* scratch) {
  float x[exp2_chains];
#pragma unroll
  for (int j = 0; j < exp2_chains; ++j) x[j] = start * float(int(threadIdx.x) + j);
#pragma unroll 4
  for (int round = 0; round < exp2_rounds; ++round)
#pragma unroll
    for (int j = 0; j < exp2_chains; ++j) x[j] = strobe::ptx::exp2_approx(-x[j]);
  float sum = 0.f;
#pragma unroll
  for (int j = 0; j < exp2_chains; ++j) sum += x[j];
  if (sum < 0.f) *scratch = sum;
}

void launch_exponentials(Gpu& gpu) {
  exponentials<<<unsigned(exp2_blocks_per_sm * gpu.device.sm_count), threads, 0, gpu.stream>>>(
      1e-3f, static_cast<float*>(gpu.scratch.data()));
  check(cudaGetLastError(), "launching the exponentials");
}

// ---- timing
// --------------------------------------------------------------------------------------

class Event {
 public:
  Event() { check(cudaEventCreate(&event_), "cudaEventCreate"); }
  ~Event() { (void)cudaEventDestroy(event_); }
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;

  void record(cudaStream_t stream) { check(cudaEventRecord(event_, stream), "cudaEventRecord"); }
  /// Waits for this event.
  double microseconds_since(const Event& start) const {
    check(cudaEventSynchronize(event_), "cudaEventSynchronize");
    float milliseconds = 0.f;
    check(cudaEventElapsedTime(&milliseconds, start.event_, event_), "cudaEventElapsedTime");
    return double(milliseconds) * 1e3;
  }

 private:
  cudaEvent_t event_ = nullptr;
};

/// A CUDA graph of `calls` calls.
class Graph {
 public:
  Graph(Gpu& gpu, int calls, const Call& call) {
    check(cudaStreamBeginCapture(gpu.stream, cudaStreamCaptureModeThreadLocal),
          "cudaStreamBeginCapture");
    cudaGraph_t graph = nullptr;
    try {
      for (int i = 0; i < calls; ++i) call(i);
    } catch (...) {  // leave the stream usable for the next cell
      (void)cudaStreamEndCapture(gpu.stream, &graph);
      if (graph != nullptr) (void)cudaGraphDestroy(graph);
      (void)cudaGetLastError();
      throw;
    }
    check(cudaStreamEndCapture(gpu.stream, &graph), "cudaStreamEndCapture");
    const cudaError_t error = cudaGraphInstantiate(&graph_, graph, 0);
    (void)cudaGraphDestroy(graph);
    check(error, "cudaGraphInstantiate");
  }
  ~Graph() { (void)cudaGraphExecDestroy(graph_); }
  Graph(const Graph&) = delete;
  Graph& operator=(const Graph&) = delete;

  void replay(cudaStream_t stream) { check(cudaGraphLaunch(graph_, stream), "cudaGraphLaunch"); }

 private:
  cudaGraphExec_t graph_ = nullptr;
};

void synchronize(Gpu& gpu) { check(cudaStreamSynchronize(gpu.stream), "cudaStreamSynchronize"); }

void sweep_l2(Gpu& gpu) {
  check(cudaMemsetAsync(gpu.sweep.data(), 0, sweep_bytes, gpu.stream), "cudaMemsetAsync");
}

std::vector<double> sorted(std::vector<double> samples) {
  std::sort(samples.begin(), samples.end());
  return samples;
}

/// One pair of events a call. Sweeps go first and nothing waits in between, so that the GPU always
/// has the next call before it is done with the last.
std::vector<double> single_samples(Gpu& gpu, const Call& call, int count) {
  std::vector<Event> starts(static_cast<size_t>(count)), stops(static_cast<size_t>(count));
  for (int i = 0; i < 4; ++i) sweep_l2(gpu);
  for (size_t i = 0; i < starts.size(); ++i) {
    starts[i].record(gpu.stream);
    call(int(i));
    stops[i].record(gpu.stream);
  }
  std::vector<double> samples;
  for (size_t i = 0; i < starts.size(); ++i)
    samples.push_back(stops[i].microseconds_since(starts[i]));
  return sorted(samples);
}

void pause(const Effort& effort) {
  std::this_thread::sleep_for(std::chrono::duration<double>(effort.pause_seconds));
}

int at_least_seconds(double seconds, double microseconds_each, int least, int most) {
  return int(std::min(double(most), std::max(double(least), seconds * 1e6 / microseconds_each)));
}

template <size_t Size>
std::vector<double> fastest(Gpu& gpu, const MoverChoice (&choices)[Size], const void* data,
                            void* to, size_t bytes, const Effort& effort) {
  std::vector<double> best;
  for (const MoverChoice& choice : choices) {
    const std::vector<double> samples = warm_samples(
        gpu, [&](int) { launch(gpu, choice, data, to, bytes); }, effort);
    if (best.empty() || percentile(samples, 0.5) < percentile(best, 0.5)) best = samples;
  }
  return best;
}

}  // namespace

// ---- memory
// --------------------------------------------------------------------------------------

void* Buffer::at_least(size_t bytes) {
  if (bytes <= bytes_) return data_;
  check(cudaFree(data_), "cudaFree");
  data_ = nullptr;
  bytes_ = 0;
  const cudaError_t error = cudaMalloc(&data_, bytes);
  if (error == cudaErrorMemoryAllocation) {
    (void)cudaGetLastError();
    size_t available = 0, total = 0;
    check(cudaMemGetInfo(&available, &total), "cudaMemGetInfo");
    throw std::runtime_error("the shape needs a buffer of " + std::to_string(bytes / 1000000) +
                             " MB; the GPU has " + std::to_string(available / 1000000) +
                             " MB left");
  }
  check(error, "cudaMalloc");
  bytes_ = bytes;
  return data_;
}

Gpu::Gpu(size_t expected_bytes) : expected_bytes_(expected_bytes) {
  check(strobe::current_device(&device));
  check(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "cudaStreamCreateWithFlags");
  sweep.at_least(sweep_bytes);
  scratch.at_least(256);
}

void* Gpu::normals(const std::string& type, size_t bytes) {
  if (bytes > normals_.bytes()) {
    filled_bytes_ = 0;
    size_t available = 0, total = 0;
    check(cudaMemGetInfo(&available, &total), "cudaMemGetInfo");
    // On a GPU with less memory the largest cells fail, and only these.
    const bool room = expected_bytes_ + expected_bytes_ / 4 < available;
    normals_.at_least(room ? std::max(bytes, expected_bytes_) : bytes);
  }
  auto* const pairs = static_cast<uint32_t*>(normals_.data());
  if (type != filled_type_) filled_bytes_ = 0;
  filled_type_ = type;
  if (filled_bytes_ < bytes) {
    const size_t begin = filled_bytes_ / 4, end = (bytes + 3) / 4;
    const auto fill = type == "fp16" ? fill_normals<__half> : fill_normals<__nv_bfloat16>;
    fill<<<unsigned(4 * device.sm_count), threads, 0, stream>>>(pairs, begin, end);
    check(cudaGetLastError(), "launching fill_normals");
    filled_bytes_ = end * 4;
  }
  return pairs;
}

void* Gpu::poisoned_output(size_t bytes) {
  void* const output = output_.at_least(bytes);
  check(cudaMemsetAsync(output, 0xff, bytes, stream), "cudaMemsetAsync");  // a NaN in fp16 and bf16
  return output;
}

strobe::Workspace Gpu::workspace(size_t bytes) {
  if (bytes == 0) return {};
  const strobe::Workspace workspace{workspace_.at_least(bytes), bytes};
  check(strobe::init_workspace(workspace, stream));
  return workspace;
}

const void* Gpu::upload(const void* values, size_t bytes) {
  void* const copy = constants_.at_least(bytes);
  check(cudaMemcpyAsync(copy, values, bytes, cudaMemcpyHostToDevice, stream), "cudaMemcpyAsync");
  synchronize(*this);
  return copy;
}

void require_finite(Gpu& gpu, const std::string& type, const void* values, size_t count) {
  auto* const found = static_cast<unsigned*>(gpu.scratch.data());
  check(cudaMemsetAsync(found, 0, sizeof *found, gpu.stream), "cudaMemsetAsync");
  count_not_finite<<<unsigned(4 * gpu.device.sm_count), threads, 0, gpu.stream>>>(
      static_cast<const uint16_t*>(values), count, type == "fp16" ? 0x7c00 : 0x7f80, found);
  check(cudaGetLastError(), "launching count_not_finite");
  unsigned wrong = 0;
  check(cudaMemcpyAsync(&wrong, found, sizeof wrong, cudaMemcpyDeviceToHost, gpu.stream),
        "cudaMemcpyAsync");
  synchronize(gpu);
  if (wrong != 0)
    throw std::runtime_error("wrong result: " + std::to_string(wrong) + " of " +
                             std::to_string(count) + " outputs are not finite or were not written");
}

void warm_up(Gpu& gpu) {
  for (int i = 0; i < 300; ++i) launch_exponentials(gpu);  // about 0.3 s on an H200
  synchronize(gpu);
}

// ---- samples
// -------------------------------------------------------------------------------------

std::vector<double> graph_samples(Gpu& gpu, int calls, const Call& call, int replays, bool cold) {
  for (int i = 0; i < std::min(3, calls); ++i) call(i);
  synchronize(gpu);
  Graph graph(gpu, calls, call);
  graph.replay(gpu.stream);
  Event start, stop;
  std::vector<double> samples;
  for (int i = 0; i < replays; ++i) {
    if (cold) {
      sweep_l2(gpu);
    } else {
      graph.replay(gpu.stream);  // also keeps the GPU busy until the timed replay is enqueued
    }
    start.record(gpu.stream);
    graph.replay(gpu.stream);
    stop.record(gpu.stream);
    samples.push_back(stop.microseconds_since(start) / calls);
  }
  return sorted(samples);
}

std::vector<double> warm_samples(Gpu& gpu, const Call& call, const Effort& effort) {
  (void)single_samples(gpu, call, 3);
  double estimate = percentile(single_samples(gpu, call, 3), 0.5);
  if (estimate < 200) {  // short enough that launching may be part of it: ask a graph
    estimate = percentile(graph_samples(gpu, 4, call, 3, false), 0.5);
    const int calls = 20;
    if (estimate < 50) {
      pause(effort);
      return graph_samples(
          gpu, calls, call,
          at_least_seconds(effort.seconds, 2 * calls * estimate, effort.least_samples, 100), false);
    }
  }
  pause(effort);
  return single_samples(gpu, call,
                        at_least_seconds(effort.seconds, estimate, effort.least_samples, 300));
}

double ReadFloor::operator()(Gpu& gpu, const void* data, size_t bytes, int copies, int calls,
                             int replays, bool cold) {
  const auto known = known_.find(bytes);
  if (known != known_.end()) return known->second;
  double best = 0;
  for (const MoverChoice& reader : readers) {
    const auto read = [&](int i) {
      launch(gpu, reader, static_cast<const char*>(data) + size_t(i % copies) * aligned(bytes),
             nullptr, bytes);
    };
    const double median = percentile(graph_samples(gpu, calls, read, replays, cold), 0.5);
    if (best == 0 || median < best) best = median;
  }
  return known_[bytes] = best;
}

std::vector<double> copy_samples(Gpu& gpu, size_t bytes, const Effort& effort) {
  auto* const data = static_cast<char*>(gpu.normals("fp16", bytes));
  return fastest(gpu, copiers, data, gpu.poisoned_output(bytes), bytes, effort);
}

std::vector<double> read_samples(Gpu& gpu, size_t bytes, const Effort& effort) {
  return fastest(gpu, readers, gpu.normals("fp16", bytes), nullptr, bytes, effort);
}

std::vector<double> exp2_samples(Gpu& gpu, const Effort& effort) {
  return warm_samples(
      gpu, [&](int) { launch_exponentials(gpu); }, effort);
}

double exp2_count(const Gpu& gpu) {
  return double(exp2_blocks_per_sm * gpu.device.sm_count) * threads * exp2_chains * exp2_rounds;
}

}  // namespace bench
