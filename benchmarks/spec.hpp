// SPDX-License-Identifier: MIT
// What a benchmark measures, and its name, which says all of it and can be given back on the
// command line. No CUDA. spec.py is its twin in Python; tests/data/benchmark_names.txt holds both
// to one grammar.
//
//   prefill/{fp16,bf16}/B:/Hq:/Hkv:/Sq:/Sk:/D:/causal:{0,1}
//     [/mask:{window,prefix,document}<N>] [/score:{alibi,softcap}]
//   decode/fp16/B:/Hq:/Hkv:/Sq:/Sk:/D:/kv:fp16/page:N [/policy:fixed<N>]
//   ceiling/matmul/{fp16,bf16}/N:    ceiling/copy/MB:    ceiling/read/MB:    ceiling/exp2
//
// A mask narrows (window) or widens (prefix) the causal one, so it stands with causal:1 alone:
//   window<N>    the last N keys up to the query itself
//   prefix<N>    these and the first N keys
//   document<N>  only keys of the same document, each N tokens long
// page:0 is a strided cache, page:N a paged one with shuffled pages. MB is 10^6 bytes.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <initializer_list>
#include <stdexcept>
#include <string>
#include <vector>

namespace bench {

enum class Kind { prefill, decode, matmul, copy, read, exp2 };

/// `family<number>`, as in window1024; empty family: none.
struct Numbered {
  std::string family;
  int64_t number = 0;
  bool operator==(const Numbered& other) const {
    return family == other.family && number == other.number;
  }
};

struct Spec {
  Kind kind = Kind::prefill;
  std::string type;  ///< of Q, K, V and O, or of a matmul's operands: fp16, bf16
  int64_t batch = 0, q_heads = 0, kv_heads = 0, q_len = 0, kv_len = 0, head_dim = 0;
  bool causal = false;
  Numbered mask;
  std::string score;
  int64_t page = 0;
  Numbered policy;
  int64_t size = 0;  ///< N of matmul, MB of copy and read
};

namespace detail {

inline std::vector<std::string> split(const std::string& text, char at) {
  std::vector<std::string> parts(1);
  for (const char c : text) {
    if (c == at) {
      parts.emplace_back();
    } else {
      parts.back() += c;
    }
  }
  return parts;
}

/// "a, b or c"
inline std::string one_of(const std::vector<std::string>& words) {
  std::string text;
  for (size_t i = 0; i < words.size(); ++i)
    text += (i == 0 ? "" : i + 1 == words.size() ? " or " : ", ") + words[i];
  return text;
}

/// The number that `digits` writes, or -1: no sign, no leading zero, at most ten digits.
inline int64_t number_of(const std::string& digits) {
  if (digits.empty() || digits.size() > 10 || (digits.size() > 1 && digits[0] == '0')) return -1;
  int64_t value = 0;
  for (const char c : digits) {
    if (c < '0' || c > '9') return -1;
    value = 10 * value + (c - '0');
  }
  return value;
}

/// Takes a name apart from left to right; what is wrong becomes an exception that names the field
/// and the value.
class NameReader {
 public:
  explicit NameReader(const std::string& name) : name_(name), fields_(split(name, '/')) {}

  [[noreturn]] void fail(const std::string& sentence) const {
    throw std::invalid_argument(name_ + ": " + sentence);
  }

  std::string word(const std::string& what, const std::vector<std::string>& allowed) {
    const std::string value = next_ < fields_.size() ? fields_[next_++] : "";
    require_one_of(what, value, allowed);
    return value;
  }
  std::string keyed_word(const std::string& key, const std::vector<std::string>& allowed) {
    const std::string value = required(key);
    require_one_of(key, value, allowed);
    return value;
  }
  int64_t number(const std::string& key, int64_t least, int64_t most) {
    const std::string text = required(key);
    const int64_t value = number_of(text);
    if (value < least || value > most)
      fail(key + " is '" + text + "'; it must be an integer from " + std::to_string(least) +
           " to " + std::to_string(most));
    return value;
  }
  /// The optional field `key`, one of some words; empty when it is not there.
  std::string optional_word(const std::string& key, const std::vector<std::string>& allowed) {
    return has(key) ? keyed_word(key, allowed) : "";
  }
  /// The optional field `key`, a family and a number from 1 on.
  Numbered optional_numbered(const std::string& key, const std::vector<std::string>& families) {
    if (!has(key)) return {};
    const std::string value = required(key);
    for (const std::string& family : families) {
      if (value.compare(0, family.size(), family) != 0) continue;
      const int64_t number = number_of(value.substr(family.size()));
      if (number >= 1 && number <= most_tokens) return {family, number};
    }
    std::vector<std::string> forms;
    for (const std::string& family : families) forms.push_back(family + "<N>");
    fail(key + " is '" + value + "'; it must be " + one_of(forms) + ", N from 1 to " +
         std::to_string(most_tokens));
  }
  void end() const {
    if (next_ < fields_.size()) fail("'" + fields_[next_] + "' is one field too many");
  }

