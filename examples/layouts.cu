// SPDX-License-Identifier: MIT
// The same attention, its tensors laid out in five ways: only pointers and strides differ, and
// where the kernel is the same the results are the same bits. docs/use/tensors.md shows the parts
// between the marks.
#include <strobe/prefill.cuh>

#include <cmath>
#include <cstdio>
#include <vector>

#include "support/array.hpp"

namespace {

constexpr int dim = 64, q_heads = 4, kv_heads = 2, batch = 2, len = 70;
using T = __half;
using Strided = strobe::Attention<T, dim, strobe::Causal>;
using Paged = strobe::Attention<T, dim, strobe::Causal, strobe::Paged<T>>;

// One of Q, K, V, O in plain numbers, and where a layout puts them.
struct Rows {
  int heads;
  std::vector<T> values;  // [batch, len, heads, dim]
  T at(int b, int t, int h, int d) const {
    return values[((size_t(b) * len + size_t(t)) * size_t(heads) + size_t(h)) * dim + size_t(d)];
  }
};

Rows random_rows(int heads) {
  static uint32_t seed = 1;
  Rows rows{heads, std::vector<T>(size_t(batch) * len * size_t(heads) * dim)};
  for (T& x : rows.values)
    x = __float2half_rn(float(int32_t(seed = seed * 1664525u + 1013904223u) >> 8) * 0x1p-22f);
  return rows;
}

// Copies every row to where a view has it: `view` counts from the first element of `memory`.
void place(std::vector<T>& memory, const Rows& rows, const strobe::View<T>& view) {
  for (int b = 0; b < batch; ++b)
    for (int t = 0; t < len; ++t)
      for (int h = 0; h < rows.heads; ++h)
        for (int d = 0; d < dim; ++d)
          memory[size_t(b * view.batch + t * view.token + h * view.head + d)] = rows.at(b, t, h, d);
}

// Runs a call whose output is [batch, len, heads, dim], or packed, which are the same bytes.
template <class Attention>
std::vector<T> run(Attention a) {
  const example::Array<T> o(size_t(batch) * len * q_heads * dim);
  a.o = strobe::token_major(o.data(), len, q_heads, dim);
  if (a.bounds.batch == 0) a.bounds = {batch, len, len, q_heads, kv_heads};
  strobe::Device device;
  example::require(strobe::current_device(&device));
  example::require(strobe::prefill(a, device, strobe::Workspace{}, nullptr));
  return o.to_host();
}

// `allowed`: 0 asks for the same bits.
bool close(const char* layout, const std::vector<T>& got, const std::vector<T>& expected,
           double allowed) {
  double worst = 0;
  for (size_t i = 0; i < expected.size(); ++i) {
    const double error =
        std::fabs(double(__half2float(got[i])) - double(__half2float(expected[i])));
    worst = error <= worst ? worst : error;  // NaN becomes the worst, and stays
  }
  std::printf("%-22s differs by %g\n", layout, worst);
  return worst <= allowed;
}

}  // namespace

