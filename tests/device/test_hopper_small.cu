// SPDX-License-Identifier: MIT
// Hopper's instructions against plain loops, bit for bit, by host execution and on a GPU: boxes of
// 2 to 5 dimensions with edges outside of the tensor, products of all layouts, and a ring of tiles.
#include <strobe/detail/tensor_map.cuh>

#include "device/probe_hopper.cuh"
#include "support/case.hpp"

using namespace strobe_test;

namespace {

// One block of `kernel`; skips where there is a GPU, but not of compute capability 9.0.
template <class... Parameters, class... Arguments>
void run(int threads, int shared_bytes, void (*kernel)(Parameters...), Arguments... arguments) {
#if STROBE_HOST_EXECUTION
  const cudaError_t error =
      strobe::host::launch(kernel, dim3(1), dim3(unsigned(threads)), size_t(shared_bytes),
                           static_cast<Parameters>(arguments)...);
  INFO(strobe::host::failure());
  REQUIRE(error == cudaSuccess);
#else
  STROBE_REQUIRE_CUDA(cudaFuncSetAttribute(reinterpret_cast<const void*>(kernel),
                                           cudaFuncAttributeMaxDynamicSharedMemorySize,
                                           shared_bytes));
  kernel<<<1, unsigned(threads), size_t(shared_bytes)>>>(arguments...);
  finish();
#endif
}

void need_hopper() {
#if !STROBE_HOST_EXECUTION
  if (test_device().compute_capability != 90) SKIP("not a GPU of compute capability 9.0");
#endif
}

// A tensor of 16-bit elements with room between its rows, and a box in it.
template <int Rank>
struct Box {
  int extents[Rank];
  int box[Rank];
  probe::Coordinates<Rank> where;
  int gap = 8;  // elements after each row

