// SPDX-License-Identifier: MIT
// The grid that flash-attention-cuda, the project strobe grew from, tested: head dimension 64,
// fp16, judged by the largest absolute error against an fp32 reference rounded to fp16. The
// reference is a plain CUDA kernel, itself checked against the fp64 oracle. Empty under host
// execution.
#include "support/case.hpp"

#if !STROBE_HOST_EXECUTION

using namespace strobe_test;

namespace {

constexpr int dim = 64;
// The limits of FlashAttention-2 on the same inputs; never to be raised.
constexpr double limit_full = 4.9e-4, limit_causal = 1.96e-3;

// Attention in fp32, one block a query row, [batch, head, token, dim] contiguous. Every thread
// takes its own keys; shared memory holds the row's probabilities.
__global__ void fp32_reference(const __half* q, const __half* k, const __half* v, __half* o, int n,
                               int causal) {
  extern __shared__ float p[];
  __shared__ float partial[32];
  __shared__ float row[dim];
  const int t = int(blockIdx.x), thread = int(threadIdx.x), threads = int(blockDim.x);
  const int64_t head = int64_t(blockIdx.y) * n * dim;
  const int keys = causal ? t + 1 : n;
  if (thread < dim) row[thread] = __half2float(q[head + int64_t(t) * dim + thread]);
  __syncthreads();
  const auto reduce = [&](float x, auto combine) {
    for (int lane = 16; lane > 0; lane /= 2) x = combine(x, __shfl_xor_sync(~0u, x, lane));
    if (thread % 32 == 0) partial[thread / 32] = x;
    __syncthreads();
    for (int w = 0; w < threads / 32; ++w) x = combine(x, partial[w]);
    __syncthreads();
    return x;
  };
  float largest = -INFINITY;
  for (int key = thread; key < keys; key += threads) {
    float s = 0.f;
    for (int d = 0; d < dim; ++d) s += row[d] * __half2float(k[head + int64_t(key) * dim + d]);
    p[key] = s * 0.125f;
    largest = fmaxf(largest, p[key]);
  }
  largest = reduce(largest, [](float a, float b) { return fmaxf(a, b); });
  float sum = 0.f;
  for (int key = thread; key < keys; key += threads) {
    p[key] = expf(p[key] - largest);
    sum += p[key];
  }
  // Every warp's share once: reduce() adds the own share again, so it starts from none.
  for (int lane = 16; lane > 0; lane /= 2) sum += __shfl_xor_sync(~0u, sum, lane);
  if (thread % 32 == 0) partial[thread / 32] = sum;
  __syncthreads();
  float total = 0.f;
  for (int w = 0; w < threads / 32; ++w) total += partial[w];
  if (thread < dim) {
    float out = 0.f;
    for (int key = 0; key < keys; ++key)
      out += p[key] * __half2float(v[head + int64_t(key) * dim + thread]);
    o[head + int64_t(t) * dim + thread] = __float2half_rn(out / total);
  }
}

struct Tensors {
  Tensors(int batch, int heads, int n, uint64_t seed)
      : elements(size_t(batch) * size_t(heads) * size_t(n) * dim),
        q(normal(seed)),
        k(normal(seed + 1)),
        v(normal(seed + 2)),
        o(std::vector<__half>(elements)),
        reference(std::vector<__half>(elements)) {}
  std::vector<__half> normal(uint64_t seed) const {
    std::vector<__half> values(elements);
    parallel_for(int64_t(elements / dim), [&](int64_t i) {
      Random random(seed * 0x100000001b3ull + uint64_t(i));
      for (size_t d = 0; d < dim; ++d)
        values[size_t(i) * dim + d] = __float2half_rn(random.normal());
    });
    return values;
  }
  size_t elements;
  Buffer<__half> q, k, v, o, reference;
};

template <class Mask>
double largest_error(const Tensors& t, int batch, int heads, int n) {
  strobe::Attention<__half, dim, Mask> a;
  a.q = strobe::head_major<const __half>(t.q.data(), heads, n, dim);
  a.kv.k = strobe::head_major<const __half>(t.k.data(), heads, n, dim);
  a.kv.v = strobe::head_major<const __half>(t.v.data(), heads, n, dim);
  a.o = strobe::head_major(t.o.data(), heads, n, dim);
  a.bounds = {batch, n, n, heads, heads};
  require_ok(strobe::prefill(a, test_device(), {}, nullptr));
  constexpr bool causal = std::is_same_v<Mask, strobe::Causal>;
  fp32_reference<<<dim3(unsigned(n), unsigned(batch * heads)), 128, size_t(n) * sizeof(float)>>>(
      t.q.data(), t.k.data(), t.v.data(), t.reference.data(), n, causal);
  finish();
  const std::vector<__half> o = t.o.download(), reference = t.reference.download();
  double worst = 0.0;
  for (size_t i = 0; i < o.size(); ++i) {
    const double error = std::fabs(double(to_float(o[i])) - double(to_float(reference[i])));
    worst = error <= worst ? worst : error;  // NaN becomes the worst, and stays
    if (std::isnan(error)) return error;
  }
  CHECK(t.o.guard_damage().empty());
  return worst;
}

void check_grid_cell(int batch, int heads, int n, double& worst_full, double& worst_causal) {
  const Tensors t(batch, heads, n, uint64_t(batch * 1000000 + heads * 10000 + n));
  const double full = largest_error<strobe::Full>(t, batch, heads, n);
  const double causal = largest_error<strobe::Causal>(t, batch, heads, n);
  INFO("batch " << batch << ", heads " << heads << ", tokens " << n);
  CHECK(full <= limit_full);
  CHECK(causal <= limit_causal);
  worst_full = full <= worst_full ? worst_full : full;
  worst_causal = causal <= worst_causal ? worst_causal : causal;
}

}  // namespace