  static constexpr int64_t most_tokens = int64_t(1) << 30;

 private:
  bool has(const std::string& key) const {
    return next_ < fields_.size() && fields_[next_].compare(0, key.size() + 1, key + ":") == 0;
  }
  std::string required(const std::string& key) {
    if (!has(key))
      fail(key + " is missing: " +
           (next_ < fields_.size() ? "'" + fields_[next_] + "' stands in its place"
                                   : "the name ends before it"));
    return fields_[next_++].substr(key.size() + 1);
  }
  void require_one_of(const std::string& what, const std::string& value,
                      const std::vector<std::string>& allowed) const {
    if (std::find(allowed.begin(), allowed.end(), value) == allowed.end())
      fail(what + " is '" + value + "'; it must be " + one_of(allowed));
  }

  std::string name_;
  std::vector<std::string> fields_;
  size_t next_ = 0;
};

}  // namespace detail

/// The spec a name says. Throws std::invalid_argument with a sentence that names the wrong field.
inline Spec parse(const std::string& name) {
  detail::NameReader reader(name);
  Spec s;
  const std::string kind = reader.word("the kind", {"prefill", "decode", "ceiling"});
  if (kind == "ceiling") {
    const std::string what = reader.word("the ceiling", {"matmul", "copy", "read", "exp2"});
    s.kind = what == "matmul" ? Kind::matmul
             : what == "copy" ? Kind::copy
             : what == "read" ? Kind::read
                              : Kind::exp2;
    if (s.kind == Kind::matmul) {
      s.type = reader.word("the element type", {"fp16", "bf16"});
      s.size = reader.number("N", 1, 65536);
    } else if (s.kind != Kind::exp2) {
      s.size = reader.number("MB", 1, 100000);
    }
    reader.end();
    return s;
  }

  s.kind = kind == "prefill" ? Kind::prefill : Kind::decode;
  s.type = s.kind == Kind::prefill ? reader.word("the element type", {"fp16", "bf16"})
                                   : reader.word("the element type", {"fp16"});
  s.batch = reader.number("B", 1, 65536);
  s.q_heads = reader.number("Hq", 1, 65536);
  s.kv_heads = reader.number("Hkv", 1, 65536);
  s.q_len = reader.number("Sq", 1, detail::NameReader::most_tokens);
  s.kv_len = reader.number("Sk", 1, detail::NameReader::most_tokens);
  s.head_dim = reader.number("D", 8, 256);
  if (s.q_heads % s.kv_heads != 0)
    reader.fail("Hq is '" + std::to_string(s.q_heads) + "'; it must be a multiple of Hkv, " +
                std::to_string(s.kv_heads));
  if (s.head_dim % 8 != 0)
    reader.fail("D is '" + std::to_string(s.head_dim) + "'; it must be a multiple of 8");

  if (s.kind == Kind::prefill) {
    s.causal = reader.number("causal", 0, 1) == 1;
    s.mask = reader.optional_numbered("mask", {"window", "prefix", "document"});
    s.score = reader.optional_word("score", {"alibi", "softcap"});
    if (!s.mask.family.empty() && !s.causal)
      reader.fail("mask is '" + s.mask.family + std::to_string(s.mask.number) +
                  "'; it needs causal:1");
  } else {
    reader.keyed_word("kv", {"fp16"});
    s.page = reader.number("page", 0, 65536);
    if ((s.page & (s.page - 1)) != 0)
      reader.fail("page is '" + std::to_string(s.page) + "'; it must be 0 or a power of two");
    s.policy = reader.optional_numbered("policy", {"fixed"});
  }
  reader.end();
  return s;
}

/// The name of a spec: parse(name_of(s)) is s, name_of(parse(name)) is name.
inline std::string name_of(const Spec& s) {
  const auto field = [](const char* key, int64_t value) {
    return "/" + std::string(key) + ":" + std::to_string(value);
  };
  switch (s.kind) {
    case Kind::matmul:
      return "ceiling/matmul/" + s.type + field("N", s.size);
    case Kind::copy:
      return "ceiling/copy" + field("MB", s.size);
    case Kind::read:
      return "ceiling/read" + field("MB", s.size);
    case Kind::exp2:
      return "ceiling/exp2";
    case Kind::prefill:
    case Kind::decode:
      break;
  }
  std::string name = (s.kind == Kind::prefill ? "prefill/" : "decode/") + s.type +
                     field("B", s.batch) + field("Hq", s.q_heads) + field("Hkv", s.kv_heads) +
                     field("Sq", s.q_len) + field("Sk", s.kv_len) + field("D", s.head_dim);
  if (s.kind == Kind::prefill) {
    name += field("causal", s.causal);
    if (!s.mask.family.empty()) name += "/mask:" + s.mask.family + std::to_string(s.mask.number);
    if (!s.score.empty()) name += "/score:" + s.score;
  } else {
    name += "/kv:fp16" + field("page", s.page);
    if (!s.policy.family.empty())
      name += "/policy:" + s.policy.family + std::to_string(s.policy.number);
  }
  return name;
}

// ---- the amount of work
// --------------------------------------------------------------------------

/// Pairs of a query and a key it sees, in one head of one sequence. Queries stand at the end of the
/// keys. Plain causal attention of as many queries as keys counts as half of all pairs, as is the
/// custom; everything else is counted one by one.
inline double visible_pairs(const Spec& s) {
  const int64_t offset = s.kv_len - s.q_len;
  if (s.kind == Kind::decode ? s.q_len == 1 : !s.causal) return double(s.q_len) * double(s.kv_len);
  if (s.mask.family.empty() && offset == 0) return double(s.q_len) * double(s.kv_len) / 2;
  double pairs = 0;
  for (int64_t position = offset; position < s.kv_len; ++position) {
    int64_t keys = std::max<int64_t>(position + 1, 0);
    if (s.mask.family == "window") keys = std::min(keys, s.mask.number);
    if (s.mask.family == "prefix") keys = std::max(keys, std::min(s.mask.number, s.kv_len));
    if (s.mask.family == "document")
      keys -= std::max<int64_t>(position, 0) / s.mask.number * s.mask.number;
    pairs += double(keys);
  }
  return pairs;
}

/// Floating-point operations: two products of a multiplication and an addition each.
inline double flop(const Spec& s) {
  if (s.kind == Kind::matmul) return 2.0 * std::pow(double(s.size), 3);
  return 4.0 * double(s.batch * s.q_heads) * visible_pairs(s) * double(s.head_dim);
}

/// Bytes of K and V that a decode call reads at least.
inline double kv_bytes(const Spec& s) {
  return 2.0 * double(s.batch * s.kv_heads) * double(s.kv_len * s.head_dim) * 2.0;
}

/// How often a decode call stands in a CUDA graph, and over how many copies of K and V the calls
/// rotate: together more than the L2 cache holds, within memory.
struct Rotation {
  int copies;
  int calls;
};
inline Rotation rotation(double bytes) {
  const double copies = std::min({100.0, std::floor(16e9 / bytes), std::ceil(400e6 / bytes)});
  return {std::max(1, int(copies)), std::max(4, int(copies))};
}

// ---- statistics
// ----------------------------------------------------------------------------------

/// Linear interpolation between the two nearest of `sorted`; fraction 0 is the first, 1 the last.
inline double percentile(const std::vector<double>& sorted, double fraction) {
  const double at = fraction * double(sorted.size() - 1);
  const size_t below = size_t(at), above = std::min(below + 1, sorted.size() - 1);
  return sorted[below] + (at - double(below)) * (sorted[above] - sorted[below]);
}

// ---- the grid
// ------------------------------------------------------------------------------------

struct Cell {
  std::string grid;
  std::string name;
  bool quick;
};

/// Every cell of grid.inc, in its order.
inline std::vector<Cell> all_cells() {
  static const char* const text =
#include "grid.inc"
      ;
  std::vector<Cell> cells;
  std::string grid;
  for (std::string line : detail::split(text, '\n')) {
    if (line.empty()) continue;
    if (line[0] == '[') {
      grid = line.substr(1, line.size() - 2);
      continue;
    }
    const size_t blank = line.find(' ');
    cells.push_back({grid, line.substr(0, blank), blank != std::string::npos});
  }
  return cells;
}

/// The grids' names, in order.
inline std::vector<std::string> grid_names() {
  std::vector<std::string> names;
  for (const Cell& cell : all_cells())
    if (names.empty() || names.back() != cell.grid) names.push_back(cell.grid);
  return names;
}

/// The names of one grid's cells, or of all grids' for "all".
inline std::vector<std::string> cells_of(const std::string& grid, bool quick) {
  std::vector<std::string> allowed = grid_names();
  allowed.emplace_back("all");
  if (std::find(allowed.begin(), allowed.end(), grid) == allowed.end())
    throw std::invalid_argument("the grid is '" + grid + "'; it must be " +
                                detail::one_of(allowed));
  std::vector<std::string> names;
  for (const Cell& cell : all_cells())
    if ((grid == "all" || grid == cell.grid) && (cell.quick || !quick)) names.push_back(cell.name);
  return names;
}

// ---- the other program's figures
// -----------------------------------------------------------------

/// TFLOPS of the first ceiling/matmul entry in the JSON text that peers.py wrote: there an entry's
/// name stands before its figures. NaN if there is none.
inline double matmul_ceiling(const std::string& json) {
  const size_t entry = json.find("\"name\": \"ceiling/matmul/");
  if (entry == std::string::npos) return std::nan("");
  const std::string key = "\"TFLOPS\":";
  const size_t next = json.find("\"name\":", entry + 1), at = json.find(key, entry);
  if (at == std::string::npos || at > next) return std::nan("");
  return std::strtod(json.c_str() + at + key.size(), nullptr);
}

}  // namespace bench