  int elements() const {
    int n = 1;
    for (int b : box) n *= b;
    return n;
  }
  int64_t stride(int d) const {  // in elements
    int64_t n = 1;
    for (int i = 0; i < d; ++i) n = i == 0 ? extents[0] + gap : n * extents[i];
    return n;
  }
  int64_t size() const { return stride(Rank - 1) * extents[Rank - 1]; }
  // Index in memory of the box's element i, in the order of the box; -1: outside of the tensor.
  int64_t at(int i) const {
    int64_t index = 0;
    for (int d = 0; d < Rank; ++d) {
      const int x = where.at[d] + i % box[d];
      i /= box[d];
      if (x < 0 || x >= extents[d]) return -1;
      index += x * stride(d);
    }
    return index;
  }
  strobe::ptx::TensorMap map(const void* base) const {
    strobe::detail::TensorMapShape shape{};
    shape.base = base;
    shape.rank = Rank;
    for (int d = 0; d < Rank; ++d) {
      shape.extents[d] = uint64_t(extents[d]);
      shape.box[d] = uint32_t(box[d]);
      if (d > 0) shape.strides_bytes[d - 1] = uint64_t(stride(d)) * 2;
    }
    strobe::ptx::TensorMap result{};
    require_ok(strobe::detail::encode_tensor_map(result, shape));
    return result;
  }
};

// Element i of the box, in shared memory in units of elements.
size_t in_tile(int i) { return probe::swizzled(uint32_t(i) * 2) / 2; }

template <int Rank>
void check_load(const Box<Rank>& box) {
  std::vector<uint16_t> values(size_t(box.size()));
  for (size_t i = 0; i < values.size(); ++i) values[i] = uint16_t(i * 40503u >> 3 | 1u);
  const Buffer<uint16_t> tensor(values);
  const int bytes = box.elements() * 2;
  const Buffer<uint32_t> out(std::vector<uint32_t>(size_t(bytes / 4), 0xa5a5a5a5u));
  run(probe::tile_threads, probe::tile_barrier_bytes + bytes, &probe::load_tile<Rank>,
      box.map(tensor.data()), box.where, bytes, out.data());
  const std::vector<uint32_t> words = out.download();
  for (int i = 0; i < box.elements(); ++i) {
    const int64_t from = box.at(i);
    const size_t to = in_tile(i);
    const uint32_t got = words[to / 2] >> to % 2 * 16 & 0xffffu;
    const uint32_t want = from < 0 ? 0u : values[size_t(from)];
    if (got != want) FAIL("element " << i << " of the box is " << got << ", not " << want);
  }
}

template <int Rank>
void check_store(const Box<Rank>& box) {
  const std::vector<uint16_t> before(size_t(box.size()), 0xbeef);
  const Buffer<uint16_t> tensor(before);
  const uint32_t first = 0x00010000u;
  run(probe::tile_threads, box.elements() * 2, &probe::store_tile<Rank>, box.map(tensor.data()),
      box.where, box.elements() * 2, first);
  std::vector<uint16_t> want = before;
  for (int i = 0; i < box.elements(); ++i) {
    const size_t from = in_tile(i);
    const uint32_t word = first + uint32_t(from / 2);
    if (box.at(i) >= 0) want[size_t(box.at(i))] = uint16_t(word >> from % 2 * 16);
  }
  const std::vector<uint16_t> after = tensor.download();
  for (size_t i = 0; i < want.size(); ++i)
    if (after[i] != want[i]) FAIL("element " << i << " is " << after[i] << ", not " << want[i]);
  CHECK(tensor.guard_damage().empty());
}

template <int Rank>
void check_box(const Box<Rank>& box) {
  check_load(box);
  check_store(box);
}

template <class T, bool RowsAlongSum, bool FromRegisters, int N>
void check_products() {
  INFO("N " << N << ", rows along the sum: " << RowsAlongSum << ", A from registers "
            << FromRegisters);
  const Buffer<float> out(std::vector<float>(64 * N, -1.f));
  run(probe::products_threads, probe::products_shared_bytes(N / 8),
      &probe::products<T, RowsAlongSum, FromRegisters, N / 8>,
      reinterpret_cast<uint32_t*>(out.data()));
  const std::vector<float> got = out.download(),
                           want = probe::expected_products(
                               N / 8, probe::products_add(RowsAlongSum, FromRegisters));
  for (size_t i = 0; i < want.size(); ++i)
    if (got[i] != want[i])
      FAIL("row " << i / N << ", column " << i % N << ": " << got[i] << " is not " << want[i]);
}

template <class T, int N>
void check_all_products() {
  check_products<T, false, false, N>();
  check_products<T, true, false, N>();
  check_products<T, false, true, N>();
  check_products<T, true, true, N>();
}

template <class T>
void check_plain_products() {
  // Matrices of their own, one for all rows or halves of the sum, and what overlaps.
  for (const probe::PlainStrides& strides : {probe::PlainStrides{256, 128, 128, 1024},
                                             {128, 1024, 256, 128},
                                             {0, 0, 128, 0},
                                             {0, 128, 128, 128},
                                             {48, 16, 400, 32}}) {
    INFO("strides " << strides.a_rows << " " << strides.a_sum << " " << strides.b_rows << " "
                    << strides.b_sum);
    const Buffer<float> out(std::vector<float>(64 * 64, -1.f));
    run(probe::products_threads, probe::plain_shared_bytes, &probe::plain_products<T>, strides,
        reinterpret_cast<uint32_t*>(out.data()));
    CHECK(out.download() == probe::expected_plain_products(strides));
  }
}

template <class T>
T to_element(float x) {
  return T(x);  // exact
}

}  // namespace

STROBE_TEST_CASE("hopper: boxes inside of a tensor", "[small]") {
  need_hopper();
  check_box(Box<2>{{128, 40}, {64, 32}, {{64, 8}}});
  check_box(Box<3>{{64, 12, 5}, {64, 4, 3}, {{0, 5, 1}}});
  check_box(Box<4>{{64, 3, 4, 5}, {64, 1, 4, 2}, {{0, 2, 0, 3}}});
  check_box(Box<5>{{64, 3, 2, 4, 3}, {64, 2, 2, 2, 2}, {{0, 1, 0, 1, 1}}});
}

STROBE_TEST_CASE("hopper: boxes across the edges of a tensor", "[small]") {
  need_hopper();
  check_load(Box<2>{{96, 40}, {64, 64}, {{40, -3}}});
  check_load(Box<2>{{96, 40}, {64, 16}, {{-24, 33}}});
  check_load(Box<3>{{80, 6, 4}, {64, 4, 4}, {{32, -1, 2}}});
  check_load(Box<4>{{64, 3, 4, 5}, {64, 3, 2, 2}, {{0, 1, -1, 4}}});
  check_load(Box<5>{{72, 3, 2, 4, 3}, {64, 2, 2, 2, 2}, {{16, -1, 1, 3, 2}}});
  check_box(Box<2>{{96, 40}, {64, 16}, {{96, 0}}});
  check_box(Box<2>{{96, 40}, {64, 16}, {{0, 100}}});
  check_box(Box<2>{{96, 40}, {64, 16}, {{64, 33}}});
}

