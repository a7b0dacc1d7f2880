// SPDX-License-Identifier: MIT
// strobe behind a C interface: one object file with the instances a program wants, and callers that
// know element type, head dimension and mask only at run time (another language, an engine with
// plug-ins). The table below is all there is to it: an instance is named where it is wanted, and
// only what is named is compiled.
#include <strobe/prefill.cuh>

#include <cmath>
#include <cstdio>
#include <string>
#include <vector>

#include "support/array.hpp"

// ---- what a header for C would hold ----

extern "C" {

enum { attend_fp16 = 0, attend_bf16 = 1 };

// One call. Tensors are [batch, tokens, heads, head_dim], contiguous, in device memory.
struct attend_call {
  int element_type;  // attend_fp16, attend_bf16
  int head_dim;      // a multiple of 8, up to 128
  int batch, q_len, kv_len, q_heads, kv_heads;
  int window_left, window_right;  // keys a query sees on either side of it; -1: all of them.
                                  // Causal is {-1, 0}
  const void *q, *k, *v;
  void* o;
};

// 0, or else one of strobe's codes with a sentence in `message`, cut to fit. The stream is a
// cudaStream_t.
int attend(const struct attend_call* call, void* stream, char* message, size_t message_bytes);

}  // extern "C"

// ---- what the object holds ----

namespace {

// A window given at run time serves full and causal attention, too, at about a hundredth of the
// time; so instances are as many as types times widths.
template <class T, int Width>
strobe::Status run(const attend_call& call, const strobe::Device& device, cudaStream_t stream) {
  strobe::Attention<T, Width, strobe::Window> a;
  const auto tensor = [&](const void* data, int tokens, int heads) {
    return strobe::token_major(static_cast<const T*>(data), tokens, heads, call.head_dim);
  };
  a.head_dim = a.value_dim = call.head_dim;
  a.q = tensor(call.q, call.q_len, call.q_heads);
  a.kv.k = tensor(call.k, call.kv_len, call.kv_heads);
  a.kv.v = tensor(call.v, call.kv_len, call.kv_heads);
  a.o = strobe::token_major(static_cast<T*>(call.o), call.q_len, call.q_heads, call.head_dim);
  a.mask.left = call.window_left < 0 ? strobe::unlimited : call.window_left;
  a.mask.right = call.window_right < 0 ? strobe::unlimited : call.window_right;
  a.bounds = {call.batch, call.q_len, call.kv_len, call.q_heads, call.kv_heads};
  return strobe::prefill(a, device, strobe::Workspace{}, stream);
}

struct Instance {
  int element_type, width;
  strobe::Status (*run)(const attend_call&, const strobe::Device&, cudaStream_t);
};
// By ascending width: the first that a head fits is the cheapest.
constexpr Instance instances[] = {
    {attend_fp16, 64, &run<__half, 64>},
    {attend_fp16, 128, &run<__half, 128>},
    {attend_bf16, 64, &run<__nv_bfloat16, 64>},
    {attend_bf16, 128, &run<__nv_bfloat16, 128>},
};

int answer(int code, const char* text, char* message, size_t message_bytes) {
  if (message != nullptr && message_bytes > 0) std::snprintf(message, message_bytes, "%s", text);
  return code;
}

}  // namespace

extern "C" int attend(const attend_call* call, void* stream, char* message, size_t message_bytes) {
  // A library with one context would keep the device's facts with it.
  strobe::Device device;
  strobe::Status status = strobe::current_device(&device);
  if (!status) return answer(int(status.code), status.text, message, message_bytes);
  for (const Instance& instance : instances) {
    if (instance.element_type != call->element_type || instance.width < call->head_dim) continue;
    status = instance.run(*call, device, static_cast<cudaStream_t>(stream));
    return answer(int(status.code), status.text, message, message_bytes);
  }
  const std::string text = "no instance for element_type " + std::to_string(call->element_type) +
                           " and head_dim " + std::to_string(call->head_dim);
  return answer(int(strobe::Code::unsupported), text.c_str(), message, message_bytes);
}

// ---- a caller ----

