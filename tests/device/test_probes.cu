// SPDX-License-Identifier: MIT
// Host execution and GPUs agree bit for bit: the probes of probe_kernels.cuh give integers, and
// both worlds are held to the same hashes, recorded from host execution. A different hash on a GPU
// is a fault of the emulation (or of the probe), on the CPU a change of one of them.
#include "device/probe_kernels.cuh"
#include "support/case.hpp"

using namespace strobe_test;

namespace {

// One block of `kernel`, which writes `count` words; their hash.
template <class... Parameters, class... Arguments>
uint32_t hash_of(int count, int threads, int shared_bytes, void (*kernel)(Parameters...),
                 Arguments... before_out) {
  const Buffer<uint32_t> out(std::vector<uint32_t>(size_t(count), 0xa5a5a5a5u));
#if STROBE_HOST_EXECUTION
  const cudaError_t error = strobe::host::launch(kernel, dim3(1), dim3(unsigned(threads)),
                                                 size_t(shared_bytes), before_out..., out.data());
  INFO(strobe::host::failure());
  REQUIRE(error == cudaSuccess);
#else
  kernel<<<1, unsigned(threads), size_t(shared_bytes)>>>(before_out..., out.data());
  finish();
#endif
  CHECK(out.guard_damage().empty());
  const std::vector<uint32_t> words = out.download();
  return probe::hash(words.data(), count);
}

}  // namespace

STROBE_TEST_CASE("probe: ldmatrix and mma", "") {
  using namespace probe;
  CHECK(hash_of(matrices_outputs, matrices_threads, matrices_shared_bytes, &matrices<__half>) ==
        0x1f6e1202u);
  CHECK(hash_of(matrices_outputs, matrices_threads, matrices_shared_bytes,
                &matrices<__nv_bfloat16>) == 0x74c3f082u);
}

STROBE_TEST_CASE("probe: shuffles and votes", "") {
  using namespace probe;
  CHECK(hash_of(exchanges_outputs, exchanges_threads, exchanges_shared_bytes, &exchanges<>) ==
        0x639f5f65u);
}

STROBE_TEST_CASE("probe: cp.async with zero fill", "") {
  using namespace probe;
  std::vector<uint32_t> words(copies_inputs);
  for (uint32_t i = 0; i < copies_inputs; ++i) words[i] = i * 2654435761u;
  const Buffer<uint32_t> source(words);
  CHECK(hash_of(copies_outputs, copies_threads, copies_shared_bytes, &copies<>,
                static_cast<const uint32_t*>(source.data())) == 0xbc9ed628u);
}

STROBE_TEST_CASE("probe: two floats rounded into one word", "") {
  using namespace probe;
  CHECK(hash_of(packs_outputs, packs_threads, packs_shared_bytes, &packs<__half>) == 0x93ce0774u);
  CHECK(hash_of(packs_outputs, packs_threads, packs_shared_bytes, &packs<__nv_bfloat16>) ==
        0x30478425u);
}

// The whole kernel on integers: with scale 0 every P is 1, and with 64 or 256 keys the division by
// their number is exact, so that O is one number and not a rounding of it.
STROBE_TEST_CASE("probe: a prefill whose output is exact", "") {
  using Attention = strobe::Attention<__half, 64, strobe::Full, strobe::Strided<__half>,
                                      strobe::NoScore, 64, float>;
  for (const int kv_len : {64, 256}) {
    Problem p;
    p.q_len = 33;
    p.kv_len = kv_len;
    p.scale = 0;
    p.v_values = [](int, int t, int, int d) { return probe::pattern(3 * t + d); };
    const Result r = run_problem<Attention>(p);
    for (int t = 0; t < p.q_len; ++t)
      for (int d = 0; d < 64; ++d) {
        float sum = 0.f;
        for (int k = 0; k < kv_len; ++k) sum += probe::pattern(3 * k + d);
        if (r.row(0, 0, t)[d] != sum / float(kv_len))
          FAIL_CHECK("row " << t << ", dim " << d << ": " << r.row(0, 0, t)[d] << " is not "
                            << sum / float(kv_len));
      }
  }
}
