// SPDX-License-Identifier: MIT
// Wrong calls of merge and append, one a row: the code, the whole sentence, nothing written, and no
// trace left in the next call.
#include <catch2/catch_test_macros.hpp>
#include <cstring>
#include <string>
#include <type_traits>
#include <vector>

#include "api_call.hpp"
#include "strobe/append.cuh"
#include "strobe/merge.cuh"

using api::address;
using strobe::Code;
using strobe::Status;

namespace {

constexpr auto invalid = Code::invalid;
constexpr auto unsupported = Code::unsupported;
constexpr int too_long = (1 << 30) + 1;
constexpr strobe::Device device{0, 80, 4, 99 * 1024};
constexpr unsigned short one = 0x3c00, marker = 0x7dad;  // of __half; the marker is a NaN

struct alignas(16) Chunk {
  unsigned short bits[8];
};

/// fp16 rows that all hold the same bits.
class Rows {
 public:
  Rows(int elements, unsigned short bits) : chunks_(size_t(elements) / 8) {
    for (Chunk& chunk : chunks_)
      for (unsigned short& b : chunk.bits) b = bits;
  }
  __half* data() { return reinterpret_cast<__half*>(chunks_.data()); }
  int count(unsigned short bits) const {
    int found = 0;
    for (const Chunk& chunk : chunks_)
      for (const unsigned short b : chunk.bits) found += b == bits;
    return found;
  }

 private:
  std::vector<Chunk> chunks_;
};

template <class Call>
struct Wrong {
  const char* name;
  void (*change)(Call& call);
  Code code;
  std::string sentence;
};

void check_status(const Status& status, Code code, const std::string& sentence) {
  CHECK(status.code == code);
  CHECK(status.cuda == (code == Code::invalid ? cudaErrorInvalidValue : cudaErrorNotSupported));
  REQUIRE(std::memchr(status.text, '\0', sizeof status.text) != nullptr);
  CHECK(std::string(status.text) == sentence);
}

template <class Problem, class Call>
void check_rows(const std::vector<Wrong<Call>>& rows) {
  for (const Wrong<Call>& row : rows) {
    INFO(row.name);
    Problem problem;
    Call call = problem.valid();
    row.change(call);
    check_status(problem.run(call), row.code, row.sentence);
    CHECK(problem.written() == 0);
    // ERR-02: the same call, put right, works: nothing was left behind.
    CHECK(std::string(problem.run(problem.valid()).text) == "");
    CHECK(problem.written() == Problem::outputs);
    CHECK(problem.right());
  }
}

// ---- merge: 3 parts, 2 x 5 rows of 4 heads, width 16; all values 1

struct MergeCall {
  strobe::Merge<__half> m;
  strobe::Device device;
};

class MergeProblem {
 public:
  static constexpr int parts = 3, batch = 2, tokens = 5, heads = 4, dim = 16;
  static constexpr int rows = batch * tokens * heads, outputs = rows * (dim + 1);
  static constexpr float lse_marker = -12345.f;

  MergeCall valid() {
    MergeCall call;
    call.m.o = strobe::token_major(static_cast<const __half*>(o_.data()), tokens, heads, dim);
    call.m.o_part = rows * dim;
    call.m.lse = strobe::token_major(static_cast<const float*>(lse_.data()), tokens, heads, 1);
    call.m.lse_part = rows;
    call.m.merged_o = strobe::token_major(merged_.data(), tokens, heads, dim);
    call.m.merged_lse = strobe::token_major(merged_lse_.data(), tokens, heads, 1);
    call.m.parts = parts;
    call.m.batch = batch;
    call.m.tokens = tokens;
    call.m.heads = heads;
    call.m.value_dim = dim;
    call.device = device;
    return call;
  }
  Status run(const MergeCall& call) const {
    const Status supported = strobe::merge_supported(call.m, call.device);
    const Status status = strobe::merge(call.m, call.device, nullptr);
    CHECK(std::string(supported.text) == status.text);
    return status;
  }
  int written() const {
    int found = rows * dim - merged_.count(marker);
    for (const float lse : merged_lse_) found += lse != lse_marker;
    return found;
  }
  bool right() const { return merged_.count(one) == rows * dim; }

