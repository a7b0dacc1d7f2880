// SPDX-License-Identifier: MIT
// Wrong calls: mask and score fields, the device, the workspace.
#include "api_call.hpp"

namespace api {

namespace {
constexpr auto invalid = strobe::Code::invalid;
constexpr auto unsupported = strobe::Code::unsupported;
}  // namespace

std::vector<Wrong> wrong_nouns() {
  return {
      {"MSK-05: left -1", [](Call& c) { c.window().left = -1; }, invalid,
       "mask.left is -1; it must be >= 0 or strobe::unlimited"},
      {"MSK-05: right -3", [](Call& c) { c.window().right = -3; }, invalid,
       "mask.right is -3; it must be >= 0 or strobe::unlimited"},
      {"left of sinks", [](Call& c) { c.sinks().left = -256; }, invalid,
       "mask.left is -256; it must be >= 0 or strobe::unlimited"},
      {"sinks", [](Call& c) { c.sinks().sinks = -4; }, invalid,
       "mask.sinks is -4; it must be >= 0"},
      {"no documents", [](Call& c) { c.document().document_of = nullptr; }, invalid,
       "mask.document_of is null"},
      {"documents off", [](Call& c) { c.document().document_of = address<int>(0x2002); }, invalid,
       "mask.document_of is 0x2002; it must be aligned to 4 bytes"},
      {"no offsets", [](Call& c) { c.list().offsets = nullptr; }, invalid, "mask.offsets is null"},
      {"no columns", [](Call& c) { c.list().columns = nullptr; }, invalid, "mask.columns is null"},
      {"offsets off", [](Call& c) { c.list().offsets = address<int>(0x2001); }, invalid,
       "mask.offsets is 0x2001; it must be aligned to 4 bytes"},
      {"columns off", [](Call& c) { c.list().columns = address<int>(0x2003); }, invalid,
       "mask.columns is 0x2003; it must be aligned to 4 bytes"},
      {"q_block", [](Call& c) { c.list().q_block = 0; }, invalid,
       "mask.q_block is 0; it must be >= 1"},
      {"kv_block", [](Call& c) { c.list().kv_block = -16; }, invalid,
       "mask.kv_block is -16; it must be >= 1"},
      {"a list per head, of other heads",
       [](Call& c) { c.list().per_head = true, c.list().q_heads = 3; }, invalid,
       "mask.q_heads is 3 but bounds.q_heads is 4"},
      {"a list per head, too short",
       [](Call& c) {
         c.list().per_head = true, c.list().q_heads = 4;
         c.list().q_block = 2, c.list().rows_per_head = 3;
       },
       invalid, "mask.rows_per_head is 3; with q_block 2 it does not reach bounds.kv_len 7"},

      {"cap 0", [](Call& c) { c.soft_cap().cap = 0.f; }, invalid,
       "score.cap is 0; it must be finite, > 0 and not subnormal"},
      {"cap -50", [](Call& c) { c.soft_cap().cap = -50.f; }, invalid,
       "score.cap is -50; it must be finite, > 0 and not subnormal"},
      {"cap inf", [](Call& c) { c.soft_cap().cap = std::numeric_limits<float>::infinity(); },
       invalid, "score.cap is inf; it must be finite, > 0 and not subnormal"},
      {"cap nan", [](Call& c) { c.soft_cap().cap = std::numeric_limits<float>::quiet_NaN(); },
       invalid, "score.cap is nan; it must be finite, > 0 and not subnormal"},
      {"no slopes", [](Call& c) { c.alibi().slopes = nullptr; }, invalid, "score.slopes is null"},
      {"slopes off", [](Call& c) { c.alibi().slopes = address<float>(0x2002); }, invalid,
       "score.slopes is 0x2002; it must be aligned to 4 bytes"},

      {"no device", [](Call& c) { c.device = {}; }, invalid,
       "device is not filled in (compute_capability 0, sm_count 0, shared_bytes_per_block 0); take "
       "it from strobe::current_device"},
      {"no sm_count", [](Call& c) { c.device.sm_count = 0; }, invalid,
       "device is not filled in (compute_capability 80, sm_count 0, shared_bytes_per_block "
       "101376); take it from strobe::current_device"},
      {"no shared memory", [](Call& c) { c.device.shared_bytes_per_block = -1; }, invalid,
       "device is not filled in (compute_capability 80, sm_count 4, shared_bytes_per_block -1); "
       "take it from strobe::current_device"},
      {"ordinal", [](Call& c) { c.device.ordinal = -1; }, invalid,
       "device.ordinal is -1; it must be >= 0"},
      {"7.5", [](Call& c) { c.device.compute_capability = 75; }, unsupported,
       "device.compute_capability is 75; strobe's kernels need 80 (8.0) or newer"},
      {"too little shared memory", [](Call& c) { c.device.shared_bytes_per_block = 16383; },
       unsupported,
       "the kernel needs {shared_bytes} bytes of shared memory a block but "
       "device.shared_bytes_per_block is 16383"},

      {"a size without a workspace", [](Call& c) { c.workspace.bytes = 4096; }, invalid,
       "workspace.data is null but workspace.bytes is 4096", true},
      {"workspace off",
       [](Call& c) {
         c.workspace = {address<void>(0x3080), 4096};
       },
       invalid, "workspace.data is 0x3080; it must be aligned to 256 bytes", true},
  };
}

}  // namespace api
