// SPDX-License-Identifier: MIT
// Step 5, decode: one query token, split over the keys. fp16 in and out, fp32 between: the decode
// design of flash-attention-cuda v2, the project strobe grew from, written anew.
//
// Idea    One query row a head: nothing to reuse, K and V are read once, and reading them is all
//         that matters. A block a head would leave most SMs idle: 12 blocks on an H200's 132. So
//         the keys are cut into chunks, a block each, and a second kernel merges the partial
//         results. The chunk is as large as can be while there are two blocks an SM
//         (choose_decode_split). Timed both ways.
//
// Limit   Bytes in flight. A warp loads 4 keys, 1 KB of K and V, and waits for them, then for the 5
//         shuffles that make a logit, before it loads the next 4. With 2 blocks of 4 warps an SM
//         has at most 8 KB on the way; memory takes some 500 clocks to answer (published
//         microbenchmarks of Hopper) and the arithmetic about as long again, so 8 bytes a clock and
//         SM or less: 2 TB/s on an H200, whose memory could do 4.8. A short context hardly reads at
//         all: there it is two launches and a merge, one after the other.
#include <strobe/schedule.hpp>

#include "ladder.cuh"

namespace {

constexpr int head_dim = ladder::head_dim;
constexpr int warps = 4, threads = 32 * warps;
constexpr int batch = 4;                      // keys a warp has on the way
constexpr int partial_floats = head_dim + 2;  // acc, then m and l
constexpr float lowest = -1e30f;              // lowest - lowest is 0, not NaN
// exp(x) = exp2(x log2(e)), and exp2 is what the hardware has: log2(e) goes into q with the scale.
constexpr float scale_log2 = ladder::scale * 1.44269504f;

struct WarpPartials {
  float acc[warps][head_dim];
  float m[warps], l[warps];
};

__device__ float warp_sum(float x) {
  for (int lane = 16; lane > 0; lane /= 2) x += __shfl_xor_sync(0xffffffffu, x, lane);
  return x;
}

// One block: one chunk of one head's keys. Each warp has an online softmax (step 4) of its own, in
// which a lane keeps two of the dims; at the end the four are folded.
__global__ void __launch_bounds__(threads)
    decode_chunk(const __half* q, const __half* k, const __half* v, float* partials, int len,
                 int chunk) {
  LADDER_SHARED(WarpPartials, shared);
  const int thread = int(threadIdx.x), warp = thread / 32, lane = thread % 32;
  const int head = int(blockIdx.y), first = int(blockIdx.x) * chunk;
  const int end = first + chunk < len ? first + chunk : len;
  const size_t head_offset = size_t(head) * size_t(len) * head_dim;
  const __half2* k2 = reinterpret_cast<const __half2*>(k + head_offset) + lane;
  const __half2* v2 = reinterpret_cast<const __half2*>(v + head_offset) + lane;
  float2 query = __half22float2(reinterpret_cast<const __half2*>(q)[head * (head_dim / 2) + lane]);
  query.x *= scale_log2, query.y *= scale_log2;

  float m = lowest, l = 0.f;
  float2 acc = make_float2(0.f, 0.f);
  for (int key = first + batch * warp; key < end; key += batch * warps) {
    __half2 x[batch], y[batch];
#pragma unroll
    for (int i = 0; i < batch; ++i) {
      const int inside = key + i < end ? key + i : end - 1;
      x[i] = k2[size_t(inside) * (head_dim / 2)];
      y[i] = v2[size_t(inside) * (head_dim / 2)];
    }
    float logit[batch], new_m = m;
#pragma unroll
    for (int i = 0; i < batch; ++i) {
      const float2 dims = __half22float2(x[i]);
      const float dot = warp_sum(query.x * dims.x + query.y * dims.y);
      logit[i] = key + i < end ? dot : -INFINITY;
      new_m = fmaxf(new_m, logit[i]);
    }
    const float correction = exp2f(m - new_m);
    m = new_m;
    l *= correction;
    acc.x *= correction, acc.y *= correction;
#pragma unroll
    for (int i = 0; i < batch; ++i) {
      const float2 dims = __half22float2(y[i]);
      const float p = exp2f(logit[i] - m);
      l += p;
      acc.x += p * dims.x, acc.y += p * dims.y;
    }
  }

  shared.acc[warp][2 * lane] = acc.x;
  shared.acc[warp][2 * lane + 1] = acc.y;
  if (lane == 0) shared.m[warp] = m, shared.l[warp] = l;
  __syncthreads();
  if (thread >= head_dim) return;
  float block_m = lowest, block_l = 0.f, sum = 0.f;
  for (int w = 0; w < warps; ++w) block_m = fmaxf(block_m, shared.m[w]);
  for (int w = 0; w < warps; ++w) {
    const float factor = exp2f(shared.m[w] - block_m);  // a warp without keys has l = 0, acc = 0
    block_l += factor * shared.l[w];
    sum += factor * shared.acc[w][thread];
  }
  float* partial = partials + (size_t(head) * gridDim.x + blockIdx.x) * partial_floats;
  partial[thread] = sum;
  if (thread == 0) partial[head_dim] = block_m, partial[head_dim + 1] = block_l;
}

// One block: one head, a thread a dim. Always in the order of the keys: the same bits every time.
__global__ void __launch_bounds__(head_dim)
    merge_chunks(const float* partials, __half* o, int chunks) {
  const int d = int(threadIdx.x), head = int(blockIdx.x);
  partials += size_t(head) * size_t(chunks) * partial_floats;
  float m = lowest, l = 0.f, sum = 0.f;
  for (int i = 0; i < chunks; ++i) m = fmaxf(m, partials[i * partial_floats + head_dim]);
  for (int i = 0; i < chunks; ++i) {
    const float* partial = partials + i * partial_floats;
    const float factor = exp2f(partial[head_dim] - m);
    l += factor * partial[head_dim + 1];
    sum += factor * partial[d];
  }
  o[head * head_dim + d] = __float2half_rn(sum / l);
}

}  // namespace

