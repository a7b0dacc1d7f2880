// SPDX-License-Identifier: MIT
// The prefill instances of one element type: compiled head dims 64, 128 and 256, every mask and
// score of the grammar.
#pragma once

#include <strobe/prefill.cuh>

#include <algorithm>
#include <cmath>

#include "cells.hpp"
#include "prefix.hpp"

namespace bench {
namespace detail {

/// C: the kernel's compile-time numbers; warps: those that multiply.
template <class C>
Launch prefill_launch(const char* kernel, int64_t blocks, int warps) {
  Launch launch;
  launch.kernel = kernel;
  launch.blocks = blocks;
  launch.threads = C::threads;
  launch.dynamic_shared_bytes = C::shared_bytes;
  launch.block_q = C::block_q;
  launch.block_kv = C::block_kv;
  launch.row_warps = warps;
  launch.key_warps = 1;
  launch.compiled_head_dim = C::head_dim;
  return launch;
}

template <strobe::Family Size, class Attention>
Resources prefill_sm90a_resources(const Attention& a, const strobe::Device& device) {
  using C = strobe::kernel::PrefillSm90a<Attention, Size>;
  const int64_t tiles = strobe::PersistentSchedule::tiles_of(a.bounds, C::block_q),
                room = int64_t(device.sm_count) * C::tile_shape.blocks_per_sm;
  return resources_of(
      reinterpret_cast<const void*>(&strobe::kernel::prefill_sm90a<Attention, Size>),
      prefill_launch<C>("prefill_sm90a", std::min(tiles, room), 4 * C::consumers));
}

/// `family`: of the kernel that prefill_kernel chose.
template <class Attention>
Resources prefill_resources(const Attention& a, strobe::Family family,
                            const strobe::Device& device) {
  using strobe::Family;
  if constexpr (strobe::kernel::PrefillSm90a<Attention, Family::sm90a>::exists)
    if (family == Family::sm90a) return prefill_sm90a_resources<Family::sm90a>(a, device);
  if constexpr (strobe::kernel::PrefillSm90a<Attention, Family::sm90a_small>::exists)
    if (family == Family::sm90a_small)
      return prefill_sm90a_resources<Family::sm90a_small>(a, device);
  using C = strobe::kernel::PrefillSm80<Attention>;
  return resources_of(
      reinterpret_cast<const void*>(&strobe::kernel::prefill_sm80<Attention>),
      prefill_launch<C>("prefill_sm80", strobe::PrefillSchedule::blocks(a.bounds, C::block_q),
                        C::tile.warps));
}

template <class T, int HeadDim, class Mask, class Score>
Prepared prepare_prefill(Gpu& gpu, const Spec& s, const Mask& mask, const Score& score) {
  const size_t q_count = size_t(s.batch * s.q_len * s.q_heads * s.head_dim),
               kv_count = size_t(s.batch * s.kv_len * s.kv_heads * s.head_dim);
  const size_t q_bytes = aligned(q_count * sizeof(T)), kv_bytes = aligned(kv_count * sizeof(T));
  auto* const inputs = static_cast<char*>(gpu.normals(s.type, q_bytes + 2 * kv_bytes));
  const auto input = [&](size_t offset) { return reinterpret_cast<const T*>(inputs + offset); };
  Prepared prepared;
  prepared.output = gpu.poisoned_output(q_count * sizeof(T));
  prepared.output_count = q_count;

  strobe::Attention<T, HeadDim, Mask, strobe::Strided<T>, Score> a;
  a.q = strobe::token_major(input(0), s.q_len, s.q_heads, s.head_dim);
  a.kv.k = strobe::token_major(input(q_bytes), s.kv_len, s.kv_heads, s.head_dim);
  a.kv.v = strobe::token_major(input(q_bytes + kv_bytes), s.kv_len, s.kv_heads, s.head_dim);
  a.o = strobe::token_major(static_cast<T*>(prepared.output), s.q_len, s.q_heads, s.head_dim);
  const size_t rows = size_t(s.batch * s.q_heads * s.q_len);
  a.lse = strobe::head_major(static_cast<float*>(gpu.lse.at_least(rows * sizeof(float))), s.q_heads,
                             s.q_len, 1);
  a.mask = mask;
  a.score = score;
  a.bounds = {int(s.batch), int(s.q_len), int(s.kv_len), int(s.q_heads), int(s.kv_heads)};
  a.head_dim = a.value_dim = int(s.head_dim);
  const strobe::Workspace workspace =
      gpu.workspace(strobe::prefill_workspace_bytes<decltype(a)>(a.bounds, gpu.device));
  const strobe::KernelChoice choice = strobe::prefill_kernel(a, gpu.device);
  check(choice.status);
  prepared.kernel = choice.text;
  prepared.resources = prefill_resources(a, choice.family, gpu.device);
  prepared.call = [a, workspace, &gpu](int) {
    check(strobe::prefill(a, gpu.device, workspace, gpu.stream));
  };
  return prepared;
}

template <class T, int HeadDim>
Prepared prepare_prefill(Gpu& gpu, const Spec& s) {
  using namespace strobe;
  const auto with_mask = [&](const auto& mask) {
    return prepare_prefill<T, HeadDim>(gpu, s, mask, NoScore{});
  };
  if (!s.score.empty()) {
    if (!s.causal || !s.mask.family.empty())
      throw std::invalid_argument(name_of(s) + ": score:" + s.score +
                                  " has an instance only with causal:1 and no mask");
    if (s.score == "softcap") return prepare_prefill<T, HeadDim>(gpu, s, Causal{}, SoftCap{50.f});
    std::vector<float> slopes;  // 2^(-8 i / heads), i from 1 on, as in the paper (see Alibi)
    for (int64_t i = 1; i <= s.q_heads; ++i)
      slopes.push_back(std::exp2(-8.f * float(i) / float(s.q_heads)));
    return prepare_prefill<T, HeadDim>(gpu, s, Causal{}, Alibi{gpu.constants(slopes), 0});
  }
  if (s.mask.family == "window") return with_mask(Window{int(s.mask.number) - 1, 0});
  if (s.mask.family == "prefix") return with_mask(Prefix{int(s.mask.number)});
  if (s.mask.family == "document") {
    std::vector<int> document_of;
    for (int64_t key = 0; key < s.kv_len; ++key) document_of.push_back(int(key / s.mask.number));
    return with_mask(
        Both<Causal, Document>{{}, {gpu.constants(document_of), 0, /*ascending=*/true}});
  }
  return s.causal ? with_mask(Causal{}) : with_mask(Full{});
}

template <class T>
Prepared prepare_prefill(Gpu& gpu, const Spec& s) {
  if (s.head_dim <= 64) return prepare_prefill<T, 64>(gpu, s);
  if (s.head_dim <= 128) return prepare_prefill<T, 128>(gpu, s);
  return prepare_prefill<T, 256>(gpu, s);
}

}  // namespace detail
}  // namespace bench
