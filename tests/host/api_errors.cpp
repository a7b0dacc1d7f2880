// SPDX-License-Identifier: MIT
// Wrong calls of prefill, one a row: the code, the whole sentence, the output untouched, the same
// answer from prefill_supported, and no trace left in the next call.
#include <catch2/catch_test_macros.hpp>
#include <cstring>
#include <set>
#include <string>

#include "api_call.hpp"
#include "strobe/prefill.cuh"

using api::Call;
using api::Problem;
using strobe::Code;
using strobe::Status;

namespace {

Status run(const Call& call) {
  return strobe::prefill(call.a, call.device, call.workspace, nullptr);
}

bool terminated(const char (&text)[Status::capacity]) {
  return std::memchr(text, '\0', sizeof text) != nullptr;
}

std::string expected(std::string sentence) {
  const std::string hole = "{shared_bytes}";
  const size_t at = sentence.find(hole);
  if (at == std::string::npos) return sentence;
  const int bytes = strobe::kernel::PrefillSm80<api::Attention>::shared_bytes;
  return sentence.replace(at, hole.size(), std::to_string(bytes));
}

void check_rows(const std::vector<api::Wrong>& rows) {
  for (const api::Wrong& row : rows) {
    INFO(row.name);
    Problem problem;
    Call call = problem.valid();
    row.change(call);

    const Status status = run(call);
    CHECK(status.code == row.code);
    CHECK(status.cuda ==
          (row.code == Code::invalid ? cudaErrorInvalidValue : cudaErrorNotSupported));
    REQUIRE(terminated(status.text));
    CHECK(std::string(status.text) == expected(row.sentence));
    CHECK(problem.written() == 0);

    const Status supported = strobe::prefill_supported(call.a, call.device);
    const strobe::KernelChoice choice = strobe::prefill_kernel(call.a, call.device);
    if (row.of_workspace) {
      CHECK(supported.ok());
      CHECK(choice.status.ok());
    } else {
      CHECK(supported.code == status.code);
      CHECK(supported.cuda == status.cuda);
      CHECK(std::strcmp(supported.text, status.text) == 0);
      CHECK(std::strcmp(choice.status.text, status.text) == 0);
      CHECK(choice.text[0] == '\0');
    }
    CHECK(problem.written() == 0);

    // ERR-02: the same call, put right, works: nothing was left behind.
    const Status twin = run(problem.valid());
    CHECK(std::string(twin.text) == "");
    CHECK(twin.code == Code::ok);
    CHECK(problem.written() == Problem::outputs);
    CHECK(problem.all_ones());
  }
}

}  // namespace

TEST_CASE("wrong bounds, widths, head counts, scales and lengths", "[cpu][errors]") {
  check_rows(api::wrong_bounds());
}

TEST_CASE("wrong pointers and strides", "[cpu][errors]") { check_rows(api::wrong_tensors()); }

TEST_CASE("wrong masks, scores, devices and workspaces", "[cpu][errors]") {
  check_rows(api::wrong_nouns());
}

TEST_CASE("the tables hold enough, and every sentence names its field", "[cpu][errors]") {
  std::set<std::string> sentences;
  size_t rows = 0;
  for (const auto& table : {api::wrong_bounds(), api::wrong_tensors(), api::wrong_nouns()})
    for (const api::Wrong& row : table) {
      ++rows;
      sentences.insert(row.sentence);
    }
  CHECK(rows >= 45);
  CHECK(sentences.size() >= rows - 2);
}

TEST_CASE("of several mistakes the first is reported, and each is found in its turn",
          "[cpu][errors]") {
  Problem problem;
  Call call = problem.valid();
  call.device = {};
  call.soft_cap().cap = -1.f;
  call.window().left = -1;
  call.a.kv.v.data = nullptr;
  call.a.q.data = nullptr;
  call.a.bounds.q_len = -1;
  const Call right = problem.valid();
  const auto next = [&] { return std::string(run(call).text); };
  CHECK(next().find("bounds.q_len") == 0);
  call.a.bounds = right.a.bounds;
  CHECK(next().find("q.data") == 0);
  call.a.q = right.a.q;
  CHECK(next().find("kv.v.data") == 0);
  call.a.kv = right.a.kv;
  CHECK(next().find("mask.left") == 0);
  call.a.mask = right.a.mask;
  CHECK(next().find("score.cap") == 0);
  call.a.score = right.a.score;
  CHECK(next().find("device") == 0);
  CHECK(problem.written() == 0);
  call.device = right.device;
  CHECK(next() == "");
  CHECK(problem.written() == Problem::outputs);
}

TEST_CASE("the largest grid is supported, one more block is not", "[cpu][errors]") {
  Problem problem;
  Call call = problem.valid();
  call.a.bounds = {16909320, 5, 7, 127, 1};  // 2^31 - 8 blocks; only asked about
  CHECK(strobe::prefill_supported(call.a, call.device).ok());
  call.a.bounds = {1 << 20, 5, 7, 1 << 11, 1};  // 2^31
  CHECK(strobe::prefill_supported(call.a, call.device).code == Code::unsupported);
}

TEST_CASE("fp32 outputs: strides are counted in their own elements", "[cpu][errors]") {
  // Only looked at, never launched.
  strobe::Attention<__half, 64, strobe::Full, strobe::Strided<__half>, strobe::NoScore, 64, float>
      a;
  alignas(16) static float memory[4];
  a.bounds = {1, 2, 0, 1, 1};
  a.q = {api::address<const __half>(0x1000), 0, 64, 0};
  a.o = {memory, 0, 66, 0};
  const strobe::Device device{0, 80, 4, 99 * 1024};
  CHECK(std::string(strobe::prefill_supported(a, device).text) ==
        "o.token is 66; it must be a multiple of 4 elements (16 bytes)");
  a.o.token = 68;
  CHECK(strobe::prefill_supported(a, device).ok());
}

TEST_CASE("check_workspace: too small", "[cpu][errors]") {
  const auto text = [](const strobe::Workspace& workspace, size_t needed) {
    return std::string(strobe::detail::check_workspace(workspace, needed).text);
  };
  void* const some = api::address<void>(0x1000);
  CHECK(text({some, 1023}, 1024) == "workspace.bytes is 1023; this call needs 1024");
  CHECK(text({}, 1024) == "workspace.bytes is 0; this call needs 1024");
  CHECK(text({some, 1024}, 1024) == "");
  CHECK(text({}, 0) == "");
}