int main() {
  const Rows q = random_rows(q_heads), k = random_rows(kv_heads), v = random_rows(kv_heads);
  bool right = true;

  std::vector<T> expected;
  {
    const example::Array<T> q_data(q.values), k_data(k.values), v_data(v.values);
    const T *q_gmem = q_data.data(), *k_gmem = k_data.data(), *v_gmem = v_data.data();
    Strided a;
    // [docs: token-major]
    a.q = strobe::token_major(q_gmem, len, q_heads, dim);  // [batch, len, q_heads, dim]
    a.kv.k = strobe::token_major(k_gmem, len, kv_heads, dim);
    a.kv.v = strobe::token_major(v_gmem, len, kv_heads, dim);
    // [docs: end]
    expected = run(a);
  }
  {
    std::vector<T> memory[3] = {q.values, k.values, v.values};
    place(memory[0], q, strobe::head_major<T>(nullptr, q_heads, len, dim));
    place(memory[1], k, strobe::head_major<T>(nullptr, kv_heads, len, dim));
    place(memory[2], v, strobe::head_major<T>(nullptr, kv_heads, len, dim));
    const example::Array<T> q_data(memory[0]), k_data(memory[1]), v_data(memory[2]);
    const T *q_gmem = q_data.data(), *k_gmem = k_data.data(), *v_gmem = v_data.data();
    Strided a;
    // [docs: head-major]
    a.q = strobe::head_major(q_gmem, q_heads, len, dim);  // [batch, q_heads, len, dim]
    a.kv.k = strobe::head_major(k_gmem, kv_heads, len, dim);
    a.kv.v = strobe::head_major(v_gmem, kv_heads, len, dim);
    // [docs: end]
    right &= close("head major", run(a), expected, 0);
  }
  {
    const int64_t width = (q_heads + 2 * kv_heads) * dim;
    std::vector<T> memory(size_t(batch * len * width));
    const auto part = [&](const Rows& rows, int64_t begin) {
      std::vector<T> shifted(memory.begin() + begin, memory.end());
      place(shifted, rows, {nullptr, len * width, width, dim});
      std::copy(shifted.begin(), shifted.end(), memory.begin() + begin);
    };
    part(q, 0);
    part(k, q_heads * dim);
    part(v, (q_heads + kv_heads) * dim);
    const example::Array<T> data(memory);
    const T* qkv = data.data();
    Strided a;
    // [docs: fused]
    // The output of one projection: [batch, len, (q_heads + 2 kv_heads) * dim].
    const int64_t row = (q_heads + 2 * kv_heads) * dim;
    a.q = {qkv, len * row, row, dim};
    a.kv.k = {qkv + q_heads * dim, len * row, row, dim};
    a.kv.v = {qkv + (q_heads + kv_heads) * dim, len * row, row, dim};
    // [docs: end]
    right &= close("one fused projection", run(a), expected, 0);
  }
  {
    const example::Array<T> q_data(q.values), k_data(k.values), v_data(v.values);
    const example::Array<int> offsets_data(std::vector<int>{0, len, 2 * len});
    const T *q_gmem = q_data.data(), *k_gmem = k_data.data(), *v_gmem = v_data.data();
    const int *offsets = offsets_data.data(), sequences = batch, longest = len;
    Strided a;
    // [docs: packed]
    // Sequences one behind the other: sequence b has tokens offsets[b] .. offsets[b + 1] - 1. There
    // is no batch stride, so the first argument of token_major does not matter.
    a.q = strobe::token_major(q_gmem, 0, q_heads, dim);  // [all tokens, q_heads, dim]
    a.kv.k = strobe::token_major(k_gmem, 0, kv_heads, dim);
    a.kv.v = strobe::token_major(v_gmem, 0, kv_heads, dim);
    a.lengths.q_offsets = a.lengths.kv_offsets = offsets;  // device memory, [sequences + 1]
    a.bounds = {sequences, longest, longest, q_heads, kv_heads};
    // [docs: end]
    right &= close("packed by offsets", run(a), expected, 0);
  }
  {
    constexpr int slots = 16, pages_each = (len + slots - 1) / slots, pages = batch * pages_each;
    std::vector<int> table;
    for (int i = 0; i < pages; ++i) table.push_back((i * 7 + 3) % pages);
    const int64_t slot_row = kv_heads * dim, half_page = slots * slot_row;
    std::vector<T> memory(size_t(pages * 2 * half_page), __float2half_rn(-1.f));
    for (int b = 0; b < batch; ++b)
      for (int t = 0; t < len; ++t)
        for (int64_t i = 0; i < slot_row; ++i) {
          const int page = table[size_t(b * pages_each + t / slots)];
          const size_t at = size_t(page * 2 * half_page + t % slots * slot_row + i);
          memory[at] = k.at(b, t, int(i / dim), int(i % dim));
          memory[at + size_t(half_page)] = v.at(b, t, int(i / dim), int(i % dim));
        }
    const example::Array<T> q_data(q.values), pool_data(memory);
    const example::Array<int> table_data(table);
    const T *q_gmem = q_data.data(), *pool = pool_data.data();
    const int *block_table = table_data.data(), page_size = slots, max_pages = pages_each;
    Paged a;
    // [docs: interleaved]
    // One pool [pages, 2, page_size, kv_heads, dim]: K and V of a page behind each other.
    const int64_t slot = kv_heads * dim, v_part = page_size * slot;
    a.kv.k = {pool, 2 * v_part, slot, dim};  // strides of a page, a slot, a head
    a.kv.v = {pool + v_part, 2 * v_part, slot, dim};
    a.kv.table = block_table;  // [batch, max_pages]
    a.kv.table_stride = max_pages;
    a.kv.page_size = page_size;
    // [docs: end]
    a.q = strobe::token_major(q_gmem, len, q_heads, dim);
    // Pages are the portable kernel's, also on 9.0, where the other layouts get another one.
    strobe::Device device;
    example::require(strobe::current_device(&device));
    const double allowed = device.compute_capability == 90 ? 2e-3 : 0;
    right &= close("interleaved pages", run(a), expected, allowed);
  }
  std::printf("%s, on %s\n", right ? "right" : "WRONG", example::place());
  return right ? 0 : 1;
}