// Not [small]: compute-sanitizer counts what the driver refuses as errors.
STROBE_TEST_CASE("hopper: what TMA cannot describe", "") {
  need_hopper();
  const Buffer<uint16_t> tensor(std::vector<uint16_t>(4096));
  const strobe::detail::TensorMapShape good{tensor.data(), 2, {64, 32}, {128}, {64, 32}};
  strobe::ptx::TensorMap map{};
  const auto refused = [&](auto change) {
    strobe::detail::TensorMapShape shape = good;
    change(shape);
    return strobe::detail::encode_tensor_map(map, shape).code == strobe::Code::unsupported;
  };
  using Shape = strobe::detail::TensorMapShape;
  CHECK(!refused([](Shape&) {}));
  CHECK(!refused([](Shape& s) { s.extents[1] = uint64_t(1) << 32; }));
  CHECK(!refused([](Shape& s) { s.strides_bytes[0] = (uint64_t(1) << 40) - 16; }));
  CHECK(!refused([](Shape& s) { s.box[1] = 256; }));
  CHECK(refused([](Shape& s) { s.base = static_cast<const char*>(s.base) + 8; }));
  CHECK(refused([](Shape& s) { s.rank = 6; }));
  CHECK(refused([](Shape& s) { s.extents[0] = 0; }));
  CHECK(refused([](Shape& s) { s.extents[1] = (uint64_t(1) << 32) + 1; }));
  CHECK(refused([](Shape& s) { s.strides_bytes[0] = 136; }));
  CHECK(refused([](Shape& s) { s.strides_bytes[0] = uint64_t(1) << 40; }));
  CHECK(refused([](Shape& s) { s.box[0] = 72; }));
  CHECK(refused([](Shape& s) { s.box[0] = 12; }));
  CHECK(refused([](Shape& s) { s.box[1] = 0; }));
  CHECK(refused([](Shape& s) { s.box[1] = 257; }));
}

STROBE_TEST_CASE("hopper: wgmma of fp16", "[small]") {
  need_hopper();
  check_all_products<__half, 16>();
  check_all_products<__half, 64>();
  check_all_products<__half, 128>();
  check_all_products<__half, 176>();
  check_all_products<__half, 256>();
}

STROBE_TEST_CASE("hopper: wgmma of bf16", "[small]") {
  need_hopper();
  check_all_products<__nv_bfloat16, 16>();
  check_all_products<__nv_bfloat16, 64>();
  check_all_products<__nv_bfloat16, 128>();
  check_all_products<__nv_bfloat16, 176>();
  check_all_products<__nv_bfloat16, 256>();
}

STROBE_TEST_CASE("hopper: wgmma of operands without a swizzle", "[small]") {
  need_hopper();
  check_plain_products<__half>();
  check_plain_products<__nv_bfloat16>();
}

STROBE_TEST_CASE("hopper: a ring of tiles", "[small]") {
  need_hopper();
  for (const int tiles : {1, 2, 3, 7}) {
    INFO(tiles << " tiles");
    std::vector<__half> a, b;
    for (int row = 0; row < 64 * tiles; ++row)
      for (int k = 0; k < 64; ++k) {
        a.push_back(to_element<__half>(probe::ring_a(row, k)));
        b.push_back(to_element<__half>(probe::ring_b(row, k)));
      }
    const Buffer<__half> memory_a(a), memory_b(b);
    const Buffer<float> out(std::vector<float>(64 * 64, -1.f));
    const Box<2> box{{64, 64 * tiles}, {64, 64}, {{0, 0}}, 0};
    run(probe::ring_threads, probe::ring_shared_bytes, &probe::ring<__half>,
        box.map(memory_a.data()), box.map(memory_b.data()), tiles,
        reinterpret_cast<uint32_t*>(out.data()));
    CHECK(out.download() == probe::expected_ring(tiles));
  }
}
