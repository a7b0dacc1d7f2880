// SPDX-License-Identifier: MIT
// Step 4: FlashAttention in its plainest form. One kernel, one thread a query row. fp32.
//
// Idea    S never exists. A thread walks over the keys with three things in registers: the largest
//         logit so far m, the sum of exp(logit - m) so far l, and the weighted sum of value rows so
//         far o[64]. When a key has a larger logit, l and o shrink by exp(old m - new m); at the
//         end o / l is the row of O. (Online softmax: Milakov and Gimelshein 2018; with tiles:
//         Dao et al. 2022.) A block's 128 threads share tiles of 32 keys in shared memory.
//
// Limit   Shared memory again, but a third as much of it: the query and o are in registers, so a
//         multiply-add takes one number from shared memory, the same for the whole warp and read in
//         fours, half a clock a number (step 3). That is 64 multiply-adds a clock of the 128 that
//         the lanes could do. The lanes come next: besides 128 multiply-adds a key they do 64
//         multiplications o *= correction, which leaves 85 of 128. Global memory no longer matters:
//         a block reads K and V once for its 128 rows, 4 bytes for 128 multiply-adds.
#include "ladder.cuh"

namespace {

constexpr int head_dim = ladder::head_dim;
constexpr int block_rows = 128;  // one thread each
constexpr int block_keys = 32;

struct Tiles {
  float4 k[block_keys][head_dim / 4];
  float4 v[block_keys][head_dim / 4];
};

// One block: 128 query rows of one head.
__global__ void __launch_bounds__(block_rows)
    attention(const float* q, const float* k, const float* v, float* o, int len, bool causal) {
  LADDER_SHARED(Tiles, tiles);
  const int first_row = int(blockIdx.x) * block_rows;
  const int row = first_row + int(threadIdx.x);
  const size_t head_offset = size_t(blockIdx.y) * len * head_dim;
  const float4* q4 = reinterpret_cast<const float4*>(q + head_offset);
  const float4* k4 = reinterpret_cast<const float4*>(k + head_offset);
  const float4* v4 = reinterpret_cast<const float4*>(v + head_offset);
  float4* o4 = reinterpret_cast<float4*>(o + head_offset);
  const float4 zero = make_float4(0.f, 0.f, 0.f, 0.f);

  float4 q_row[head_dim / 4], o_row[head_dim / 4];
  float m = -INFINITY, l = 0.f;
#pragma unroll
  for (int d = 0; d < head_dim / 4; ++d) {
    q_row[d] = row < len ? q4[row * (head_dim / 4) + d] : zero;
    o_row[d] = zero;
  }

  // How far this row sees, and how far any row of the block does.
  const int visible = row >= len ? 0 : causal ? row + 1 : len;
  const int block_end = causal && first_row + block_rows < len ? first_row + block_rows : len;
  for (int first_key = 0; first_key < block_end; first_key += block_keys) {
    __syncthreads();  // the tile before has been used by all
    for (int i = int(threadIdx.x); i < block_keys * (head_dim / 4); i += block_rows) {
      const int key = i / (head_dim / 4), d = i % (head_dim / 4);
      const bool inside = first_key + key < len;
      tiles.k[key][d] = inside ? k4[first_key * (head_dim / 4) + i] : zero;
      tiles.v[key][d] = inside ? v4[first_key * (head_dim / 4) + i] : zero;
    }
    __syncthreads();

    const int end = visible - first_key < block_keys ? visible - first_key : block_keys;
    for (int key = 0; key < end; ++key) {
      float dot = 0.f;
#pragma unroll
      for (int d = 0; d < head_dim / 4; ++d) {
        const float4 x = tiles.k[key][d];
        dot += q_row[d].x * x.x;
        dot += q_row[d].y * x.y;
        dot += q_row[d].z * x.z;
        dot += q_row[d].w * x.w;
      }
      const float logit = dot * ladder::scale;
      const float new_m = fmaxf(m, logit);
      const float correction = __expf(m - new_m);  // 1 unless this is the largest yet
      const float p = __expf(logit - new_m);
      m = new_m;
      l = l * correction + p;
#pragma unroll
      for (int d = 0; d < head_dim / 4; ++d) {
        const float4 x = tiles.v[key][d];
        o_row[d].x = o_row[d].x * correction + p * x.x;
        o_row[d].y = o_row[d].y * correction + p * x.y;
        o_row[d].z = o_row[d].z * correction + p * x.z;
        o_row[d].w = o_row[d].w * correction + p * x.w;
      }
    }
  }

  if (row >= len) return;
  const float inverse = 1.f / l;
#pragma unroll
  for (int d = 0; d < head_dim / 4; ++d)
    o4[row * (head_dim / 4) + d] = make_float4(o_row[d].x * inverse, o_row[d].y * inverse,
                                               o_row[d].z * inverse, o_row[d].w * inverse);
}

}  // namespace

int main(int argc, char** argv) {
  const ladder::Step step{"04_fused",
                          "one kernel with online softmax, one thread a query row; S never exists",
                          "shared memory: half a clock of an SM for 32 multiply-adds", 2e-5};
  const ladder::Options options = ladder::parse(argc, argv, step);
  const double model = ladder::gpu().tflops(64);
  return ladder::prefill<float>(step, options, model, [](const ladder::Tensors<float>& t) {
    const dim3 grid(ladder::ceil_div(t.len, block_rows), unsigned(t.heads));
    ladder::launch(attention, grid, dim3(block_rows), t.q, t.k, t.v, t.o, t.len, t.causal);
  });
}
