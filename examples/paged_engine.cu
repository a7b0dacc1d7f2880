// SPDX-License-Identifier: MIT
// What a serving engine does with one attention layer: prompts of different lengths go through
// prefill together, then every step adds a token a sequence, into a cache made of pages that are
// handed out as they are needed. The step is captured in a CUDA graph once and replayed: lengths
// and page table are read on the device, so only their contents change. Under host execution the
// same step is called directly.
//
// The model around it is missing: queries, keys and values are random rows. What comes out is
// checked against one prefill over each whole sequence.
#include <strobe/append.cuh>
#include <strobe/decode.cuh>
#include <strobe/prefill.cuh>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <functional>
#include <numeric>
#include <vector>

#include "support/array.hpp"

namespace {

constexpr int dim = 64, q_heads = 4, kv_heads = 2, page_size = 16;
constexpr int64_t q_row = q_heads * dim, kv_row = kv_heads * dim;
using T = __half;
using Attention = strobe::Attention<T, dim, strobe::Causal, strobe::Paged<T>>;

uint32_t seed = 1;
std::vector<T> random_rows(int64_t elements) {
  std::vector<T> values(static_cast<size_t>(elements));
  for (T& x : values)
    x = __float2half_rn(float(int32_t(seed = seed * 1664525u + 1013904223u) >> 8) * 0x1p-22f);
  return values;
}

/// Which page of the pool holds which stretch of which sequence. Pages come from a shuffled free
/// list, as they would after an hour of serving.
class PageTable {
 public:
  PageTable(int sequences, int pages_a_sequence, int pool_pages)
      : stride_(pages_a_sequence), free_(size_t(pool_pages)) {
    table_.resize(size_t(sequences) * size_t(stride_), -1);
    used_.resize(size_t(sequences), 0);
    std::iota(free_.begin(), free_.end(), 0);
    for (size_t i = free_.size(); i > 1; --i)
      std::swap(free_[i - 1], free_[(seed = seed * 1664525u + 1013904223u) % i]);
  }
  /// Makes room for `keys` keys of a sequence.
  void reserve(int sequence, int keys) {
    int& used = used_[size_t(sequence)];
    for (; used * page_size < keys; ++used) {
      table_[size_t(sequence * stride_ + used)] = free_.back();
      free_.pop_back();
    }
  }
  const std::vector<int>& entries() const { return table_; }

