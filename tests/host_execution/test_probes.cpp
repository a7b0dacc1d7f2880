// SPDX-License-Identifier: MIT
// The probes of tests/device by host execution: the same under every schedule. The hashes are of
// these results; a test on a GPU compares its own with them.
#include "device/probe_kernels.cuh"
#include "support.hpp"

namespace {

namespace host = strobe::host;

template <class Launch>
uint32_t hash_of(int outputs, Launch launch) {
  uint32_t first = 0;
  bool any = false;
  test::passes([&] {
    std::vector<uint32_t> out(static_cast<size_t>(outputs), 0xdeadbeefu);
    const cudaError_t error = launch(out.data());
    const uint32_t h = probe::hash(out.data(), outputs);
    if (any) REQUIRE(h == first);
    first = h;
    any = true;
    for (uint32_t word : out) CHECK(word != 0xdeadbeefu);
    return error;
  });
  return first;
}

template <class T>
uint32_t hash_of_matrices() {
  return hash_of(probe::matrices_outputs, [](uint32_t* out) {
    return host::launch(probe::matrices<T>, 1, probe::matrices_threads,
                        probe::matrices_shared_bytes, out);
  });
}

template <class T>
uint32_t hash_of_packs() {
  return hash_of(probe::packs_outputs, [](uint32_t* out) {
    return host::launch(probe::packs<T>, 1, probe::packs_threads, probe::packs_shared_bytes, out);
  });
}

TEST_CASE("probes give the same words under every schedule", "[host-execution]") {
  std::vector<uint32_t> source(probe::copies_inputs);
  for (uint32_t i = 0; i < probe::copies_inputs; ++i) source[i] = i * 2654435761u;
  const uint32_t exchanges = hash_of(probe::exchanges_outputs, [](uint32_t* out) {
    return host::launch(probe::exchanges<uint32_t>, 1, probe::exchanges_threads, 0, out);
  });
  const uint32_t copies = hash_of(probe::copies_outputs, [&](uint32_t* out) {
    return host::launch(probe::copies<uint32_t>, 1, probe::copies_threads,
                        probe::copies_shared_bytes, source.data(), out);
  });
  CHECK(hash_of_matrices<__half>() == 0x1f6e1202u);
  CHECK(hash_of_matrices<__nv_bfloat16>() == 0x74c3f082u);
  CHECK(hash_of_packs<__half>() == 0x93ce0774u);
  CHECK(hash_of_packs<__nv_bfloat16>() == 0x30478425u);
  CHECK(exchanges == 0x639f5f65u);
  CHECK(copies == 0xbc9ed628u);
}

}  // namespace
