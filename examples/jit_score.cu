// SPDX-License-Identifier: MIT
// usage: jit_score [EXPRESSION [P0 [P1 [P2 [P3]]]]]
// A score that arrives as text while the program runs: an expression of logit, q, k and four
// numbers p[0] .. p[3]. NVRTC compiles the portable prefill kernel with it, for the GPU at hand or,
// without one, for 8.0; on a GPU the kernel is then launched. Says how long the compilation took.
//
// NVRTC knows kernels, not host entries, so what prefill() does around a launch is done by hand
// here: checks, parameters, grid. It needs the headers of strobe and of the CUDA toolkit at run
// time.
#include <strobe/detail/check.hpp>
#include <strobe/device.cuh>
#include <strobe/kernel/prefill_sm80.cuh>

#include <nvrtc.h>

#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "support/array.hpp"

namespace {

constexpr char default_score[] = "logit - p[0] * float(q - k)";  // ALiBi

// What the host knows of the score: its fields, which both sides must lay out alike, and that it is
// one. What it computes comes later.
struct JitScore {
  float p[4];
  JitScore bind(const strobe::Block&) const;
  float operator()(float logit, int q, int k) const;
};
using Attention = strobe::Attention<__half, 64, strobe::Causal, strobe::Strided<__half>, JitScore>;
using Kernel = strobe::kernel::PrefillSm80<Attention>;
using Params = strobe::kernel::PrefillParams<Attention>;

// [docs: source]
std::string source_of(const std::string& expression) {
  return R"(
#include <strobe/kernel/prefill_sm80.cuh>
struct JitScore {
  float p[4];
  JitScore bind(const strobe::Block&) const { return *this; }
  float operator()(float logit, int q, int k) const {
    return
#line 1 "score"
)" + expression +
         R"(
    ;
  }
};
using Attention = strobe::Attention<__half, 64, strobe::Causal, strobe::Strided<__half>, JitScore>;
static_assert(sizeof(strobe::kernel::PrefillParams<Attention>) == )" +
         std::to_string(sizeof(Params)) + R"(, "host and device disagree about the parameters");
)";
}
// [docs: end]

struct Compiled {
  std::string code, kernel_name;  // code is empty where it failed
};

Compiled compile(const std::string& expression, int compute_capability) {
  // [docs: compile]
  const char kernel[] = "&strobe::kernel::prefill_sm80<Attention>";
  std::vector<std::string> options{"-std=c++17", "-default-device",
                                   "-arch=sm_" + std::to_string(compute_capability)};
  std::string folders = STROBE_JIT_INCLUDES;  // separated by colons
  for (size_t begin = 0, end; begin < folders.size(); begin = end + 1) {
    end = std::min(folders.find(':', begin), folders.size());
    options.push_back("-I" + folders.substr(begin, end - begin));
  }
  std::vector<const char*> pointers;
  for (const std::string& option : options) pointers.push_back(option.c_str());

  nvrtcProgram program;
  if (nvrtcCreateProgram(&program, source_of(expression).c_str(), "jit_score.cu", 0, nullptr,
                         nullptr) != NVRTC_SUCCESS)
    return {};
  nvrtcAddNameExpression(program, kernel);  // instantiates it
  const nvrtcResult result = nvrtcCompileProgram(program, int(pointers.size()), pointers.data());
  // [docs: end]
  Compiled compiled;
  if (result == NVRTC_SUCCESS) {
    const char* name = "";
    size_t bytes = 0;
    nvrtcGetLoweredName(program, kernel, &name);
    nvrtcGetCUBINSize(program, &bytes);
    compiled.kernel_name = name;
    compiled.code.resize(bytes);
    nvrtcGetCUBIN(program, compiled.code.data());
  } else {
    size_t bytes = 0;
    nvrtcGetProgramLogSize(program, &bytes);
    std::string log(bytes, '\0');
    nvrtcGetProgramLog(program, log.data());
    std::printf("%s\n%s", nvrtcGetErrorString(result), log.c_str());
  }
  nvrtcDestroyProgram(&program);
  return compiled;
}