 private:
  Rows o_{parts * rows * dim, one}, merged_{rows * dim, marker};
  std::vector<float> lse_ = std::vector<float>(size_t(parts * rows), 0.f);
  std::vector<float> merged_lse_ = std::vector<float>(size_t(rows), lse_marker);
};

// ---- append: 2 x 3 new tokens, 7 keys, heads 4 on 2, widths 32 and 16, half a row rotated

template <class Kv>
struct AppendCall {
  strobe::Append<__half, Kv> a;
  strobe::Device device;
};
using Strided = AppendCall<strobe::Strided<__half>>;
using Paged = AppendCall<strobe::Paged<__half>>;

template <class Kv>
class AppendProblem {
 public:
  static constexpr int batch = 2, q_len = 3, kv_len = 7, q_heads = 4, kv_heads = 2;
  static constexpr int dim = 32, value_dim = 16, page_size = 4, pages = 4;
  static constexpr int slots = pages * page_size;
  static constexpr int outputs = batch * q_len * kv_heads * (dim + value_dim);
  static constexpr bool paged = std::is_same_v<Kv, strobe::Paged<__half>>;

  AppendCall<Kv> valid() {
    AppendCall<Kv> call;
    auto& a = call.a;
    a.k = strobe::token_major(static_cast<const __half*>(k_.data()), q_len, kv_heads, dim);
    a.v = strobe::token_major(static_cast<const __half*>(v_.data()), q_len, kv_heads, value_dim);
    a.q = strobe::token_major(q_.data(), q_len, q_heads, dim);
    const int tokens = paged ? page_size : slots / batch;
    a.kv.k =
        strobe::token_major(static_cast<const __half*>(cache_k_.data()), tokens, kv_heads, dim);
    a.kv.v = strobe::token_major(static_cast<const __half*>(cache_v_.data()), tokens, kv_heads,
                                 value_dim);
    if constexpr (paged) {
      a.kv.table = table_;
      a.kv.table_stride = pages / batch;
      a.kv.page_size = page_size;
    }
    a.rotary = {cos_.data(), sin_, 8, 16, false};
    a.bounds = {batch, q_len, kv_len, q_heads, kv_heads};
    a.head_dim = dim;
    a.value_dim = value_dim;
    call.device = device;
    return call;
  }
  Status run(const AppendCall<Kv>& call) const {
    const Status supported = strobe::append_supported(call.a, call.device);
    const Status status = strobe::append(call.a, call.device, nullptr);
    CHECK(std::string(supported.text) == status.text);
    return status;
  }
  /// Elements of the cache, and of Q where a wrong call changed it.
  int written() const {
    return slots * kv_heads * (dim + value_dim) - cache_k_.count(marker) - cache_v_.count(marker) +
           (batch * q_len * q_heads * dim - q_.count(one));
  }
  bool right() const { return cache_k_.count(one) + cache_v_.count(one) == outputs; }

 private:
  Rows k_{batch * q_len * kv_heads * dim, one}, v_{batch * q_len * kv_heads * value_dim, one},
      q_{batch * q_len * q_heads * dim, one};
  Rows cache_k_{slots * kv_heads * dim, marker}, cache_v_{slots * kv_heads * value_dim, marker};
  std::vector<float> cos_ = std::vector<float>(kv_len * 8, 1.f);
  float sin_[kv_len * 8] = {};
  int table_[pages] = {2, 0, 3, 1};
};

}  // namespace

