// SPDX-License-Identifier: MIT
// The decode instances: fp16, compiled head dims 64, 128 and 256, strided and paged caches;
// FixedPolicy<256> with the strided one. A strided cache is [batch, kv_head, token, dim], a paged
// one [page, kv_head, slot, dim].
#include <strobe/decode.cuh>

#include <algorithm>
#include <numeric>
#include <random>

#include "cells.hpp"

namespace bench {
namespace {

using strobe::Paged;
using strobe::Strided;

int64_t pages_of(int64_t tokens, int64_t page) { return (tokens + page - 1) / page; }

/// A block table [batch, width] of pages in random order. Entries past a sequence's last page are
/// never read; they name no page.
std::vector<int> shuffled_table(const Spec& s, int64_t width) {
  const int64_t used = pages_of(s.kv_len, s.page);
  std::vector<int> pages(size_t(s.batch * used));
  std::iota(pages.begin(), pages.end(), 0);
  std::shuffle(pages.begin(), pages.end(), std::mt19937(1));
  std::vector<int> table(size_t(s.batch * width), -1);
  for (int64_t b = 0; b < s.batch; ++b)
    std::copy_n(pages.begin() + b * used, used, table.begin() + b * width);
  return table;
}

/// The parts of a KV source that do not change from copy to copy. `table` lies in device memory.
Strided<__half> source(const Strided<__half>&, const Spec& s, const __half* k, const __half* v,
                       const int*, int64_t) {
  return {strobe::head_major(k, s.kv_heads, s.kv_len, s.head_dim),
          strobe::head_major(v, s.kv_heads, s.kv_len, s.head_dim)};
}
Paged<__half> source(const Paged<__half>&, const Spec& s, const __half* k, const __half* v,
                     const int* table, int64_t table_width) {
  return {strobe::head_major(k, s.kv_heads, s.page, s.head_dim),
          strobe::head_major(v, s.kv_heads, s.page, s.head_dim),
          table,
          table_width,
          nullptr,
          int(s.page)};
}

template <class Attention, int RowWarps>
Resources decode_resources(const Attention& a, const strobe::Device& device) {
  using C = strobe::kernel::DecodeSm80<Attention, RowWarps>;
  const int64_t blocks = strobe::detail::decode_blocks<Attention>(a.bounds, device);
  const int resident = strobe::DecodeSchedule::resident_blocks(
      blocks, strobe::detail::decode_machine<Attention, RowWarps>(device));
  Launch launch;
  launch.kernel = "decode_sm80";
  launch.blocks = blocks;
  launch.threads = C::threads;
  launch.dynamic_shared_bytes =
      strobe::detail::decode_shared_bytes<Attention, RowWarps>(device, resident);
  launch.block_q = C::rows;
  launch.block_kv = C::block_kv;
  launch.row_warps = RowWarps;
  launch.key_warps = C::teams;
  launch.parts = strobe::detail::decode_schedule<Attention>(a.bounds, device).parts;
  launch.compiled_head_dim = C::head_dim;
  return resources_of(
      reinterpret_cast<const void*>(&strobe::kernel::decode_sm80<Attention, RowWarps>), launch);
}

template <int HeadDim, class Kv, class Policy, class Mask>
Prepared prepare(Gpu& gpu, const Spec& s, int copies, int64_t kv_bound) {
  const size_t q_count = size_t(s.batch * s.q_len * s.q_heads * s.head_dim);
  const size_t q_bytes = aligned(q_count * sizeof(__half)), copy_bytes = aligned(cache_bytes(s));
  const auto* const inputs =
      static_cast<const char*>(gpu.normals(s.type, q_bytes + size_t(copies) * copy_bytes));
  Prepared prepared;
  prepared.cache = inputs + q_bytes;
  prepared.output = gpu.poisoned_output(q_count * sizeof(__half));
  prepared.output_count = q_count;

  strobe::Attention<__half, HeadDim, Mask, Kv, strobe::NoScore, HeadDim, __half, Policy> a;
  a.q =
      strobe::token_major(reinterpret_cast<const __half*>(inputs), s.q_len, s.q_heads, s.head_dim);
  a.o = strobe::token_major(static_cast<__half*>(prepared.output), s.q_len, s.q_heads, s.head_dim);
  const int64_t bound = kv_bound == 0 ? s.kv_len : kv_bound;
  a.bounds = {int(s.batch), int(s.q_len), int(bound), int(s.q_heads), int(s.kv_heads), 0};
  a.head_dim = a.value_dim = int(s.head_dim);

  // One upload: the block table, then the lengths.
  const int64_t table_width = s.page == 0 ? 0 : pages_of(bound, s.page);
  std::vector<int> integers = s.page == 0 ? std::vector<int>() : shuffled_table(s, table_width);
  const size_t table_size = integers.size();
  if (kv_bound != 0) integers.insert(integers.end(), size_t(s.batch), int(s.kv_len));
  const int* const table = integers.empty() ? nullptr : gpu.constants(integers);
  if (kv_bound != 0) a.lengths.kv_lens = table + table_size;

  const auto of_copy = [s, table, table_width, copy_bytes, cache = prepared.cache](int copy) {
    const auto* const k = reinterpret_cast<const __half*>(static_cast<const char*>(cache) +
                                                          size_t(copy) * copy_bytes);
    return source(Kv{}, s, k, k + cache_bytes(s) / 2 / sizeof(__half), table, table_width);
  };
  a.kv = of_copy(0);
  const strobe::Workspace workspace =
      gpu.workspace(strobe::decode_workspace_bytes<decltype(a)>(a.bounds, gpu.device));
  const strobe::KernelChoice choice = strobe::decode_kernel(a, gpu.device);
  check(choice.status);
  prepared.kernel = choice.text;
  prepared.resources = strobe::detail::decode_row_warps(a.bounds) == 1
                           ? decode_resources<decltype(a), 1>(a, gpu.device)
                           : decode_resources<decltype(a), 4>(a, gpu.device);
  prepared.call = [a, of_copy, copies, workspace, &gpu](int i) {
    auto call = a;
    call.kv = of_copy(i % copies);
    check(strobe::decode(call, gpu.device, workspace, gpu.stream));
  };
  return prepared;
}

/// One query token sees every key; several are causal among themselves.
template <int HeadDim, class Kv, class Policy>
Prepared prepare(Gpu& gpu, const Spec& s, int copies, int64_t kv_bound) {
  return s.q_len == 1 ? prepare<HeadDim, Kv, Policy, strobe::Full>(gpu, s, copies, kv_bound)
                      : prepare<HeadDim, Kv, Policy, strobe::Causal>(gpu, s, copies, kv_bound);
}

template <int HeadDim>
Prepared prepare(Gpu& gpu, const Spec& s, int copies, int64_t kv_bound) {
  using strobe::DefaultPolicy;
  if (s.policy.family.empty())
    return s.page == 0 ? prepare<HeadDim, Strided<__half>, DefaultPolicy>(gpu, s, copies, kv_bound)
                       : prepare<HeadDim, Paged<__half>, DefaultPolicy>(gpu, s, copies, kv_bound);
  if (s.policy.number != 256)
    throw std::invalid_argument(name_of(s) + ": policy:fixed" + std::to_string(s.policy.number) +
                                " has no instance; policy:fixed256 has");
  if (s.page != 0)
    throw std::invalid_argument(name_of(s) + ": policy:fixed256 has an instance only with page:0");
  return prepare<HeadDim, Strided<__half>, strobe::FixedPolicy<256>>(gpu, s, copies, kv_bound);
}

}  // namespace

size_t cache_bytes(const Spec& s) {
  const int64_t tokens = s.page == 0 ? s.kv_len : pages_of(s.kv_len, s.page) * s.page;
  return size_t(2 * s.batch * s.kv_heads * tokens * s.head_dim) * sizeof(__half);
}

Prepared prepare_decode(Gpu& gpu, const Spec& s, int copies, int64_t kv_bound) {
  if (kv_bound != 0 && kv_bound < s.kv_len)
    throw std::invalid_argument("--bound is " + std::to_string(kv_bound) + "; Sk is " +
                                std::to_string(s.kv_len) + " in " + name_of(s));
  if (s.head_dim <= 64) return prepare<64>(gpu, s, copies, kv_bound);
  if (s.head_dim <= 128) return prepare<128>(gpu, s, copies, kv_bound);
  return prepare<256>(gpu, s, copies, kv_bound);
}

}  // namespace bench
