// SPDX-License-Identifier: MIT
// usage: compile_nvrtc ARCH INCLUDE_DIR ..
// Compiles strobe's kernels at run time with a score written as text, and says how long it took and
// how large they are. Exit status 1, with NVRTC's messages, where that fails.
#include <nvrtc.h>

#include <chrono>
#include <cstdio>
#include <string>
#include <vector>

namespace {

constexpr char source[] = R"(
#include <strobe/kernel/append.cuh>
#include <strobe/kernel/decode_sm80.cuh>
#include <strobe/kernel/merge.cuh>
#include <strobe/kernel/prefill_sm80.cuh>
#include <strobe/kernel/prefill_sm90a.cuh>

struct UserScore {
  float slope;
  struct Bound {
    float slope;
    __device__ float operator()(float logit, int q, int k) const { return logit - slope * float(q - k); }
  };
  __device__ Bound bind(const strobe::Block&) const { return {slope}; }
};

namespace k = strobe::kernel;
using Contiguous = strobe::Attention<__half, 64, strobe::Causal, strobe::Strided<__half>, UserScore>;
using InPages = strobe::Attention<__nv_bfloat16, 128, strobe::Window, strobe::Paged<__nv_bfloat16>, UserScore>;

template __global__ void k::prefill_sm80<InPages>(const __grid_constant__ k::PrefillParams<InPages>);
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
template __global__ void k::prefill_sm90a<Contiguous, strobe::Family::sm90a>(
    const __grid_constant__ k::PrefillSm90aParams<Contiguous>);
#endif
template __global__ void k::decode_sm80<Contiguous, 1>(const __grid_constant__ k::DecodeParams<Contiguous>);
template __global__ void k::decode_sm80<InPages, 4>(const __grid_constant__ k::DecodeParams<InPages>);
)";

}  // namespace

int main(int argc, char** argv) {
  if (argc < 3) {
    std::fprintf(stderr, "usage: compile_nvrtc ARCH INCLUDE_DIR ..\n");
    return 2;
  }
  // Functions that a mask, a score or a policy leaves without __device__ are the device's here.
  std::vector<std::string> options{"-std=c++17", "-default-device",
                                   std::string("--gpu-architecture=sm_") + argv[1]};
  for (int i = 2; i < argc; ++i) options.push_back(std::string("-I") + argv[i]);
  std::vector<const char*> pointers;
  for (const std::string& option : options) pointers.push_back(option.c_str());

  nvrtcProgram program;
  if (nvrtcCreateProgram(&program, source, "user.cu", 0, nullptr, nullptr) != NVRTC_SUCCESS)
    return 2;
  const auto start = std::chrono::steady_clock::now();
  const nvrtcResult result = nvrtcCompileProgram(program, int(pointers.size()), pointers.data());
  const double seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  size_t size = 0;
  nvrtcGetProgramLogSize(program, &size);
  std::string log(size, '\0');
  nvrtcGetProgramLog(program, log.data());
  size_t cubin = 0;
  if (result == NVRTC_SUCCESS) nvrtcGetCUBINSize(program, &cubin);
  std::printf("%s%s in %.1f s, %zu bytes for sm_%s\n", log.c_str(), nvrtcGetErrorString(result),
              seconds, cubin, argv[1]);
  nvrtcDestroyProgram(&program);
  return result == NVRTC_SUCCESS && cubin > 0 ? 0 : 1;
}
