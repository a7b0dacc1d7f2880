// SPDX-License-Identifier: MIT
// Step 5: register tiles. fp16 in and out, fp32 between: the prefill design of flash-attention-cuda
// v2, the project strobe grew from, written anew. Its decode is 05_split_k.cu.
//
// Idea    A thread owns a tile of S, 4 query rows x 4 keys: 4 + 4 numbers from shared memory make
// 16
//         multiply-adds, where step 4 makes one of one. A block is 64 rows x 32 keys, 128 threads
//         in 16 row groups x 8 column groups. Q and K lie in shared memory dim by dim, so that a
//         thread's four rows or keys are one float4; columns are swizzled (XOR), so that neither
//         this transposing write nor any read makes threads queue for a bank. The next K and V tile
//         travels from global memory to registers while this one is worked on.
//
// Limit   Shared memory still, but near the lanes now. A warp's float4 costs 4 clocks, or 2 if
//         neighbouring lanes share it (step 3), as Q's and P's do. Q K^T: 2 + 4 clocks a dim for 16
//         x 32 multiply-adds; P V: 2 + 4 + 4 clocks a key for 32 x 32. A tile takes 64 x 6 + 32 x
//         10 = 704 clocks for 65536 multiply-adds: 93 a clock, 73 % of what the lanes could do. The
//         tensor cores, with 16 times the lanes' rate, are not used.
#include "ladder.cuh"

namespace {

constexpr int head_dim = ladder::head_dim;
constexpr int block_q = 64, block_kv = 32, threads = 128;
constexpr float masked = -INFINITY, lowest = -1e30f;  // lowest - lowest is 0, not NaN
// exp(x) = exp2(x log2(e)), and exp2 is what the hardware has: log2(e) goes into Q with the scale.
constexpr float scale_log2 = ladder::scale * 1.44269504f;

// Where a tile keeps `column`: moved by 4 `shift`, in groups of four, which stay together.
__device__ int swizzled(int column, int shift) { return column ^ (4 * shift); }

struct Tiles {
  float q[head_dim][block_q];   // [dim][row],  swizzled by dim / 8
  float k[head_dim][block_kv];  // [dim][key],  swizzled by dim / 8
  float v[block_kv][head_dim];  // [key][dim]
  float p[block_kv][block_q];   // [key][row],  swizzled by key / 4
};

// 8 fp16 numbers: what one thread loads at once.
__device__ uint4 load_8(const __half* rows, int row, int part, int len) {
  if (row >= len) return make_uint4(0u, 0u, 0u, 0u);
  return *reinterpret_cast<const uint4*>(rows + size_t(row) * head_dim + 8 * part);
}
__device__ void unpack(uint4 raw, float (&x)[8]) {
  __half halves[8];
  memcpy(static_cast<void*>(halves), &raw, sizeof raw);
#pragma unroll
  for (int i = 0; i < 8; ++i) x[i] = __half2float(halves[i]);
}
__device__ void store_4(__half* to, const float* x) {
  const __half2 pairs[2] = {__floats2half2_rn(x[0], x[1]), __floats2half2_rn(x[2], x[3])};
  uint2 raw;
  memcpy(&raw, static_cast<const void*>(pairs), sizeof raw);
  *reinterpret_cast<uint2*>(to) = raw;
}
__device__ void read_4(const float* from, float (&x)[4]) {
  const float4 four = *reinterpret_cast<const float4*>(from);
  x[0] = four.x, x[1] = four.y, x[2] = four.z, x[3] = four.w;
}

// Over the 8 threads of a row group: neighbouring lanes.
__device__ float row_max(float x) {
  for (int lane = 1; lane < 8; lane *= 2) x = fmaxf(x, __shfl_xor_sync(0xffffffffu, x, lane));
  return x;
}
__device__ float row_sum(float x) {
  for (int lane = 1; lane < 8; lane *= 2) x += __shfl_xor_sync(0xffffffffu, x, lane);
  return x;
}

// One block: 64 query rows of one head.
__global__ void __launch_bounds__(threads)
    attention(const __half* q, const __half* k, const __half* v, __half* o, int len, bool causal) {
  LADDER_SHARED(Tiles, tiles);
  const int thread = int(threadIdx.x);
  const int row_group = thread / 8, column_group = thread % 8;  // of the tiles of S and O
  const int load_row = thread / 8, load_part = thread % 8;      // of 16 rows x 8 parts at once
  const int first_row = int(blockIdx.x) * block_q;
  const size_t head_offset = size_t(blockIdx.y) * size_t(len) * head_dim;
  q += head_offset, k += head_offset, v += head_offset, o += head_offset;

  for (int row = load_row; row < block_q; row += 16) {
    float x[8];
    unpack(load_8(q, first_row + row, load_part, len), x);
#pragma unroll
    for (int i = 0; i < 8; ++i)
      tiles.q[8 * load_part + i][swizzled(row, load_part)] = x[i] * scale_log2;
  }

  uint4 next_k[2], next_v[2];
  const auto fetch = [&](int first_key) {
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      next_k[i] = load_8(k, first_key + load_row + 16 * i, load_part, len);
      next_v[i] = load_8(v, first_key + load_row + 16 * i, load_part, len);
    }
  };

