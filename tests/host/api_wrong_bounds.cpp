// SPDX-License-Identifier: MIT
// Wrong calls: bounds, widths, head counts, scale and lengths.
#include "api_call.hpp"

namespace api {

namespace {
constexpr auto invalid = strobe::Code::invalid;
constexpr auto unsupported = strobe::Code::unsupported;
constexpr int too_long = (1 << 30) + 1;
}  // namespace

std::vector<Wrong> wrong_bounds() {
  return {
      {"batch -1", [](Call& c) { c.a.bounds.batch = -1; }, invalid,
       "bounds.batch is -1; it must be >= 0"},
      {"batch", [](Call& c) { c.a.bounds.batch = too_long; }, invalid,
       "bounds.batch is 1073741825; it must be <= 1073741824"},
      {"q_len -1", [](Call& c) { c.a.bounds.q_len = -1; }, invalid,
       "bounds.q_len is -1; it must be >= 0"},
      {"q_len", [](Call& c) { c.a.bounds.q_len = too_long; }, invalid,
       "bounds.q_len is 1073741825; it must be <= 1073741824"},
      {"kv_len", [](Call& c) { c.a.bounds.kv_len = -2147483647 - 1; }, invalid,
       "bounds.kv_len is -2147483648; it must be >= 0"},
      {"kv_len", [](Call& c) { c.a.bounds.kv_len = 2147483647; }, invalid,
       "bounds.kv_len is 2147483647; it must be <= 1073741824"},
      {"q_heads -4", [](Call& c) { c.a.bounds.q_heads = -4; }, invalid,
       "bounds.q_heads is -4; it must be >= 0"},
      {"q_heads", [](Call& c) { c.a.bounds.q_heads = too_long; }, invalid,
       "bounds.q_heads is 1073741825; it must be <= 1073741824"},
      {"kv_heads -2", [](Call& c) { c.a.bounds.kv_heads = -2; }, invalid,
       "bounds.kv_heads is -2; it must be >= 0"},
      {"kv_heads", [](Call& c) { c.a.bounds.kv_heads = too_long; }, invalid,
       "bounds.kv_heads is 1073741825; it must be <= 1073741824"},
      {"a negative bound of an empty problem",
       [](Call& c) {
         c.a.bounds = {0, 0, -1, 0, 0};
       },
       invalid, "bounds.kv_len is -1; it must be >= 0"},

      {"head_dim 0", [](Call& c) { c.a.head_dim = 0; }, invalid,
       "head_dim is 0; it must be a positive multiple of 8"},
      {"head_dim 4", [](Call& c) { c.a.head_dim = 4; }, invalid,
       "head_dim is 4; it must be a positive multiple of 8"},
      {"head_dim 12", [](Call& c) { c.a.head_dim = 12; }, invalid,
       "head_dim is 12; it must be a positive multiple of 8"},
      {"head_dim -64", [](Call& c) { c.a.head_dim = -64; }, invalid,
       "head_dim is -64; it must be a positive multiple of 8"},
      {"LAY-04: head_dim 100", [](Call& c) { c.a.head_dim = 100; }, invalid,
       "head_dim is 100; it must be a positive multiple of 8"},
      {"OOB-04: head_dim 72 over 64", [](Call& c) { c.a.head_dim = 72; }, invalid,
       "head_dim is 72; this instance was compiled for HeadDim = 64"},
      {"value_dim 0", [](Call& c) { c.a.value_dim = 0; }, invalid,
       "value_dim is 0; it must be a positive multiple of 8"},
      {"value_dim 63", [](Call& c) { c.a.value_dim = 63; }, invalid,
       "value_dim is 63; it must be a positive multiple of 8"},
      {"value_dim 128 over 64", [](Call& c) { c.a.value_dim = 128; }, invalid,
       "value_dim is 128; this instance was compiled for ValueDim = 64"},

      {"GQA-04: 6 heads on 4", [](Call& c) { c.a.bounds.q_heads = 6, c.a.bounds.kv_heads = 4; },
       invalid, "bounds.q_heads is 6; it must be a multiple of bounds.kv_heads, 4"},
      {"GQA-04: 4 heads on 8", [](Call& c) { c.a.bounds.kv_heads = 8; }, invalid,
       "bounds.q_heads is 4; it must be a multiple of bounds.kv_heads, 8"},
      {"GQA-04: no KV head", [](Call& c) { c.a.bounds.kv_heads = 0; }, invalid,
       "bounds.kv_heads is 0 but bounds.q_heads is 4"},

      {"scale inf", [](Call& c) { c.a.scale = std::numeric_limits<float>::infinity(); }, invalid,
       "scale is inf; it must be finite"},
      {"scale -inf", [](Call& c) { c.a.scale = -std::numeric_limits<float>::infinity(); }, invalid,
       "scale is -inf; it must be finite"},
      {"scale nan", [](Call& c) { c.a.scale = std::numeric_limits<float>::quiet_NaN(); }, invalid,
       "scale is nan; it must be finite"},

      {"q_offsets", [](Call& c) { c.a.lengths.q_offsets = address<int>(0x1001); }, invalid,
       "lengths.q_offsets is 0x1001; it must be aligned to 4 bytes"},
      {"q_lens", [](Call& c) { c.a.lengths.q_lens = address<int>(0x1002); }, invalid,
       "lengths.q_lens is 0x1002; it must be aligned to 4 bytes"},
      {"kv_offsets", [](Call& c) { c.a.lengths.kv_offsets = address<int>(0x1003); }, invalid,
       "lengths.kv_offsets is 0x1003; it must be aligned to 4 bytes"},
      {"kv_lens", [](Call& c) { c.a.lengths.kv_lens = address<int>(0xffff000000000002); }, invalid,
       "lengths.kv_lens is 0xffff000000000002; it must be aligned to 4 bytes"},

      {"more blocks than a grid holds",
       [](Call& c) {
         c.a.bounds = {1 << 20, 5, 7, 4096, 2};
       },
       unsupported, "bounds need 4294967296 thread blocks; a launch has at most 2147483647"},
      {"more blocks than 64 bits hold",
       [](Call& c) {
         c.a.bounds = {1 << 30, 1 << 30, 7, 1 << 30, 2};
       },
       unsupported,
       "bounds need 9223372036854775807 thread blocks; a launch has at most 2147483647"},
  };
}

}  // namespace api
