// SPDX-License-Identifier: MIT
// Step 7: strobe's Hopper kernel through the same call. fp16 in and out, fp32 between.
//
// Idea    wgmma: four warps ask once for 64 x 128 x 16 = 131072 multiply-adds, for which the tensor
//         cores read K or V from shared memory themselves, and do something else meanwhile. TMA: a
//         warp of its own asks for whole tiles and waits, so the others copy nothing and compute no
//         address. Three groups of four warps take turns at asking, so that one's softmax runs
//         beside another's products. A block stays and takes one query tile after another. At the
//         top of include/strobe/kernel/prefill_sm90a.cuh is who waits for whom.
//
// Limit   An SM's tensor cores make 2048 multiply-adds a clock, those of 16 logits at this head
//         dim; and it makes 16 exponentials a clock, those of 16 logits, too. If the two overlapped
//         in every clock, it would be 2048 a clock; if never, half of that.
//
// Needs   Compute capability 9.0, and code for 90a. Elsewhere it says so, and measures nothing.
//         Decode has no kernel of this kind: it waits for memory.
#include <strobe/prefill.cuh>

#include "ladder.cuh"

namespace {

using Tensors = ladder::Tensors<__half>;

template <class Attention>
Attention attention_of(const Tensors& t) {
  constexpr int head_dim = ladder::head_dim;
  Attention a;
  a.q = strobe::head_major(t.q, t.heads, t.len, head_dim);
  a.kv.k = strobe::head_major(t.k, t.heads, t.len, head_dim);
  a.kv.v = strobe::head_major(t.v, t.heads, t.len, head_dim);
  a.o = strobe::head_major(t.o, t.heads, t.len, head_dim);
  a.bounds = {/*batch=*/1, t.len, t.len, t.heads, t.heads};
  return a;
}

using Full = strobe::Attention<__half, ladder::head_dim, strobe::Full>;
using Causal = strobe::Attention<__half, ladder::head_dim, strobe::Causal>;

}  // namespace

int main(int argc, char** argv) {
  const ladder::Step step{"07_strobe_hopper",
                          "strobe's Hopper kernel: wgmma, TMA, warps with tasks of their own",
                          "the tensor cores and the exponentials, both at once", 2e-3};
  const ladder::Options options = ladder::parse(argc, argv, step);
  strobe::Device device;
  ladder::require(strobe::current_device(&device));
#if STROBE_HOST_EXECUTION
  device = {0, 90, 4, 227 * 1024};  // a Hopper, for host execution knows its instructions
#endif

  // What would be launched: asking follows no pointer.
  const ladder::Array<__half> row(ladder::head_dim);
  const Tensors smallest{row.data(), row.data(), row.data(), row.data(), 1, 1, false};
  const strobe::KernelChoice choice = strobe::prefill_kernel(attention_of<Full>(smallest), device);
  ladder::require(choice.status);
  if (choice.family == strobe::Family::sm80) {
    std::fprintf(stderr,
                 "%s: left out, since it needs compute capability 9.0 and code for 90a; here it "
                 "would be %s\n",
                 step.name, choice.text);
    return 0;
  }

  const size_t bytes = strobe::prefill_workspace_bytes<Full>({}, device);
  const ladder::Array<unsigned char> memory(bytes);
  const strobe::Workspace workspace{memory.data(), bytes};
  ladder::require(strobe::init_workspace(workspace, ladder::stream()));
  const auto attend = [&](const Tensors& t) {
    ladder::require(
        t.causal ? strobe::prefill(attention_of<Causal>(t), device, workspace, ladder::stream())
                 : strobe::prefill(attention_of<Full>(t), device, workspace, ladder::stream()));
  };
  return ladder::prefill<__half>(step, options, ladder::gpu().tflops(2048), attend);
}