 private:
  int stride_;
  std::vector<int> table_, used_, free_;
};

/// The layer's buffers. What a step reads is filled in before it: addresses stay, as a graph wants.
struct Layer {
  example::Array<T> q, k, v, o, pool_k, pool_v;
  example::Array<float> cosines, sines;
  example::Array<int> q_offsets, kv_lens, table;
};

/// Append the new rows, rotated, then attend. The new tokens of a sequence are its last q_len ones;
/// kv_lens counts them already.
void step(const Layer& layer, const strobe::Bounds& bounds, int64_t table_stride, bool decoding,
          const strobe::Device& device, const strobe::Workspace& workspace, cudaStream_t stream) {
  Attention a;
  a.lengths.q_offsets = layer.q_offsets.data();  // prompts lie one behind the other
  a.lengths.kv_lens = layer.kv_lens.data();
  a.bounds = bounds;
  a.q = strobe::token_major<const T>(layer.q.data(), 0, q_heads, dim);
  a.o = strobe::token_major(layer.o.data(), 0, q_heads, dim);
  a.kv.k = strobe::token_major<const T>(layer.pool_k.data(), page_size, kv_heads, dim);
  a.kv.v = strobe::token_major<const T>(layer.pool_v.data(), page_size, kv_heads, dim);
  a.kv.table = layer.table.data();
  a.kv.table_stride = table_stride;
  a.kv.page_size = page_size;

  // [docs: append]
  strobe::Append<T, strobe::Paged<T>> rows;
  rows.k = strobe::token_major<const T>(layer.k.data(), 0, kv_heads, dim);
  rows.v = strobe::token_major<const T>(layer.v.data(), 0, kv_heads, dim);
  rows.q = strobe::token_major(layer.q.data(), 0, q_heads, dim);  // rotated in place
  rows.kv = a.kv;
  rows.rotary = {layer.cosines.data(), layer.sines.data(), dim / 2, dim, false};
  rows.bounds = bounds;
  rows.lengths = a.lengths;
  rows.head_dim = rows.value_dim = dim;

  example::require(strobe::append(rows, device, stream));
  example::require(decoding ? strobe::decode(a, device, workspace, stream)
                            : strobe::prefill(a, device, workspace, stream));
  // [docs: end]
}

/// Runs `work` on a stream of its own, from a graph where there is one: captured at the first call.
class Replayed {
 public:
  explicit Replayed(std::function<void(cudaStream_t)> work) : work_(std::move(work)) {}
#if STROBE_HOST_EXECUTION
  void operator()() { work_(nullptr); }
#else
  void operator()() {
    if (graph_ == nullptr) {
      // [docs: capture]
      cudaGraph_t captured;
      example::require(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking));
      example::require(cudaStreamBeginCapture(stream_, cudaStreamCaptureModeThreadLocal));
      work_(stream_);
      example::require(cudaStreamEndCapture(stream_, &captured));
      example::require(cudaGraphInstantiate(&graph_, captured, 0));
      example::require(cudaGraphDestroy(captured));
      // [docs: end]
    }
    example::require(cudaGraphLaunch(graph_, stream_));
    example::require(cudaStreamSynchronize(stream_));
  }
  ~Replayed() {
    if (graph_ != nullptr) (void)cudaGraphExecDestroy(graph_);
    if (stream_ != nullptr) (void)cudaStreamDestroy(stream_);
  }

 private:
  cudaStream_t stream_ = nullptr;
  cudaGraphExec_t graph_ = nullptr;
#endif
 private:
  std::function<void(cudaStream_t)> work_;
};

/// The rows of one sequence, as they came: what the check at the end needs.
struct History {
  std::vector<T> q, k, v, o;
};

void take(std::vector<T>& to, const std::vector<T>& from, int64_t row, int64_t rows,
          int64_t width) {
  to.insert(to.end(), from.begin() + row * width, from.begin() + (row + rows) * width);
}

}  // namespace

