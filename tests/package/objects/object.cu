// SPDX-License-Identifier: MIT
// A shared object that holds the library: built several times, each for other architectures, with
// the same names. host.cpp loads them side by side.
#include <strobe/prefill.cuh>

#include <cstring>

namespace {
constexpr int built_for[] = {__CUDA_ARCH_LIST__};
}

#define STROBE_TEST_EXPORT extern "C" __attribute__((visibility("default")))

/// The first architecture of the object's list: 80, 90.
STROBE_TEST_EXPORT int strobe_test_architecture() { return built_for[0] / 10; }

/// A call that is right in every respect but that nothing lies behind its pointers, which nobody
/// follows: host.cpp's CUDA runtime only writes down what would be launched. `text`: which kernel
/// that is, or what is wrong.
STROBE_TEST_EXPORT int strobe_test_attend(const strobe::Device* device,
                                          char text[strobe::Status::capacity]) {
  alignas(256) static unsigned char nothing[256];
  const auto* const in = reinterpret_cast<const __half*>(nothing);
  strobe::Attention<__half, 64, strobe::Causal> a;
  a.q = strobe::token_major(in, 512, 8, 64);
  a.kv.k = strobe::token_major(in, 512, 8, 64);
  a.kv.v = strobe::token_major(in, 512, 8, 64);
  a.o = strobe::token_major(reinterpret_cast<__half*>(nothing), 512, 8, 64);
  a.bounds = {1, 512, 512, 8, 8};
  const strobe::KernelChoice choice = strobe::prefill_kernel(a, *device);
  const strobe::Status status = strobe::prefill(a, *device, strobe::Workspace{}, nullptr);
  std::memcpy(text, status.ok() ? choice.text : status.text, strobe::Status::capacity);
  return int(status.code);
}
