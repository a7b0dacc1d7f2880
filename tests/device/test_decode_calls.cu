// SPDX-License-Identifier: MIT
// Calls of decode: the size and reuse of its workspace, and what it refuses before it launches
// anything.
#include "support/case.hpp"

using namespace strobe_test;

namespace {

using Half64 = strobe::Attention<__half, 64, strobe::Window>;
using Bf128 = strobe::Attention<__nv_bfloat16, 128, strobe::Causal, strobe::Strided<__nv_bfloat16>,
                                strobe::NoScore, 128, float>;
constexpr strobe::Window causal{strobe::unlimited, 0};

Problem shape(int q_len, int kv_len, int q_heads = 2, int kv_heads = 1) {
  Problem p;
  p.q_len = q_len;
  p.kv_len = kv_len;
  p.q_heads = q_heads;
  p.kv_heads = kv_heads;
  return p;
}

bool contains(const strobe::Status& status, const char* part) {
  return std::string(status.text).find(part) != std::string::npos;
}

// A call, a status and that nothing was written by it.
template <class Attention>
void check_refused(const Prepared<Attention, Decode>& prepared, const strobe::Workspace& workspace,
                   strobe::Code code, const char* part) {
  const strobe::Status status = strobe::decode(prepared.args, test_device(), workspace, nullptr);
  INFO(status.text);
  CHECK(status.code == code);
  CHECK(contains(status, part));
  finish();
  const auto o = prepared.download_o();
  const auto marker = from_bits<typename Attention::output_type>(
      sizeof(o[0]) == 2
          ? 0xa5a5
          : static_cast<typename Format<typename Attention::output_type>::Bits>(0xa5a5a5a5u));
  int64_t written = 0;
  for (const auto& value : o) written += bits_of(value) != bits_of(marker);
  CHECK(written == 0);
}

}  // namespace

// The size was too large by the ratio of heads, or wrapped.
STROBE_TEST_CASE("SCH-09: the workspace's size by its rule, large and largest", "") {
  using Bf256 = strobe::Attention<__nv_bfloat16, 256, strobe::Causal>;
  using Fixed64 = strobe::Attention<__half, 64, strobe::Causal, strobe::Strided<__half>,
                                    strobe::NoScore, 64, __half, strobe::FixedPolicy<256>>;
  // Header, then a state of value_dim + 4 floats for each KV head, row of a block, part and node.
  const auto bytes = [](int64_t groups, int64_t states, int64_t rows, int64_t value_dim) {
    return size_t(65536 + groups * states * rows * (value_dim + 4) * 4);
  };
  const strobe::Device device = test_device();
  CHECK(strobe::decode_workspace_bytes<Bf256>({512, 1, 4096, 32, 2, 1}, device) == 0);
  CHECK(strobe::decode_workspace_bytes<Bf256>({512, 1, 4096, 32, 2, 3}, device) ==
        bytes(1024, 3 + 1, 16, 256));
  CHECK(strobe::decode_workspace_bytes<Bf256>({512, 5, 4096, 32, 2, 3}, device) ==
        bytes(2048, 3 + 1, 64, 256));  // 80 rows: two blocks of 64
  CHECK(strobe::decode_workspace_bytes<Bf256>({1, 1, 4096, 1, 1, 33}, device) ==
        bytes(1, 33 + 3 + 1, 16, 256));
  CHECK(strobe::decode_workspace_bytes<Fixed64>({8192, 1, 1 << 30, 2, 2}, device) ==
        bytes(16384, 1 << 22, 16, 64));  // 3e14 bytes, but not fewer
  CHECK(strobe::decode_workspace_bytes<Fixed64>({1, 1, 0, 1, 1}, device) == bytes(1, 1, 16, 64));
  for (const strobe::Bounds& illegal :
       {strobe::Bounds{1, 1, 10, 6, 4, 2}, {1, 1, 10, 4, 8, 2}, {1, 1, 10, 8, 0, 2}})
    CHECK(strobe::decode_workspace_bytes<Bf256>(illegal, device) == 0);
}

STROBE_TEST_CASE("SCH-09: exactly the bytes asked for, one less, none", "") {
  for (const int splits : {1, 2, 40}) {
    Problem p = shape(1, 1000, 32, 2);
    p.kv_splits = splits;
    const Prepared<Half64, Decode> prepared(p, causal);
    const size_t bytes =
        strobe::decode_workspace_bytes<Half64>(prepared.args.bounds, test_device());
    CHECK(prepared.workspace.bytes == bytes);
    CHECK((splits == 1) == (bytes == 0));
    if (bytes > 0) {
      strobe::Workspace less = prepared.workspace;
      less.bytes -= 1;
      check_refused(prepared, less, strobe::Code::invalid, "workspace.bytes");
      check_refused(prepared, {}, strobe::Code::invalid, "workspace.bytes");
      strobe::Workspace moved = prepared.workspace;
      moved.data = static_cast<char*>(moved.data) + 16;
      check_refused(prepared, moved, strobe::Code::invalid, "256");
    }
    require_ok(prepared.launch());
    finish();
    judge(prepared);
  }
}