int main(int argc, char** argv) {
  const ladder::Step one_block{"05_one_block", "decode, one block a head",
                               "as many SMs at work as there are heads", 2e-3};
  const ladder::Step split_k{"05_split_k", "decode, the keys split over the machine, then merged",
                             "bytes in flight: 8 KB an SM, then two launches in a row", 2e-3};
  const ladder::Options options = ladder::parse(argc, argv, split_k);
  const int min_blocks = 2 * ladder::gpu().sm_count;
  const size_t most_chunks = ladder::ceil_div(options.largest_len(), 128);
  const ladder::Array<float> partials(size_t(options.heads) * most_chunks * partial_floats);

  int status = 0;
  for (const bool split : {false, true}) {
    const auto chunk_of = [&](int len) {
      return split ? strobe::choose_decode_split(len, 1, options.heads, min_blocks) : len;
    };
    const auto decode = [&](const ladder::Tensors<__half>& t) {
      const int chunk = chunk_of(t.len);
      const unsigned chunks = ladder::ceil_div(t.len, chunk), heads = unsigned(t.heads);
      ladder::launch(decode_chunk, dim3(chunks, heads), dim3(threads), t.q, t.k, t.v,
                     partials.data(), t.len, chunk);
      ladder::launch(merge_chunks, dim3(heads), dim3(head_dim), partials.data(), t.o, int(chunks));
    };
    const auto note = [&](int len) {
      const int chunk = chunk_of(len), chunks = int(ladder::ceil_div(len, chunk));
      return std::to_string(options.heads * chunks) + " blocks of " + std::to_string(chunk) +
             " keys";
    };
    status |= ladder::decode<__half>(split ? split_k : one_block, options, decode, note);
  }
  return status;
}
