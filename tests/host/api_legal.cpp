// SPDX-License-Identifier: MIT
// Calls that look odd and are right: empty problems, strides that nobody looks at, no LSE; and the
// two calls made before the first one.
#include <catch2/catch_test_macros.hpp>
#include <cmath>
#include <cstring>
#include <string>
#include <vector>

#include "api_call.hpp"
#include "strobe/decode.cuh"
#include "strobe/prefill.cuh"

using api::Call;
using api::Problem;
using strobe::Status;

namespace {

std::string run(const Call& call) {
  const Status supported = strobe::prefill_supported(call.a, call.device);
  const Status status = strobe::prefill(call.a, call.device, call.workspace, nullptr);
  CHECK(status.code == supported.code);
  CHECK(status.ok() == (status.text[0] == '\0'));
  return status.text;
}

}  // namespace

TEST_CASE("RAG-02: problems without rows succeed and touch nothing", "[cpu][errors]") {
  const strobe::Bounds empty[] = {
      {0, 5, 7, 4, 2},  {2, 0, 7, 4, 2},       {2, 5, 7, 0, 2},
      {2, 5, 7, 0, 0},  {0, 0, 0, 0, 0},       {0, 1 << 30, 1 << 30, 4, 2},
      {2, 0, 0, 71, 1}, {1 << 30, 0, 7, 4, 2}, {0, 5, 7, 6, 4}};
  for (const strobe::Bounds& bounds : empty) {
    CAPTURE(bounds.batch, bounds.q_len, bounds.kv_len, bounds.q_heads, bounds.kv_heads);
    Problem problem;
    Call call = problem.valid();
    call.a.bounds = bounds;
    CHECK(run(call) == "");
    CHECK(problem.written() == 0);

    Call null;  // every pointer of tensors, masks and scores is null
    null.device = call.device;
    null.a.bounds = bounds;
    CHECK(run(null) == "");
  }
}

TEST_CASE("no keys: output 0, LSE -infinity, K and V may be null", "[cpu][errors]") {
  alignas(16) __half q[64] = {};
  alignas(16) unsigned short o[64];
  std::memset(o, 0x7d, sizeof o);
  float lse = 5.f;
  Problem problem;
  Call call = problem.valid();
  call.a.bounds = {1, 1, 0, 1, 1};
  call.a.q = {q};
  call.a.o = {reinterpret_cast<__half*>(o)};
  call.a.lse = {&lse};
  call.a.kv = {};
  CHECK(run(call) == "");
  for (unsigned short bits : o) REQUIRE(bits == 0);
  CHECK((std::isinf(lse) && lse < 0));
}

TEST_CASE("strides of extents 1 and 0 are not looked at", "[cpu][errors]") {
  alignas(16) __half q[64] = {}, k[64] = {};
  alignas(16) unsigned short v[64], o[64];
  for (int i = 0; i < 64; ++i) v[i] = 0x3c00, o[i] = 0x7dad;
  float lse = 5.f;
  Problem problem;
  for (int64_t odd : {int64_t(0), int64_t(13), int64_t(-7), std::numeric_limits<int64_t>::max()}) {
    CAPTURE(odd);
    Call call = problem.valid();
    call.a.bounds = {1, 1, 1, 1, 1};
    call.a.q = {q, odd, odd, odd};
    call.a.kv.k = {k, odd, odd, odd};
    call.a.kv.v = {reinterpret_cast<__half*>(v), odd, odd, odd};
    call.a.o = {reinterpret_cast<__half*>(o), odd, odd, odd};
    call.a.lse = {&lse, odd, odd, odd};
    call.a.score.second.batch_stride = 0;
    CHECK(run(call) == "");
    for (unsigned short bits : o) REQUIRE(bits == 0x3c00);
    CHECK(std::fabs(lse) < 1e-5f);  // one key, logit 0
  }
}

