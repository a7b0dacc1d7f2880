// SPDX-License-Identifier: MIT
// Step 3: the same three kernels, the two matrix products tiled through shared memory. fp32.
//
// Idea    A block of 32 x 32 threads makes a 32 x 32 tile of the product. It copies a slab of each
//         factor to shared memory once, in whole rows, and each number there serves 32 threads. The
//         loads from global memory shrink by 32, and none of them is scattered any more.
//
// Limit   Shared memory, which returns one 4-byte register to the 32 threads of a warp in a clock.
// A
//         multiply-add still needs two numbers. One is the thread's own: 1 clock for the warp. The
//         other is the same for the whole warp and read in fours; such a float4 takes 2 clocks
//         instead of 4, half a clock a number. So 1.5 clocks for a warp's 32 multiply-adds: 21 a
//         clock, where the lanes could do 128. Behind that waits the memory traffic of S: 4 S^2
//         bytes a head go by six times (written by the first kernel, read three times and written
//         once by softmax, read by the last); for 12 heads and S = 4096 4.8 GB, a millisecond at
//         4.8 TB/s.
#include "ladder.cuh"

namespace {

constexpr int head_dim = ladder::head_dim;
constexpr int tile = 32;

struct ScoreTiles {
  float q[tile][tile];
  // [key][dim]; one column more than it has, so that the 32 keys a warp reads lie in 32 banks.
  float k[tile][tile + 1];
};

// One block: 32 queries x 32 keys of S.
__global__ void scores(const float* q, const float* k, float* s, int len, bool causal) {
  LADDER_SHARED(ScoreTiles, tiles);
  const int x = int(threadIdx.x), y = int(threadIdx.y);
  const int first_key = int(blockIdx.x) * tile, first_query = int(blockIdx.y) * tile;
  const size_t head = blockIdx.z;
  if (causal && first_key > first_query + tile - 1) return;  // no query of the block sees a key
  q += head * len * head_dim;
  k += head * len * head_dim;
  float dot = 0.f;
  for (int slab = 0; slab < head_dim; slab += tile) {
    const int query = first_query + y, key = first_key + y;
    tiles.q[y][x] = query < len ? q[query * head_dim + slab + x] : 0.f;
    tiles.k[y][x] = key < len ? k[key * head_dim + slab + x] : 0.f;
    __syncthreads();
    for (int d = 0; d < tile; ++d) dot += tiles.q[y][d] * tiles.k[x][d];
    __syncthreads();
  }
  if (first_query + y < len && first_key + x < len)
    s[(head * len + first_query + y) * len + first_key + x] = dot * ladder::scale;
}

__device__ float warp_max(float x) {
  for (int lane = 16; lane > 0; lane /= 2) x = fmaxf(x, __shfl_xor_sync(0xffffffffu, x, lane));
  return x;
}
__device__ float warp_sum(float x) {
  for (int lane = 16; lane > 0; lane /= 2) x += __shfl_xor_sync(0xffffffffu, x, lane);
  return x;
}

// One warp: one row, as in step 2; but the tiles of the last kernel also hold elements that a
// causal query does not see, so these become 0.
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
  for (int key = lane; key < len; key += 32)
    s[key] = key < visible ? __expf(s[key] - largest) * inverse : 0.f;
}

struct SumTiles {
  float p[tile][tile];
  float v[tile][tile];
};

// One block: 32 queries x 32 dims of O.
__global__ void weighted_sum(const float* p, const float* v, float* o, int len, bool causal) {
  LADDER_SHARED(SumTiles, tiles);
  const int x = int(threadIdx.x), y = int(threadIdx.y);
  const int first_dim = int(blockIdx.x) * tile, first_query = int(blockIdx.y) * tile;
  const int query = first_query + y;
  const size_t head = blockIdx.z;
  p += head * len * len;
  v += head * len * head_dim;
  float sum = 0.f;
  // Tiles right of the diagonal are all zeros and not read.
  const int end = causal && first_query + tile < len ? first_query + tile : len;
  for (int slab = 0; slab < end; slab += tile) {
    tiles.p[y][x] = query < len && slab + x < len ? p[size_t(query) * len + slab + x] : 0.f;
    tiles.v[y][x] = slab + y < len ? v[(slab + y) * head_dim + first_dim + x] : 0.f;
    __syncthreads();
    for (int key = 0; key < tile; ++key) sum += tiles.p[y][key] * tiles.v[key][x];
    __syncthreads();
  }
  if (query < len) o[(head * len + query) * head_dim + first_dim + x] = sum;
}

}  // namespace

int main(int argc, char** argv) {
  const ladder::Step step{
      "03_tiled", "the same, its matrix products tiled through shared memory",
      "shared memory: 1.5 clocks of an SM for 32 multiply-adds; then S's way through memory", 2e-5};
  const ladder::Options options = ladder::parse(argc, argv, step);
  const size_t len = size_t(options.largest_len());
  const ladder::Array<float> s(size_t(options.heads) * len * len);
  const double model = ladder::gpu().tflops(32 / 1.5);
  return ladder::prefill<float>(step, options, model, [&](const ladder::Tensors<float>& t) {
    const unsigned heads = unsigned(t.heads), tiles = ladder::ceil_div(t.len, tile);
    ladder::launch(scores, dim3(tiles, tiles, heads), dim3(tile, tile), t.q, t.k, s.data(), t.len,
                   t.causal);
    ladder::launch(softmax, dim3(ladder::ceil_div(t.len, 8), heads), dim3(32, 8), s.data(), t.len,
                   t.causal);
    ladder::launch(weighted_sum, dim3(head_dim / tile, tiles, heads), dim3(tile, tile), s.data(),
                   t.v, t.o, t.len, t.causal);
  });
}
