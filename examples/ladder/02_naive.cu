// SPDX-License-Identifier: MIT
// Step 2: the same three loops as three kernels, one GPU thread an element. fp32.
//
// Idea    S = Q K^T, softmax of its rows, O = P V: every element of S and of O is independent of
//         its neighbours, so each gets a thread. The whole S x S matrix lies in global memory
//         between the kernels.
//
// Limit   Loads, mostly those of the first kernel. A multiply-add there needs two numbers. The 32
//         threads of a warp stand at 32 neighbouring keys and one query: its number is the same for
//         all (one access), but their K values are 256 bytes apart, which the L1 cache serves one
//         a clock: 33 clocks of an SM for 32 multiply-adds, where its lanes could do 128 a clock.
//         In P V neighbouring threads read neighbouring V values: 2 clocks for 32. Both together:
//         64 multiply-adds in 35 clocks, 1.8 a clock, about 70 times less than the lanes could do.
//         S itself, 4 S^2 bytes a head, is written twice and read four times; next to that it does
//         not show yet.
#include "ladder.cuh"

namespace {

constexpr int head_dim = ladder::head_dim;

// One thread: one element of S. A causal query does not see later keys; their elements are not
// written.
__global__ void scores(const float* q, const float* k, float* s, int len, bool causal) {
  const int key = int(blockIdx.x * blockDim.x + threadIdx.x);
  const int query = int(blockIdx.y * blockDim.y + threadIdx.y);
  const size_t head = blockIdx.z;
  if (key >= len || query >= len || (causal && key > query)) return;
  q += (head * len + query) * head_dim;
  k += (head * len + key) * head_dim;
  float dot = 0.f;
  for (int d = 0; d < head_dim; ++d) dot += q[d] * k[d];
  s[(head * len + query) * len + key] = dot * ladder::scale;
}

__device__ float warp_max(float x) {
  for (int lane = 16; lane > 0; lane /= 2) x = fmaxf(x, __shfl_xor_sync(0xffffffffu, x, lane));
  return x;
}
__device__ float warp_sum(float x) {
  for (int lane = 16; lane > 0; lane /= 2) x += __shfl_xor_sync(0xffffffffu, x, lane);
  return x;
}

// One warp: one row of S becomes a row of P.
__global__ void softmax(float* s, int len, bool causal) {
  const int query = int(blockIdx.x * blockDim.y + threadIdx.y);
  const int lane = int(threadIdx.x);
  if (query >= len) return;
  const int visible = causal ? query + 1 : len;
  s += (size_t(blockIdx.y) * len + query) * len;
  float largest = -INFINITY, sum = 0.f;
  for (int key = lane; key < visible; key += 32) largest = fmaxf(largest, s[key]);
  largest = warp_max(largest);
  for (int key = lane; key < visible; key += 32) sum += __expf(s[key] - largest);
  const float inverse = 1.f / warp_sum(sum);
  for (int key = lane; key < visible; key += 32) s[key] = __expf(s[key] - largest) * inverse;
}

// One thread: one element of O.
__global__ void weighted_sum(const float* p, const float* v, float* o, int len, bool causal) {
  const int d = int(threadIdx.x);
  const int query = int(blockIdx.x * blockDim.y + threadIdx.y);
  const size_t head = blockIdx.y;
  if (query >= len) return;
  const int visible = causal ? query + 1 : len;
  p += (head * len + query) * len;
  v += head * len * head_dim;
  float sum = 0.f;
  for (int key = 0; key < visible; ++key) sum += p[key] * v[key * head_dim + d];
  o[(head * len + query) * head_dim + d] = sum;
}

}  // namespace

int main(int argc, char** argv) {
  const ladder::Step step{"02_naive", "three kernels, one thread an element, S in global memory",
                          "loads from L1: 33 clocks of an SM for 32 multiply-adds of Q K^T", 2e-5};
  const ladder::Options options = ladder::parse(argc, argv, step);
  const size_t len = size_t(options.largest_len());
  const ladder::Array<float> s(size_t(options.heads) * len * len);
  const double model = ladder::gpu().tflops(64.0 / 35);
  return ladder::prefill<float>(step, options, model, [&](const ladder::Tensors<float>& t) {
    const unsigned heads = unsigned(t.heads), warps = 8;  // 8 warps a block
    const unsigned row_blocks = ladder::ceil_div(t.len, warps);
    ladder::launch(scores, dim3(ladder::ceil_div(t.len, 32), row_blocks, heads), dim3(32, warps),
                   t.q, t.k, s.data(), t.len, t.causal);
    ladder::launch(softmax, dim3(row_blocks, heads), dim3(32, warps), s.data(), t.len, t.causal);
    ladder::launch(weighted_sum, dim3(ladder::ceil_div(t.len, 4), heads), dim3(head_dim, 4),
                   s.data(), t.v, t.o, t.len, t.causal);
  });
}