STROBE_TEST_CASE("the fp32 reference agrees with the fp64 oracle", "") {
  constexpr int n = 130, heads = 2;
  const Tensors t(1, heads, n, 3);
  std::vector<float> q, k, v;
  for (const auto& [from, to] : {std::pair{&t.q, &q}, {&t.k, &k}, {&t.v, &v}})
    for (const __half x : from->host) to->push_back(to_float(x));
  const auto compare = [&](auto mask) {
    using Mask = decltype(mask);
    (void)largest_error<Mask>(t, 1, heads, n);
    const std::vector<__half> reference = t.reference.download();
    double worst = 0.0;
    for (int h = 0; h < heads; ++h) {
      const size_t at = size_t(h) * n * dim;
      const Head head{&q[at], &k[at], &v[at], 0, h, h, n, n, dim, dim, 0.125f};
      for (int row = 0; row < n; ++row) {
        const ExpectedRow expected = expected_row<__half, __half>(
            head, row, Visible<Mask>(mask, head), Shaped<strobe::NoScore>(strobe::NoScore{}, head));
        for (size_t d = 0; d < dim; ++d) {
          const double got = double(to_float(reference[at + size_t(row) * dim + d]));
          // Half an ulp is the rounding; the rest is fp32.
          worst =
              std::max(worst, std::fabs(got - expected.o[d]) - 0.5 * ulp_at<__half>(expected.o[d]));
        }
      }
    }
    CHECK(worst < 2e-6);
  };
  compare(strobe::Full{});
  compare(strobe::Causal{});
}

STROBE_TEST_CASE("flash-attention-cuda's grid", "") {
  double full = 0.0, causal = 0.0;
  for (const int batch : {1, 4})
    for (const int heads : {8, 12, 14})
      for (const int n : {128, 512, 1024, 2048, 4096})
        check_grid_cell(batch, heads, n, full, causal);
  WARN("grid: largest error " << full << " full (limit " << limit_full << "), " << causal
                              << " causal (limit " << limit_causal << ")");
}

STROBE_TEST_CASE("flash-attention-cuda's ragged lengths", "") {
  double full = 0.0, causal = 0.0;
  for (const int n : {1, 37, 65, 130, 1023}) check_grid_cell(2, 5, n, full, causal);
  WARN("ragged: largest error " << full << " full, " << causal << " causal");
}

#endif
