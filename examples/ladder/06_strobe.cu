// SPDX-License-Identifier: MIT
// Step 6: strobe's portable kernel through its public API. fp16 in and out, fp32 between.
//
// Idea    The same walk over the keys, its two matrix products on the tensor cores (mma.sync): a
//         warp's instruction makes 16 x 8 x 16 = 2048 multiply-adds, and P goes from one product to
//         the next in registers. Copies from global to shared memory (cp.async) run beside the
//         arithmetic without passing through registers. docs/design.md walks through a tile.
//
// Limit   On Hopper mma.sync reaches some 60 % of what its tensor cores can do with wgmma, the next
//         step: a quarter of an SM takes about 6.5 clocks for one of 2048 multiply-adds (published
//         microbenchmarks), 1260 a clock and SM. The exponentials take time of the same order: 16 a
//         clock and SM, one for 128 multiply-adds. Added up instead of overlapped the two would
//         leave 780 a clock. docs/tuning.md has the long version.
//
// Decode  A block works on all query heads that share a K/V head, and keeps several tiles of K and
//         V on the way in shared memory, so that enough bytes are in flight; the last block to
//         finish merges, without a second launch. The limit is reading K and V.
#include <strobe/decode.cuh>
#include <strobe/prefill.cuh>

#include "ladder.cuh"

namespace {

using Tensors = ladder::Tensors<__half>;

template <class Attention>
Attention attention_of(const Tensors& t, int q_len) {
  constexpr int head_dim = ladder::head_dim;
  Attention a;
  a.q = strobe::head_major(t.q, t.heads, q_len, head_dim);
  a.kv.k = strobe::head_major(t.k, t.heads, t.len, head_dim);
  a.kv.v = strobe::head_major(t.v, t.heads, t.len, head_dim);
  a.o = strobe::head_major(t.o, t.heads, q_len, head_dim);
  a.bounds = {/*batch=*/1, q_len, t.len, t.heads, t.heads};
  return a;
}

using Full = strobe::Attention<__half, ladder::head_dim, strobe::Full>;
using Causal = strobe::Attention<__half, ladder::head_dim, strobe::Causal>;

}  // namespace

int main(int argc, char** argv) {
  const ladder::Step step{
      "06_strobe", "strobe's portable kernel: tensor cores (mma.sync), cp.async",
      "mma.sync's share of the tensor cores, and the exponentials beside it", 2e-3};
  const ladder::Step decode_step{"06_strobe", "decode with strobe's portable kernel",
                                 "reading K and V from memory", 2e-3};
  const ladder::Options options = ladder::parse(argc, argv, step);
  strobe::Device device;
  ladder::require(strobe::current_device(&device));
  // On 9.0 prefill would launch the Hopper kernel, which is the next step. What this Device says of
  // its GPU is all that prefill knows: called an 8.9, it gets the portable one.
  device.compute_capability = std::min(device.compute_capability, 89);

  const double model =
      ladder::gpu().compute_capability == 90 ? ladder::gpu().tflops(4 * 2048 / 6.5) : 0;
  const int status = ladder::prefill<__half>(step, options, model, [&](const Tensors& t) {
    const strobe::Workspace none;
    ladder::require(
        t.causal ? strobe::prefill(attention_of<Causal>(t, t.len), device, none, ladder::stream())
                 : strobe::prefill(attention_of<Full>(t, t.len), device, none, ladder::stream()));
  });

  // The workspace's size follows the bounds, not always upwards: the largest serves all.
  size_t bytes = strobe::workspace_header_bytes;
  for (const int len : options.lens) {
    const strobe::Bounds bounds{1, 1, len, options.heads, options.heads};
    bytes = std::max(bytes, strobe::decode_workspace_bytes<Full>(bounds, device));
  }
  const ladder::Array<unsigned char> memory(bytes);
  const strobe::Workspace workspace{memory.data(), bytes};
  ladder::require(strobe::init_workspace(workspace, ladder::stream()));
  const auto decode = [&](const Tensors& t) {
    ladder::require(strobe::decode(attention_of<Full>(t, 1), device, workspace, ladder::stream()));
  };
  return status | ladder::decode<__half>(decode_step, options, decode,
                                         [](int) { return std::string("one launch"); });
}