STROBE_TEST_CASE("decode: one workspace serves different calls in turn", "") {
  std::vector<Problem> problems;
  const auto add = [&](int batch, int q_len, int kv_len, int heads, int splits) {
    problems.push_back(shape(q_len, kv_len, heads, 1));
    problems.back().batch = batch;
    problems.back().kv_splits = splits;
    problems.back().rows_checked = 2;
  };
  add(2, 1, 500, 2, 7);
  add(1, 16, 700, 2, 33);
  add(5, 3, 300, 1, 2);
  add(1, 1, 2200, 4, 18);
  size_t most = 0;
  std::vector<std::unique_ptr<Prepared<Half64, Decode>>> all;
  for (const Problem& p : problems) {
    all.push_back(std::make_unique<Prepared<Half64, Decode>>(p, causal));
    most = std::max(most, all.back()->workspace.bytes);
  }
  const Prepared<Bf128, Decode> other(problems[1]);
  most = std::max(most, other.workspace.bytes);
  const Scratch scratch(most);
  for (int round = 0; round < 2; ++round)
    for (const auto& prepared : all) {
      prepared->workspace = scratch.get();
      prepared->reset_outputs();
      require_ok(prepared->launch());
      finish();
      judge(*prepared);
      REQUIRE(strobe::decode(other.args, test_device(), scratch.get(), nullptr).ok());
      finish();
      judge(other);
      other.reset_outputs();
      CHECK(scratch.damage() == "");
    }
}

STROBE_TEST_CASE("decode refuses: too many queries, too many counters, masks that vary by head",
                 "") {
  const Prepared<Half64, Decode> longer(shape(17, 40), causal);
  check_refused(longer, {}, strobe::Code::unsupported, "bounds.q_len is 17");
  Problem p = shape(1, 300, 2, 1);
  p.kv_splits = 2;
  Prepared<Half64, Decode> many(p, causal);
  many.args.bounds.batch = 16385;  // never followed: refused before
  check_refused(many, many.workspace, strobe::Code::unsupported, "arrival counters");

  many.args.bounds = {1 << 30, 16, 1, 1 << 30, 1 << 30, 144};  // 9 * 2^64 blocks
  many.args.q.head = many.args.o.head = many.args.lse.head = 64;
  many.args.q.token = many.args.o.token = many.args.lse.token = 64;
  many.args.q.batch = many.args.o.batch = many.args.lse.batch = 64;
  CHECK(strobe::decode_supported(many.args, test_device()).code == strobe::Code::unsupported);
  CHECK(contains(strobe::decode_supported(many.args, test_device()), "thread blocks"));
  // GQA-04.
  for (const auto& [q_heads, kv_heads] : {std::pair{6, 4}, {4, 8}, {8, 0}}) {
    many.args.bounds = {1, 1, 300, q_heads, kv_heads};
    CHECK(strobe::decode_supported(many.args, test_device()).code == strobe::Code::invalid);
    CHECK(contains(strobe::decode_supported(many.args, test_device()), "bounds.kv_heads"));
  }

  using Listed = strobe::Attention<__half, 64, strobe::BlockList>;
  const SharedTable<int> offsets({0, 1, 3}), columns({0, 0, 1});
  const strobe::BlockList list{offsets.data(), columns.data()};
  const Prepared<Listed, Decode> grouped(shape(1, 100, 2, 1), list);
  check_refused(grouped, {}, strobe::Code::unsupported, "varies by head");
  CHECK(strobe::decode_supported(grouped.args, test_device()).code == strobe::Code::unsupported);
  check_decode<Listed>(shape(1, 100, 2, 2), list);  // nothing is packed here
  check_decode<Listed>(shape(7, 128, 2, 2), list);
}

STROBE_TEST_CASE("decode: no sequences, no queries, no heads: fine, and nothing happens", "") {
  for (int field = 0; field < 3; ++field) {
    Half64 a;
    a.bounds = {1, 1, 10, 1, 1};
    (field == 0 ? a.bounds.batch : field == 1 ? a.bounds.q_len : a.bounds.q_heads) = 0;
    CHECK(strobe::decode_workspace_bytes<Half64>(a.bounds, test_device()) == 0);
    CHECK(strobe::decode(a, test_device(), {}, nullptr).ok());
  }
}