TEST_CASE("merge: wrong extents, pointers, strides and devices", "[cpu][errors]") {
  using C = MergeCall;
  check_rows<MergeProblem>(std::vector<Wrong<C>>{
      {"parts -1", [](C& c) { c.m.parts = -1; }, invalid, "parts is -1; it must be >= 0"},
      {"parts", [](C& c) { c.m.parts = too_long; }, invalid,
       "parts is 1073741825; it must be <= 1073741824"},
      {"batch -1", [](C& c) { c.m.batch = -1; }, invalid, "batch is -1; it must be >= 0"},
      {"batch", [](C& c) { c.m.batch = too_long; }, invalid,
       "batch is 1073741825; it must be <= 1073741824"},
      {"tokens -5", [](C& c) { c.m.tokens = -5; }, invalid, "tokens is -5; it must be >= 0"},
      {"tokens", [](C& c) { c.m.tokens = too_long; }, invalid,
       "tokens is 1073741825; it must be <= 1073741824"},
      {"heads -4", [](C& c) { c.m.heads = -4; }, invalid, "heads is -4; it must be >= 0"},
      {"heads", [](C& c) { c.m.heads = 2147483647; }, invalid,
       "heads is 2147483647; it must be <= 1073741824"},
      {"a negative extent of an empty problem", [](C& c) { c.m.batch = 0, c.m.heads = -1; },
       invalid, "heads is -1; it must be >= 0"},
      {"value_dim 0", [](C& c) { c.m.value_dim = 0; }, invalid,
       "value_dim is 0; it must be a positive multiple of 8"},
      {"value_dim 12", [](C& c) { c.m.value_dim = 12; }, invalid,
       "value_dim is 12; it must be a positive multiple of 8"},
      {"value_dim -8", [](C& c) { c.m.value_dim = -8; }, invalid,
       "value_dim is -8; it must be a positive multiple of 8"},

      {"no device", [](C& c) { c.device = {}; }, invalid,
       "device is not filled in (compute_capability 0, sm_count 0, shared_bytes_per_block 0); take "
       "it from strobe::current_device"},
      {"ordinal", [](C& c) { c.device.ordinal = -1; }, invalid,
       "device.ordinal is -1; it must be >= 0"},

      {"o null", [](C& c) { c.m.o.data = nullptr; }, invalid, "o.data is null"},
      {"o off", [](C& c) { c.m.o.data = address<__half>(0x1008); }, invalid,
       "o.data is 0x1008; it must be aligned to 16 bytes"},
      {"o.batch", [](C& c) { c.m.o.batch = 324; }, invalid,
       "o.batch is 324; it must be a multiple of 8 elements (16 bytes)"},
      {"o.token", [](C& c) { c.m.o.token = 65; }, invalid,
       "o.token is 65; it must be a multiple of 8 elements (16 bytes)"},
      {"o.head", [](C& c) { c.m.o.head = -12; }, invalid,
       "o.head is -12; it must be a multiple of 8 elements (16 bytes)"},
      {"o_part", [](C& c) { c.m.o_part = 644; }, invalid,
       "o_part is 644; it must be a multiple of 8 elements (16 bytes)"},
      {"lse null", [](C& c) { c.m.lse.data = nullptr; }, invalid, "lse.data is null"},
      {"lse off", [](C& c) { c.m.lse.data = address<float>(0x1002); }, invalid,
       "lse.data is 0x1002; it must be aligned to 4 bytes"},
      {"merged_o null", [](C& c) { c.m.merged_o.data = nullptr; }, invalid,
       "merged_o.data is null"},
      {"merged_o off", [](C& c) { c.m.merged_o.data = address<__half>(0x1002); }, invalid,
       "merged_o.data is 0x1002; it must be aligned to 16 bytes"},
      {"merged_o.token", [](C& c) { c.m.merged_o.token = 60; }, invalid,
       "merged_o.token is 60; it must be a multiple of 8 elements (16 bytes)"},
      {"merged_o.head 0", [](C& c) { c.m.merged_o.head = 0; }, invalid,
       "merged_o.head is 0 but its extent is 4: rows would overwrite each other"},
      {"merged_lse off", [](C& c) { c.m.merged_lse.data = address<float>(0x1001); }, invalid,
       "merged_lse.data is 0x1001; it must be aligned to 4 bytes"},
      {"merged_lse.batch 0", [](C& c) { c.m.merged_lse.batch = 0; }, invalid,
       "merged_lse.batch is 0 but its extent is 2: rows would overwrite each other"},

      {"more rows than a grid", [](C& c) { c.m.batch = 1 << 30; }, unsupported,
       "batch * tokens * heads is more than 8000000000 rows"},
      {"more rows than 64 bits hold", [](C& c) { c.m.batch = c.m.tokens = c.m.heads = 1 << 30; },
       unsupported, "batch * tokens * heads is more than 8000000000 rows"},
  });
}