TEST_CASE("packed tokens: the batch stride is not looked at", "[cpu][errors]") {
  Problem problem;
  Call call = problem.valid();
  const int q_offsets[] = {0, 5, 10}, kv_offsets[] = {0, 7, 14};
  call.a.lengths = {q_offsets, nullptr, kv_offsets, nullptr};
  call.a.q.batch = call.a.kv.k.batch = call.a.kv.v.batch = call.a.o.batch = 3;
  call.a.lse.batch = 0;
  CHECK(run(call) == "");
  CHECK(problem.written() == Problem::outputs);
  CHECK(problem.all_ones());
}

TEST_CASE("inputs may have stride 0, and strides may be negative", "[cpu][errors]") {
  Problem problem;
  Call call = problem.valid();
  call.a.q.head = 0;
  call.a.kv.k.token = 0;
  call.a.kv.v.batch = 0;
  call.a.o.data += 4 * 256;  // the last token first
  call.a.o.token = -256;
  CHECK(run(call) == "");
  CHECK(problem.written() == Problem::outputs);
  CHECK(problem.all_ones());
}

TEST_CASE("an LSE is not asked for by a null pointer", "[cpu][errors]") {
  Problem problem;
  Call call = problem.valid();
  call.a.lse = {nullptr, 0, 0, 0};
  CHECK(run(call) == "");
  CHECK(problem.written() == Problem::outputs / 65 * 64);
}

TEST_CASE("any finite scale, and a width below the compiled one", "[cpu][errors]") {
  for (float scale : {0.f, -0.5f, 1e-40f, 3.4e38f, -3.4e38f}) {
    CAPTURE(scale);
    Problem problem;
    Call call = problem.valid();
    call.a.scale = scale;
    CHECK(run(call) == "");
    CHECK(problem.written() == Problem::outputs);
  }
  for (int dim : {8, 40, 56, 64}) {
    Problem problem;
    Call call = problem.valid();
    call.a.head_dim = call.a.value_dim = dim;
    CHECK(run(call) == "");
    CHECK(problem.written() == Problem::outputs / 65 * (dim + 1));
  }
}

TEST_CASE("a workspace that is larger than needed is left alone", "[cpu][errors]") {
  alignas(256) static unsigned char memory[4096];
  std::memset(memory, 0xab, sizeof memory);
  Problem problem;
  Call call = problem.valid();
  CHECK(strobe::prefill_workspace_bytes<api::Attention>(call.a.bounds, call.device) == 0);
  call.workspace = {memory, sizeof memory};
  CHECK(run(call) == "");
  bool untouched = true;
  for (unsigned char byte : memory) untouched = untouched && byte == 0xab;
  CHECK(untouched);
}

TEST_CASE("init_workspace clears the header and no more", "[cpu][errors]") {
  constexpr size_t header = strobe::workspace_header_bytes;
  alignas(256) static unsigned char memory[header + 1024];
  std::memset(memory, 0xab, sizeof memory);
  const auto text = [](const strobe::Workspace& workspace) {
    return std::string(strobe::init_workspace(workspace, nullptr).text);
  };
  CHECK(text({}) == "");
  CHECK(text({nullptr, 5}) == "workspace.data is null but workspace.bytes is 5");
  CHECK(text({memory, header - 1}) == "workspace.bytes is " + std::to_string(header - 1) +
                                          "; the header alone needs " + std::to_string(header));
  CHECK(text({memory + 16, header}).find("it must be aligned to 256 bytes") != std::string::npos);
  CHECK(memory[0] == 0xab);
  CHECK(text({memory, sizeof memory}) == "");
  for (size_t i = 0; i < sizeof memory; ++i) {
    if (memory[i] != (i < header ? 0 : 0xab)) FAIL("byte " << i);
  }
}

