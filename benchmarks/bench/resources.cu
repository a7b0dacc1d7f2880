// SPDX-License-Identifier: MIT
#include "resources.hpp"

namespace bench {
namespace {

std::string quoted(const std::string& text) {
  std::string result = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') result += '\\';
    result += static_cast<unsigned char>(c) < ' ' ? ' ' : c;
  }
  return result + '"';
}

using Numbers = std::vector<std::pair<const char*, int64_t>>;
std::string members(const Numbers& numbers) {
  std::string text;
  for (const auto& [name, value] : numbers)
    text += (text.empty() ? "" : ", ") + quoted(name) + ": " + std::to_string(value);
  return text;
}

Numbers numbers_of(const Resources& r) {
  const Launch& l = r.launch;
  return {{"blocks", l.blocks},
          {"threads", l.threads},
          {"registers", r.registers},
          {"local_bytes", r.local_bytes},
          {"static_shared_bytes", r.static_shared_bytes},
          {"dynamic_shared_bytes", l.dynamic_shared_bytes},
          {"blocks_per_sm", r.blocks_per_sm},
          {"block_q", l.block_q},
          {"block_kv", l.block_kv},
          {"row_warps", l.row_warps},
          {"key_warps", l.key_warps},
          {"parts", l.parts},
          {"compiled_head_dim", l.compiled_head_dim},
          {"binary_version", r.binary_version},
          {"ptx_version", r.ptx_version}};
}

Numbers limits(const Gpu& gpu) {
  const std::pair<const char*, cudaDeviceAttr> asked[] = {
      {"sm_count", cudaDevAttrMultiProcessorCount},
      {"max_clock_khz", cudaDevAttrClockRate},
      {"max_threads_per_sm", cudaDevAttrMaxThreadsPerMultiProcessor},
      {"registers_per_sm", cudaDevAttrMaxRegistersPerMultiprocessor},
      {"shared_bytes_per_sm", cudaDevAttrMaxSharedMemoryPerMultiprocessor},
      {"reserved_shared_bytes_per_block", cudaDevAttrReservedSharedMemoryPerBlock},
      {"l2_bytes", cudaDevAttrL2CacheSize}};
  Numbers numbers;
  for (const auto& [name, attribute] : asked) {
    int value = 0;
    check(cudaDeviceGetAttribute(&value, attribute, gpu.device.ordinal), "cudaDeviceGetAttribute");
    numbers.emplace_back(name, value);
  }
  return numbers;
}

}  // namespace

Resources resources_of(const void* kernel, const Launch& launch) {
  cudaFuncAttributes attributes{};
  check(cudaFuncGetAttributes(&attributes, kernel), "cudaFuncGetAttributes");
  Resources r;
  r.launch = launch;
  r.registers = attributes.numRegs;
  r.local_bytes = int(attributes.localSizeBytes);
  r.static_shared_bytes = int(attributes.sharedSizeBytes);
  r.binary_version = attributes.binaryVersion;
  r.ptx_version = attributes.ptxVersion;
  check(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&r.blocks_per_sm, kernel, launch.threads,
                                                      size_t(launch.dynamic_shared_bytes)),
        "cudaOccupancyMaxActiveBlocksPerMultiprocessor");
  return r;
}

std::string resources_json(const Gpu& gpu, const Facts& context,
                           const std::vector<std::pair<std::string, Resources>>& shapes) {
  std::string text = "{\n  \"context\": {";
  for (size_t i = 0; i < context.size(); ++i)
    text += (i == 0 ? "" : ", ") + quoted(context[i].first) + ": " + quoted(context[i].second);
  text += "},\n  \"device\": {" + members(limits(gpu)) + "},\n  \"shapes\": [";
  for (size_t i = 0; i < shapes.size(); ++i)
    text += std::string(i == 0 ? "" : ",") + "\n    {\"name\": " + quoted(shapes[i].first) +
            ", \"kernel\": " + quoted(shapes[i].second.launch.kernel) + ", " +
            members(numbers_of(shapes[i].second)) + "}";
  return text + "\n  ]\n}\n";
}

}  // namespace bench