namespace {

double number(__half x) { return double(__half2float(x)); }
double number(__nv_bfloat16 x) { return double(__bfloat162float(x)); }
void set(__half& x, float value) { x = __float2half_rn(value); }
void set(__nv_bfloat16& x, float value) { x = __float2bfloat16_rn(value); }

// Calls attend() and the textbook; the largest difference.
template <class T>
double largest_error(attend_call call) {
  uint32_t seed = 1;
  const auto random = [&](int tokens, int heads) {
    std::vector<T> values(size_t(call.batch) * size_t(tokens) * size_t(heads) *
                          size_t(call.head_dim));
    for (T& x : values)
      set(x, float(int32_t(seed = seed * 1664525u + 1013904223u) >> 8) * 0x1p-22f);
    return values;
  };
  const std::vector<T> q = random(call.q_len, call.q_heads), k = random(call.kv_len, call.kv_heads),
                       v = random(call.kv_len, call.kv_heads);
  const example::Array<T> device_q(q), device_k(k), device_v(v), device_o(q.size());
  call.q = device_q.data();
  call.k = device_k.data();
  call.v = device_v.data();
  call.o = device_o.data();
  char message[200];
  if (attend(&call, nullptr, message, sizeof message) != 0) {
    std::fprintf(stderr, "attend: %s\n", message);
    return HUGE_VAL;
  }
  const std::vector<T> o = device_o.to_host();

  double worst = 0;
  const int group = call.q_heads / call.kv_heads, dim = call.head_dim;
  std::vector<double> right(static_cast<size_t>(dim));
  for (int b = 0; b < call.batch; ++b)
    for (int t = 0; t < call.q_len; ++t)
      for (int h = 0; h < call.q_heads; ++h) {
        const auto at = [&](int token, int tokens, int head, int heads) {
          return ((size_t(b) * size_t(tokens) + size_t(token)) * size_t(heads) + size_t(head)) *
                 size_t(dim);
        };
        const size_t row = at(t, call.q_len, h, call.q_heads);
        const int position = t + call.kv_len - call.q_len;
        double sum = 0;
        right.assign(size_t(dim), 0.0);
        for (int key = 0; key < call.kv_len; ++key) {
          if (call.window_left >= 0 && key < position - call.window_left) continue;
          if (call.window_right >= 0 && key > position + call.window_right) continue;
          const size_t kv = at(key, call.kv_len, h / group, call.kv_heads);
          double dot = 0;
          for (size_t d = 0; d < size_t(dim); ++d) dot += number(q[row + d]) * number(k[kv + d]);
          const double weight_of_key = std::exp(dot / std::sqrt(double(dim)));
          sum += weight_of_key;
          for (size_t d = 0; d < size_t(dim); ++d) right[d] += weight_of_key * number(v[kv + d]);
        }
        for (size_t d = 0; d < size_t(dim); ++d) {
          const double error = std::fabs(number(o[row + d]) - (sum > 0 ? right[d] / sum : 0));
          worst = error <= worst ? worst : error;  // NaN becomes the worst, and stays
        }
      }
  return worst;
}

}  // namespace

int main() {
  attend_call call{};
  call.batch = 2;
  call.q_len = call.kv_len = 70;
  call.q_heads = 4;
  call.kv_heads = 2;
  call.window_left = -1;  // causal
  bool good = true;
  for (const int head_dim : {40, 64, 128}) {
    call.head_dim = head_dim;
    call.element_type = attend_fp16;
    const double fp16 = largest_error<__half>(call);
    call.element_type = attend_bf16;
    const double bf16 = largest_error<__nv_bfloat16>(call);
    std::printf("head_dim %3d: largest error %.1e in fp16, %.1e in bf16\n", head_dim, fp16, bf16);
    good = good && fp16 <= 2e-3 && bf16 <= 1.6e-2;
  }
  // What it was not built for it says, and so it does for what is wrong.
  char message[200];
  call.head_dim = 256;
  good = good && attend(&call, nullptr, message, sizeof message) == int(strobe::Code::unsupported);
  std::printf("head_dim 256: %s\n", message);
  call.head_dim = 64;
  call.q_heads = 3;
  good = good && attend(&call, nullptr, message, sizeof message) == int(strobe::Code::invalid);
  std::printf("3 heads over 2: %s\n", message);
  std::printf("on %s\n", example::place());
  return good ? 0 : 1;
}