TEST_CASE("current_device fills a device that prefill takes", "[cpu][errors]") {
  CHECK(std::string(strobe::current_device(nullptr).text) == "device is null");
  strobe::Device device;
  REQUIRE(strobe::current_device(&device).ok());
  CHECK(strobe::detail::check_device(device).ok());
  Problem problem;
  Call call = problem.valid();
  call.device = device;
  CHECK(run(call) == "");
  CHECK(problem.written() == Problem::outputs);
}

TEST_CASE("decode_kernel says what would run and why", "[cpu][errors]") {
  strobe::Attention<__half, 128, strobe::Causal> a;
  strobe::Device device;
  REQUIRE(strobe::current_device(&device).ok());
  CHECK(std::string(strobe::decode_kernel(a, device).text) ==
        "none: the bounds have no query rows");
  alignas(16) static __half memory[64 * 8 * 128];
  a.q = strobe::token_major<const __half>(memory, 1, 8, 128);
  a.kv.k = a.kv.v = strobe::token_major<const __half>(memory, 64, 1, 128);
  a.o = strobe::token_major(memory, 1, 8, 128);
  for (int q_len : {1, 16}) {
    a.bounds = {1, q_len, 64, 8, 1, 7};
    const strobe::KernelChoice choice = strobe::decode_kernel(a, device);
    REQUIRE(choice.status.ok());
    const std::string text = choice.text;
    CHECK(text.find(q_len == 1 ? "16 packed rows" : "64 packed rows") != std::string::npos);
    CHECK(text.find("up to 7 parts") != std::string::npos);
    CHECK(text.find(std::to_string(choice.shared_bytes) + " bytes") != std::string::npos);
  }
  a.bounds.q_len = 17;
  const strobe::KernelChoice refused = strobe::decode_kernel(a, device);
  CHECK(refused.status.code == strobe::Code::unsupported);
  CHECK(refused.text[0] == '\0');
}

TEST_CASE("prefill_kernel says what would run and why", "[cpu][errors]") {
  Problem problem;
  Call call = problem.valid();
  for (int capability : {80, 86, 90, 120}) {
    call.device.compute_capability = capability;
    const strobe::KernelChoice choice = strobe::prefill_kernel(call.a, call.device);
    REQUIRE(choice.status.ok());
    CHECK(choice.family == strobe::Family::sm80);
    const std::string text = choice.text;
    CHECK(text.find("prefill_sm80") == 0);
    CHECK(text.find(std::to_string(choice.shared_bytes) + " bytes") != std::string::npos);
    CHECK(text.find("...") == std::string::npos);  // not cut
    CHECK((text.find("9.0") != std::string::npos) == (capability == 90));
  }
  CHECK(problem.written() == 0);
}

TEST_CASE("prefill_kernel: the 9.0 kernel where it can, and else why not", "[cpu][errors]") {
  Problem problem;
  Call call = problem.valid();
  call.device = strobe::Device{0, 90, 132, 227 * 1024};
  CHECK(strobe::prefill_workspace_bytes<api::Attention>(call.a.bounds, call.device) ==
        strobe::workspace_header_bytes);
  const auto text = [&] {
    const strobe::KernelChoice choice = strobe::prefill_kernel(call.a, call.device);
    REQUIRE(choice.status.ok());
    CHECK((choice.family != strobe::Family::sm80) ==
          (std::string(choice.text).find("prefill_sm90a") == 0));
    CHECK(std::string(choice.text).find("...") == std::string::npos);
    return std::string(choice.text);
  };
  CHECK(text().find("prefill_sm90a (wgmma, TMA)") == 0);
  CHECK(run(call) == "");
  CHECK(problem.written() == Problem::outputs);

  // TMA has no negative strides.
  Call reversed = call;
  std::swap(reversed, call);
  call.a.kv.k.token = -call.a.kv.k.token;
  CHECK(text().find("on 9.0 because TMA cannot describe kv.k") != std::string::npos);
  call = reversed;
  call.device.shared_bytes_per_block = 100 * 1024;
  CHECK(text().find("on 9.0 because device.shared_bytes_per_block is too small") !=
        std::string::npos);
}