TEST_CASE("merge: odd calls that are right", "[cpu][errors]") {
  MergeProblem problem;
  MergeCall call = problem.valid();
  call.m.merged_lse = {};
  call.m.o_part = call.m.lse_part = 0;  // the same part three times
  CHECK(std::string(problem.run(call).text) == "");
  CHECK(problem.right());
  CHECK(problem.written() == MergeProblem::rows * MergeProblem::dim);

  MergeProblem single;
  call = single.valid();
  call.m.parts = 1;
  call.m.o_part = 3;  // not looked at
  CHECK(std::string(single.run(call).text) == "");
  CHECK(single.right());

  MergeProblem none;
  call = none.valid();
  call.m.parts = 0;
  call.m.o = {};
  call.m.lse = {};
  CHECK(std::string(none.run(call).text) == "");
  CHECK(none.written() == MergeProblem::outputs);
}

TEST_CASE("merge: fp32 strides are counted in their own elements", "[cpu][errors]") {
  strobe::Merge<float, __half> m;
  alignas(16) static float o[64];
  alignas(16) static __half merged[64];
  float lse[2] = {0.f, 0.f};
  m.o = {o, 0, 12, 0};
  m.lse = {lse, 0, 1, 0};
  m.merged_o = {merged, 0, 8, 0};
  m.parts = m.batch = m.heads = 1;
  m.tokens = 2;
  m.value_dim = 8;
  CHECK(std::string(strobe::merge(m, device, nullptr).text) == "");
  m.o.token = 14;
  CHECK(std::string(strobe::merge(m, device, nullptr).text) ==
        "o.token is 14; it must be a multiple of 4 elements (16 bytes)");
  m.o.token = 12;
  m.parts = 2;
  m.o_part = 18;
  CHECK(std::string(strobe::merge(m, device, nullptr).text) ==
        "o_part is 18; it must be a multiple of 4 elements (16 bytes)");
}

