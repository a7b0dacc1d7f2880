// SPDX-License-Identifier: MIT
// Loads the real Q, K and V in this folder (README.md says what they are).
// Host code, C++17, std only.
#pragma once

#include <cstdint>
#include <cstdio>
#include <fstream>
#include <ios>
#include <stdexcept>
#include <string>
#include <vector>

namespace strobe_test {

// fp16 bits, row-major: q is [tokens, q_heads, head_dim], k and v are [tokens, kv_heads, head_dim].
// q and k are rotated already; the model's scale, 1 / sqrt(head_dim), is not applied.
struct RealTensors {
  int tokens = 0;
  int q_heads = 0;
  int kv_heads = 0;
  int head_dim = 0;
  std::vector<std::uint16_t> q, k, v;
};

// Throws std::runtime_error, naming the file and the reason, if the file is missing, truncated or
// malformed.
inline RealTensors load_real_tensors(const std::string& path) {
  static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "the file is read as it lies");
  const auto fail = [&path](const std::string& reason) -> std::runtime_error {
    return std::runtime_error("load_real_tensors: " + path + ": " + reason);
  };

  std::ifstream file(path, std::ios::binary);
  if (!file) throw fail("cannot open the file");
  constexpr int header_bytes = 64;
  std::string header(header_bytes, '\0');
  if (!file.read(&header[0], header_bytes)) {
    throw fail("truncated: shorter than the 64-byte header, or not a file");
  }

  RealTensors t;
  // At most six digits each, so that no product below can overflow.
  std::sscanf(header.c_str(), "strobe-qkv fp16 tokens=%6d q_heads=%6d kv_heads=%6d head_dim=%6d",
              &t.tokens, &t.q_heads, &t.kv_heads, &t.head_dim);
  // Writing the header again and comparing catches all that sscanf lets through.
  char expected[128];
  std::snprintf(expected, sizeof(expected),
                "strobe-qkv fp16 tokens=%d q_heads=%d kv_heads=%d head_dim=%d", t.tokens, t.q_heads,
                t.kv_heads, t.head_dim);
  std::string again = expected;
  if (again.size() < header_bytes) again.resize(header_bytes - 1, ' ');
  if (header != again + '\n') {
    throw fail(
        "malformed: the header is not 'strobe-qkv fp16 tokens=N q_heads=N kv_heads=N head_dim=N' "
        "padded with spaces to 64 bytes with a newline at the end");
  }
  if (t.tokens <= 0 || t.q_heads <= 0 || t.kv_heads <= 0 || t.head_dim <= 0) {
    throw fail("malformed: a size in the header is not positive");
  }
  if (t.q_heads % t.kv_heads != 0) {
    throw fail("malformed: q_heads is not a multiple of kv_heads");
  }

  // The size is checked before anything is allocated: a wrong header must not ask for terabytes.
  const std::int64_t row = std::int64_t{t.tokens} * t.head_dim;
  const std::int64_t heads = std::int64_t{t.q_heads} + 2 * std::int64_t{t.kv_heads};
  file.seekg(0, std::ios::end);
  const std::int64_t data_bytes = static_cast<std::int64_t>(file.tellg()) - header_bytes;
  const std::int64_t row_bytes = row * static_cast<std::int64_t>(sizeof(std::uint16_t));
  if (data_bytes % row_bytes != 0 || data_bytes / row_bytes != heads) {
    const bool is_short = data_bytes / row_bytes < heads;
    throw fail((is_short ? "truncated: " : "malformed: ") + std::to_string(data_bytes) +
               " bytes after the header, where it promises " + std::to_string(heads) + " x " +
               std::to_string(row_bytes));
  }

  file.seekg(header_bytes);
  const auto read = [&file, row](std::vector<std::uint16_t>& to, int head_count) {
    to.resize(static_cast<std::size_t>(row * head_count));
    file.read(reinterpret_cast<char*>(to.data()),
              static_cast<std::streamsize>(to.size() * sizeof(std::uint16_t)));
  };
  read(t.q, t.q_heads);
  read(t.k, t.kv_heads);
  read(t.v, t.kv_heads);
  if (!file) throw fail("cannot read the data");
  return t;
}

}  // namespace strobe_test