// What prefill() does between its checks and cudaLaunchKernel.
strobe::Status launch(const Compiled& compiled, const Attention& a, const strobe::Device& device,
                      cudaStream_t stream) {
  if (strobe::Status status = strobe::detail::check_attention(a); !status) return status;
  // [docs: launch]
  cudaLibrary_t library;
  cudaKernel_t kernel;
  example::require(cudaLibraryLoadData(&library, compiled.code.data(), nullptr, nullptr, 0, nullptr,
                                       nullptr, 0));
  example::require(cudaLibraryGetKernel(&kernel, library, compiled.kernel_name.c_str()));
  example::require(cudaKernelSetAttributeForDevice(
      kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, Kernel::shared_bytes, device.ordinal));

  const float scale = a.scale.given ? a.scale.value : 1.f / std::sqrt(float(a.head_dim));
  const Params params{a, strobe::PrefillSchedule(a.bounds, Kernel::block_q), scale};
  void* arguments[] = {const_cast<Params*>(&params)};
  const auto blocks = unsigned(strobe::PrefillSchedule::blocks(a.bounds, Kernel::block_q));
  example::require(cudaLaunchKernel(reinterpret_cast<const void*>(kernel), dim3(blocks),
                                    dim3(Kernel::threads), arguments, Kernel::shared_bytes,
                                    stream));
  // [docs: end]
  example::require(cudaStreamSynchronize(stream));
  example::require(cudaLibraryUnload(library));
  return {};
}

// The textbook, for the default score alone.
double largest_error(const std::vector<__half> (&qkv)[3], const std::vector<__half>& o, int len,
                     int heads, double slope) {
  const auto at = [&](const std::vector<__half>& x, int token, int head, int d) {
    return double(__half2float(x[size_t((token * heads + head) * 64 + d)]));
  };
  double worst = 0;
  for (int row = 0; row < len; ++row)
    for (int head = 0; head < heads; ++head) {
      std::vector<double> expected(64, 0.0);
      double sum = 0;
      for (int key = 0; key <= row; ++key) {
        double dot = 0;
        for (int d = 0; d < 64; ++d) dot += at(qkv[0], row, head, d) * at(qkv[1], key, head, d);
        const double weight = std::exp(dot / 8 - slope * (row - key));
        for (int d = 0; d < 64; ++d) expected[size_t(d)] += weight * at(qkv[2], key, head, d);
        sum += weight;
      }
      for (int d = 0; d < 64; ++d) {
        const double error = std::fabs(at(o, row, head, d) - expected[size_t(d)] / sum);
        worst = error <= worst ? worst : error;  // NaN becomes the worst, and stays
      }
    }
  return worst;
}

}  // namespace

int main(int argc, char** argv) {
  const std::string expression = argc > 1 ? argv[1] : default_score;
  JitScore score{{0.125f, 0.f, 0.f, 0.f}};
  for (int i = 2; i < argc && i < 6; ++i) score.p[i - 2] = std::strtof(argv[i], nullptr);

  strobe::Device device;
  const strobe::Status found = strobe::current_device(&device);
  const int compute_capability = found.ok() ? device.compute_capability : 80;
  const auto start = std::chrono::steady_clock::now();
  const Compiled compiled = compile(expression, compute_capability);
  const double seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  if (compiled.code.empty() || compiled.kernel_name.empty()) return 1;
  std::printf("score \"%s\": compiled for sm_%d in %.2f s, %zu bytes\n", expression.c_str(),
              compute_capability, seconds, compiled.code.size());
  if (!found.ok()) {
    std::printf("not launched: there is no GPU (%s)\n", found.text);
    return 0;
  }

  const int len = 300, heads = 2;
  uint32_t seed = 1;
  std::vector<__half> qkv[3];
  for (auto& tensor : qkv)
    for (int i = 0; i < len * heads * 64; ++i)
      tensor.push_back(
          __float2half_rn(float(int32_t(seed = seed * 1664525u + 1013904223u) >> 8) * 0x1p-22f));
  const example::Array<__half> q(qkv[0]), k(qkv[1]), v(qkv[2]), o(qkv[0].size());
  Attention a;
  a.q = strobe::token_major<const __half>(q.data(), len, heads, 64);
  a.kv.k = strobe::token_major<const __half>(k.data(), len, heads, 64);
  a.kv.v = strobe::token_major<const __half>(v.data(), len, heads, 64);
  a.o = strobe::token_major(o.data(), len, heads, 64);
  a.score = score;
  a.bounds = {1, len, len, heads, heads};
  example::require(launch(compiled, a, device, nullptr));
  if (expression != default_score) {
    std::printf("launched; its first output is %g\n", double(__half2float(o.to_host()[0])));
    return 0;
  }
  const double error = largest_error(qkv, o.to_host(), len, heads, double(score.p[0]));
  std::printf("launched; largest error %.1e\n", error);
  return error <= 2e-3 ? 0 : 1;
}