TEST_CASE("append: wrong bounds, widths, rotary and devices", "[cpu][errors]") {
  using C = Strided;
  check_rows<AppendProblem<strobe::Strided<__half>>>(std::vector<Wrong<C>>{
      {"batch -1", [](C& c) { c.a.bounds.batch = -1; }, invalid,
       "bounds.batch is -1; it must be >= 0"},
      {"q_len", [](C& c) { c.a.bounds.q_len = too_long; }, invalid,
       "bounds.q_len is 1073741825; it must be <= 1073741824"},
      {"kv_len", [](C& c) { c.a.bounds.kv_len = -7; }, invalid,
       "bounds.kv_len is -7; it must be >= 0"},
      {"q_heads", [](C& c) { c.a.bounds.q_heads = -4; }, invalid,
       "bounds.q_heads is -4; it must be >= 0"},
      {"kv_heads", [](C& c) { c.a.bounds.kv_heads = too_long; }, invalid,
       "bounds.kv_heads is 1073741825; it must be <= 1073741824"},
      {"a negative bound of an empty problem",
       [](C& c) {
         c.a.bounds = {0, 0, 0, 0, -1};
       },
       invalid, "bounds.kv_heads is -1; it must be >= 0"},
      {"head_dim 0", [](C& c) { c.a.head_dim = 0; }, invalid,
       "head_dim is 0; it must be a positive multiple of 8"},
      {"head_dim 36", [](C& c) { c.a.head_dim = 36; }, invalid,
       "head_dim is 36; it must be a positive multiple of 8"},
      {"value_dim -16", [](C& c) { c.a.value_dim = -16; }, invalid,
       "value_dim is -16; it must be a positive multiple of 8"},

      {"rotary.dim -16", [](C& c) { c.a.rotary.dim = -16; }, invalid,
       "rotary.dim is -16; it must be a multiple of 16 from 0 to head_dim, 32"},
      {"rotary.dim 8", [](C& c) { c.a.rotary.dim = 8; }, invalid,
       "rotary.dim is 8; it must be a multiple of 16 from 0 to head_dim, 32"},
      {"rotary.dim 48 over 32", [](C& c) { c.a.rotary.dim = 48; }, invalid,
       "rotary.dim is 48; it must be a multiple of 16 from 0 to head_dim, 32"},
      {"no cosines", [](C& c) { c.a.rotary.cos = nullptr; }, invalid, "rotary.cos is null"},
      {"no sines", [](C& c) { c.a.rotary.sin = nullptr; }, invalid, "rotary.sin is null"},
      {"cosines off", [](C& c) { c.a.rotary.cos = address<float>(0x1002); }, invalid,
       "rotary.cos is 0x1002; it must be aligned to 4 bytes"},
      {"sines off", [](C& c) { c.a.rotary.sin = address<float>(0x1003); }, invalid,
       "rotary.sin is 0x1003; it must be aligned to 4 bytes"},
      {"rotary.stride 7", [](C& c) { c.a.rotary.stride = 7; }, invalid,
       "rotary.stride is 7; a row has 8 floats"},

      {"no device", [](C& c) { c.device = {}; }, invalid,
       "device is not filled in (compute_capability 0, sm_count 0, shared_bytes_per_block 0); take "
       "it from strobe::current_device"},
      {"ordinal", [](C& c) { c.device.ordinal = -2; }, invalid,
       "device.ordinal is -2; it must be >= 0"},

      {"q_offsets", [](C& c) { c.a.lengths.q_offsets = address<int>(0x1001); }, invalid,
       "lengths.q_offsets is 0x1001; it must be aligned to 4 bytes"},
      {"q_lens", [](C& c) { c.a.lengths.q_lens = address<int>(0x1002); }, invalid,
       "lengths.q_lens is 0x1002; it must be aligned to 4 bytes"},
      {"kv_offsets", [](C& c) { c.a.lengths.kv_offsets = address<int>(0x1003); }, invalid,
       "lengths.kv_offsets is 0x1003; it must be aligned to 4 bytes"},
      {"kv_lens", [](C& c) { c.a.lengths.kv_lens = address<int>(0x1002); }, invalid,
       "lengths.kv_lens is 0x1002; it must be aligned to 4 bytes"},

      {"more blocks than a grid holds", [](C& c) { c.a.bounds.batch = 1 << 30; }, unsupported,
       "bounds.batch * bounds.q_len is 3221225472; at most 2147483647"},
      {"a token wider than a block counts",
       [](C& c) { c.a.bounds.kv_heads = 1 << 30, c.a.head_dim = 1 << 30; }, unsupported,
       "bounds and dims need more than 8000000000 elements a token"},
  });
}