  // Of the thread's 4 rows; acc: dims 4 c .. 4 c + 3 and 32 + 4 c .. of column group c.
  float m[4], l[4], acc[4][8] = {};
#pragma unroll
  for (int r = 0; r < 4; ++r) m[r] = lowest, l[r] = 0.f;

  const int end = causal && first_row + block_q < len ? first_row + block_q : len;
  fetch(0);
  for (int first_key = 0; first_key < end; first_key += block_kv) {
    __syncthreads();  // the tile before has been used by all
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const int key = load_row + 16 * i;
      float x[8];
      unpack(next_k[i], x);
#pragma unroll
      for (int j = 0; j < 8; ++j) tiles.k[8 * load_part + j][swizzled(key, load_part)] = x[j];
      unpack(next_v[i], x);
#pragma unroll
      for (int j = 0; j < 8; ++j) tiles.v[key][8 * load_part + j] = x[j];
    }
    __syncthreads();
    if (first_key + block_kv < end) fetch(first_key + block_kv);

    // S = Q K^T, base-2 logits.
    float s[4][4] = {};
#pragma unroll 8
    for (int d = 0; d < head_dim; ++d) {
      float rows[4], keys[4];
      read_4(&tiles.q[d][swizzled(4 * row_group, d / 8)], rows);
      read_4(&tiles.k[d][swizzled(4 * column_group, d / 8)], keys);
#pragma unroll
      for (int r = 0; r < 4; ++r)
#pragma unroll
        for (int c = 0; c < 4; ++c) s[r][c] += rows[r] * keys[c];
    }

    // Online softmax. Only a tile that raises a row's largest logit rescales that row.
#pragma unroll
    for (int r = 0; r < 4; ++r) {
      const int row = first_row + 4 * row_group + r;
      float largest = m[r];
#pragma unroll
      for (int c = 0; c < 4; ++c) {
        const int key = first_key + 4 * column_group + c;
        if (key >= len || (causal && key > row)) s[r][c] = masked;
        largest = fmaxf(largest, s[r][c]);
      }
      largest = row_max(largest);
      if (largest > m[r]) {
        const float correction = exp2f(m[r] - largest);
        m[r] = largest;
        l[r] *= correction;
#pragma unroll
        for (int d = 0; d < 8; ++d) acc[r][d] *= correction;
      }
      float sum = 0.f;
#pragma unroll
      for (int c = 0; c < 4; ++c) sum += s[r][c] = exp2f(s[r][c] - m[r]);
      l[r] += row_sum(sum);
    }
#pragma unroll
    for (int c = 0; c < 4; ++c) {
      const int key = 4 * column_group + c;
      *reinterpret_cast<float4*>(&tiles.p[key][swizzled(4 * row_group, column_group)]) =
          make_float4(s[0][c], s[1][c], s[2][c], s[3][c]);
    }
    __syncwarp();  // a row group's P is written and read by one warp

    // O += P V.
#pragma unroll 4
    for (int key = 0; key < block_kv; ++key) {
      float p[4], low[4], high[4];
      read_4(&tiles.p[key][swizzled(4 * row_group, key / 4)], p);
      read_4(&tiles.v[key][4 * column_group], low);
      read_4(&tiles.v[key][head_dim / 2 + 4 * column_group], high);
#pragma unroll
      for (int r = 0; r < 4; ++r)
#pragma unroll
        for (int d = 0; d < 4; ++d) {
          acc[r][d] += p[r] * low[d];
          acc[r][4 + d] += p[r] * high[d];
        }
    }
  }

#pragma unroll
  for (int r = 0; r < 4; ++r) {
    const int row = first_row + 4 * row_group + r;
    if (row >= len) continue;
    const float inverse = 1.f / l[r];
#pragma unroll
    for (int d = 0; d < 8; ++d) acc[r][d] *= inverse;
    store_4(o + size_t(row) * head_dim + 4 * column_group, acc[r]);
    store_4(o + size_t(row) * head_dim + head_dim / 2 + 4 * column_group, acc[r] + 4);
  }
}

}  // namespace

int main(int argc, char** argv) {
  const ladder::Step step{
      "05_register_tiles", "register tiles of 4 x 4 and 4 x 8, swizzled shared memory, fp16",
      "shared memory: 704 clocks of an SM for a tile, the lanes need 512", 2e-3};
  const ladder::Options options = ladder::parse(argc, argv, step);
  const double model = ladder::gpu().tflops(65536.0 / 704);
  return ladder::prefill<__half>(step, options, model, [](const ladder::Tensors<__half>& t) {
    const dim3 grid(ladder::ceil_div(t.len, block_q), unsigned(t.heads));
    ladder::launch(attention, grid, dim3(threads), t.q, t.k, t.v, t.o, t.len, t.causal);
  });
}