int main() {
  const std::vector<int> prompts{37, 5, 61};
  const int sequences = int(prompts.size()), steps = 20, longest = 61 + steps;
  const int tokens = std::accumulate(prompts.begin(), prompts.end(), 0);
  const int table_stride = (longest + page_size - 1) / page_size, pool_pages = 32;

  strobe::Device device;
  example::require(strobe::current_device(&device));

  // Rotary tables, by position.
  std::vector<float> cosines, sines;
  for (int position = 0; position < longest; ++position)
    for (int i = 0; i < dim / 2; ++i) {
      const double angle = position * std::pow(10000.0, -2.0 * i / dim);
      cosines.push_back(float(std::cos(angle)));
      sines.push_back(float(std::sin(angle)));
    }
  const int64_t pool = int64_t(pool_pages) * page_size * kv_row;
  const auto size = [](int64_t elements) { return static_cast<size_t>(elements); };
  const Layer layer{example::Array<T>(size(tokens * q_row)),
                    example::Array<T>(size(tokens * kv_row)),
                    example::Array<T>(size(tokens * kv_row)),
                    example::Array<T>(size(tokens * q_row)),
                    example::Array<T>(size(pool)),
                    example::Array<T>(size(pool)),
                    example::Array<float>(cosines),
                    example::Array<float>(sines),
                    example::Array<int>(size(sequences + 1)),
                    example::Array<int>(size(sequences)),
                    example::Array<int>(size(int64_t(sequences) * table_stride))};

  // Launches follow these bounds, results the lengths on the device.
  const strobe::Bounds prefilling{sequences, 61, 61, q_heads, kv_heads},
      decoding{sequences, 1, longest, q_heads, kv_heads};
  const size_t bytes = std::max({strobe::prefill_workspace_bytes<Attention>(prefilling, device),
                                 strobe::decode_workspace_bytes<Attention>(decoding, device),
                                 strobe::workspace_header_bytes});
  const example::Array<unsigned char> scratch(bytes);
  const strobe::Workspace workspace{scratch.data(), bytes};
  example::require(strobe::init_workspace(workspace, nullptr));

  PageTable pages(sequences, table_stride, pool_pages);
  std::vector<int> lengths = prompts;
  std::vector<History> history(size(sequences));
  Replayed replayed([&](cudaStream_t stream) {
    step(layer, decoding, table_stride, true, device, workspace, stream);
  });

  for (int t = 0; t <= steps; ++t) {
    // The engine's part: how many new tokens each sequence has, pages for them, their rows.
    std::vector<int> offsets{0};
    for (int s = 0; s < sequences; ++s) {
      if (t > 0) ++lengths[size(s)];
      offsets.push_back(offsets.back() + (t == 0 ? prompts[size(s)] : 1));
      pages.reserve(s, lengths[size(s)]);
    }
    const int rows = offsets.back();
    const std::vector<T> q = random_rows(rows * q_row), k = random_rows(rows * kv_row),
                         v = random_rows(rows * kv_row);
    layer.q.write(q);
    layer.k.write(k);
    layer.v.write(v);
    layer.q_offsets.write(offsets);
    layer.kv_lens.write(lengths);
    layer.table.write(pages.entries());

    if (t == 0)
      step(layer, prefilling, table_stride, false, device, workspace, nullptr);
    else
      replayed();

    const std::vector<T> o = layer.o.to_host();
    for (int s = 0; s < sequences; ++s) {
      const int begin = offsets[size(s)], count = offsets[size(s) + 1] - begin;
      History& h = history[size(s)];
      take(h.q, q, begin, count, q_row);
      take(h.k, k, begin, count, kv_row);
      take(h.v, v, begin, count, kv_row);
      take(h.o, o, begin, count, q_row);
    }
  }

  // Each sequence at once, without a cache of pages.
  double worst = 0;
  for (int s = 0; s < sequences; ++s) {
    const History& h = history[size(s)];
    const int length = lengths[size(s)];
    const example::Array<T> q(h.q), k(h.k), v(h.v), cache_k(h.k.size()), cache_v(h.v.size()),
        o(h.o.size());
    strobe::Attention<T, dim, strobe::Causal> whole;
    whole.q = strobe::token_major<const T>(q.data(), length, q_heads, dim);
    whole.kv.k = strobe::token_major<const T>(cache_k.data(), length, kv_heads, dim);
    whole.kv.v = strobe::token_major<const T>(cache_v.data(), length, kv_heads, dim);
    whole.o = strobe::token_major(o.data(), length, q_heads, dim);
    whole.bounds = {1, length, length, q_heads, kv_heads};
    strobe::Append<T> rows;
    rows.k = strobe::token_major<const T>(k.data(), length, kv_heads, dim);
    rows.v = strobe::token_major<const T>(v.data(), length, kv_heads, dim);
    rows.q = strobe::token_major(q.data(), length, q_heads, dim);
    rows.kv = whole.kv;
    rows.rotary = {layer.cosines.data(), layer.sines.data(), dim / 2, dim, false};
    rows.bounds = whole.bounds;
    rows.head_dim = rows.value_dim = dim;
    example::require(strobe::append(rows, device, nullptr));
    example::require(strobe::prefill(whole, device, strobe::Workspace{}, nullptr));
    const std::vector<T> expected = o.to_host();
    for (size_t i = 0; i < expected.size(); ++i) {
      const double error =
          std::fabs(double(__half2float(h.o[i])) - double(__half2float(expected[i])));
      worst = error <= worst ? worst : error;  // NaN becomes the worst, and stays
    }
  }
  std::printf(
      "%d prompts, then %d steps of a token each through pages of %d: at most %.1e from whole "
      "sequences, on %s\n",
      sequences, steps, page_size, worst, example::place());
  return worst <= 2e-3 ? 0 : 1;
}