TEST_CASE("append: wrong pointers and strides", "[cpu][errors]") {
  using C = Strided;
  check_rows<AppendProblem<strobe::Strided<__half>>>(std::vector<Wrong<C>>{
      {"k null", [](C& c) { c.a.k.data = nullptr; }, invalid, "k.data is null"},
      {"k off", [](C& c) { c.a.k.data = address<__half>(0x1002); }, invalid,
       "k.data is 0x1002; it must be aligned to 16 bytes"},
      {"k.token", [](C& c) { c.a.k.token = 68; }, invalid,
       "k.token is 68; it must be a multiple of 8 elements (16 bytes)"},
      {"v null", [](C& c) { c.a.v.data = nullptr; }, invalid, "v.data is null"},
      {"v.head", [](C& c) { c.a.v.head = 20; }, invalid,
       "v.head is 20; it must be a multiple of 8 elements (16 bytes)"},
      {"q off", [](C& c) { c.a.q.data = address<__half>(0x1008); }, invalid,
       "q.data is 0x1008; it must be aligned to 16 bytes"},
      {"q.batch", [](C& c) { c.a.q.batch = 4; }, invalid,
       "q.batch is 4; it must be a multiple of 8 elements (16 bytes)"},
      {"q.head 0", [](C& c) { c.a.q.head = 0; }, invalid,
       "q.head is 0 but its extent is 4: rows would overwrite each other"},
      {"kv.k null", [](C& c) { c.a.kv.k.data = nullptr; }, invalid, "kv.k.data is null"},
      {"kv.v off", [](C& c) { c.a.kv.v.data = address<__half>(0x1002); }, invalid,
       "kv.v.data is 0x1002; it must be aligned to 16 bytes"},
      {"kv.v.token", [](C& c) { c.a.kv.v.token = 33; }, invalid,
       "kv.v.token is 33; it must be a multiple of 8 elements (16 bytes)"},
      // Attention may read one row as many; append would write them.
      {"kv.v.token 0", [](C& c) { c.a.kv.v.token = 0; }, invalid,
       "kv.v.token is 0 but its extent is 7: rows would overwrite each other"},
      // Packed by offsets there is more than one token, however small the bound.
      {"packed q.token",
       [](C& c) {
         c.a.bounds.batch = c.a.bounds.q_len = 1;
         c.a.lengths.q_offsets = address<int>(0x1000);
         c.a.q.token = 12;
       },
       invalid, "q.token is 12; it must be a multiple of 8 elements (16 bytes)"},
  });
}

TEST_CASE("append: wrong page tables", "[cpu][errors]") {
  using C = Paged;
  check_rows<AppendProblem<strobe::Paged<__half>>>(std::vector<Wrong<C>>{
      {"page_size 24", [](C& c) { c.a.kv.page_size = 24; }, invalid,
       "kv.page_size is 24; it must be a power of two"},
      {"no table", [](C& c) { c.a.kv.table = nullptr; }, invalid, "kv.table is null"},
      {"PAG-03: a table too narrow", [](C& c) { c.a.kv.table_stride = 1; }, invalid,
       "kv.table_stride is 1; bounds.kv_len 7 needs 2 pages of 4"},
      {"kv_offsets", [](C& c) { c.a.lengths.kv_offsets = address<int>(0x1000); }, invalid,
       "lengths.kv_offsets must be null with a paged source"},
      {"kv.k.batch", [](C& c) { c.a.kv.k.batch = 12; }, invalid,
       "kv.k.batch is 12; it must be a multiple of 8 elements (16 bytes)"},
      {"kv.k.batch 0", [](C& c) { c.a.kv.k.batch = 0; }, invalid,
       "kv.k.batch is 0 but its extent is 2: rows would overwrite each other"},
  });
}

TEST_CASE("append: odd calls that are right", "[cpu][errors]") {
  using Problem = AppendProblem<strobe::Strided<__half>>;
  Problem problem;
  Strided call = problem.valid();
  call.a.q = {};
  call.a.rotary = {};
  CHECK(std::string(problem.run(call).text) == "");
  CHECK(problem.right());

  Problem only_q;  // no KV heads: nothing of the cache is looked at
  call = only_q.valid();
  call.a.bounds.kv_heads = 0;
  call.a.k = call.a.v = {};
  call.a.kv = {};
  CHECK(std::string(only_q.run(call).text) == "");
  CHECK(only_q.written() == 0);

  Problem no_rotation;  // tables are not looked at
  call = no_rotation.valid();
  call.a.rotary = {address<float>(0x1001), nullptr, -1, 0, true};
  CHECK(std::string(no_rotation.run(call).text) == "");
  CHECK(no_rotation.right());
  CHECK(no_rotation.written() == Problem::outputs);
}
