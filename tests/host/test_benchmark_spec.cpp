// SPDX-License-Identifier: MIT
// The benchmarks' names, grids and figures of work (benchmarks/spec.hpp), and the mask they bring.
#include <catch2/catch_approx.hpp>
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers.hpp>
#include <cmath>
#include <fstream>
#include <set>
#include <strobe/host/check_mask.hpp>

#include "../../benchmarks/bench/prefix.hpp"
#include "../../benchmarks/spec.hpp"

namespace {

using namespace bench;

std::string error_of(const std::string& name) {
  try {
    (void)parse(name);
  } catch (const std::invalid_argument& error) {
    return error.what();
  }
  return "no error";
}

/// The lines of tests/data/benchmark_names.txt that begin with `kind`, as columns.
std::vector<std::vector<std::string>> shared_lines(const std::string& kind) {
  std::ifstream file(STROBE_DATA_DIR "/benchmark_names.txt");
  std::vector<std::vector<std::string>> lines;
  for (std::string line; std::getline(file, line);) {
    const std::vector<std::string> columns = bench::detail::split(line, '\t');
    if (columns[0] == kind) lines.push_back(columns);
  }
  REQUIRE(!lines.empty());
  return lines;
}

/// Pairs by asking a mask of the library's kind.
template <class Mask>
double asked_pairs(const Mask& mask, int q_len, int kv_len) {
  const int offset = kv_len - q_len;
  const auto bound = mask.bind({0, 0, 0, {offset, kv_len}, q_len, kv_len});
  double pairs = 0;
  for (int q = offset; q < kv_len; ++q)
    for (int k = 0; k < kv_len; ++k) pairs += bound.visible(q, k);
  return pairs;
}

Spec masked(const char* family, int64_t number, int q_len, int kv_len) {
  Spec s;
  s.batch = s.q_heads = s.kv_heads = 1;
  s.q_len = q_len;
  s.kv_len = kv_len;
  s.causal = true;
  s.mask = {family, number};
  return s;
}

}  // namespace

TEST_CASE("every name of the grids is its spec", "[cpu][benchmarks]") {
  std::set<std::string> seen;
  for (const Cell& cell : all_cells()) {
    INFO(cell.name);
    CHECK(name_of(parse(cell.name)) == cell.name);
    CHECK(seen.insert(cell.name).second);
  }
}

TEST_CASE("the grids hold what was agreed on", "[cpu][benchmarks]") {
  CHECK(grid_names() ==
        std::vector<std::string>{"ceilings", "prefill", "twelve_heads", "variants", "decode"});
  CHECK(cells_of("ceilings", false).size() == 4);
  CHECK(cells_of("prefill", false).size() == 3 * 2 * 6);
  CHECK(cells_of("twelve_heads", false).size() == 2 * 2 * 6);
  CHECK(cells_of("variants", false).size() == 2 * 7);
  CHECK(cells_of("decode", false).size() == 71 * 4);
  CHECK(cells_of("all", false).size() == all_cells().size());
  for (const std::string& name : cells_of("prefill", false)) {
    const Spec s = parse(name);
    INFO(name);
    CHECK(s.batch * s.q_len == 16384);
    CHECK(s.q_heads * s.head_dim == 2048);
  }
  for (const std::string& name : cells_of("decode", false)) CHECK(kv_bytes(parse(name)) <= 20e9);
  CHECK_THROWS_WITH(cells_of("backward", false),
                    "the grid is 'backward'; it must be ceilings, prefill, twelve_heads, variants, "
                    "decode or all");
}

TEST_CASE("quick is about a sixth and has every kind", "[cpu][benchmarks]") {
  const auto kinds = [](const std::vector<std::string>& names) {
    std::set<std::string> found;
    for (const std::string& name : names) {
      const Spec s = parse(name);
      found.insert(std::to_string(int(s.kind)) + s.type + s.mask.family + s.score +
                   s.policy.family + std::to_string(s.page) + (s.causal ? "causal" : ""));
    }
    return found;
  };
  for (const std::string& grid : grid_names()) {
    INFO(grid);
    CHECK(kinds(cells_of(grid, true)) == kinds(cells_of(grid, false)));
  }
  const double share = double(cells_of("all", true).size()) / double(all_cells().size());
  CHECK(share > 0.12);
  CHECK(share < 0.2);
}

TEST_CASE("names and their work, as peers.py reads them too", "[cpu][benchmarks]") {
  for (const auto& line : shared_lines("prefill")) {
    INFO(line[1]);
    CHECK(name_of(parse(line[1])) == line[1]);
    CHECK(flop(parse(line[1])) == std::stod(line[2]));
  }
  for (const auto& line : shared_lines("decode")) {
    INFO(line[1]);
    const Spec s = parse(line[1]);
    CHECK(name_of(s) == line[1]);
    CHECK(kv_bytes(s) == std::stod(line[2]));
    CHECK(rotation(kv_bytes(s)).copies == std::stoi(line[3]));
    CHECK(rotation(kv_bytes(s)).calls == std::stoi(line[4]));
  }
  for (const auto& line : shared_lines("other")) CHECK(name_of(parse(line[1])) == line[1]);
}

TEST_CASE("a wrong name is refused by its field and value", "[cpu][benchmarks]") {
  for (const auto& line : shared_lines("wrong"))
    CHECK(error_of(line[1]) == line[1] + ": " + line[2]);
}

TEST_CASE("visible pairs are what the masks let through", "[cpu][benchmarks]") {
  for (const auto& [q_len, kv_len] : {std::pair{96, 96}, {40, 96}, {96, 40}}) {
    CAPTURE(q_len, kv_len);
    CHECK(visible_pairs(masked("window", 10, q_len, kv_len)) ==
          asked_pairs(strobe::Window{9, 0}, q_len, kv_len));
    CHECK(visible_pairs(masked("prefix", 10, q_len, kv_len)) ==
          asked_pairs(Prefix{10}, q_len, kv_len));
    std::vector<int> document_of;
    for (int key = 0; key < kv_len; ++key) document_of.push_back(key / 7);
    CHECK(visible_pairs(masked("document", 7, q_len, kv_len)) ==
          asked_pairs(strobe::Both<strobe::Causal, strobe::Document>{{}, {document_of.data(), 0}},
                      q_len, kv_len));
  }
  CHECK(visible_pairs(masked("", 0, 40, 96)) == asked_pairs(strobe::Causal{}, 40, 96));
  CHECK(visible_pairs(masked("", 0, 96, 96)) == 96 * 96 / 2);
}

TEST_CASE("the prefix mask's tiles agree with its elements", "[cpu][benchmarks]") {
  for (const int keys : {1, 17, 64, 100, 1000}) {
    const strobe::MaskReport report = strobe::check_mask_shapes(Prefix{keys});
    INFO(report.mistake);
    CHECK(report.ok());
  }
}

TEST_CASE("percentiles interpolate", "[cpu][benchmarks]") {
  CHECK(percentile({7}, 0.5) == 7);
  CHECK(percentile({1, 2}, 0.5) == 1.5);
  CHECK(percentile({1, 2, 10}, 0.5) == 2);
  CHECK(percentile({0, 10, 20, 30, 40}, 0.1) == Catch::Approx(4));
  CHECK(percentile({0, 10, 20, 30, 40}, 0.9) == Catch::Approx(36));
  CHECK(percentile({0, 10, 20}, 0) == 0);
  CHECK(percentile({0, 10, 20}, 1) == 20);
}

TEST_CASE("the matmul ceiling comes out of peers.py's JSON", "[cpu][benchmarks]") {
  CHECK(matmul_ceiling(R"({"benchmarks": [
   {"name": "prefill/fp16/B:1", "TFLOPS": 300.0},
   {"name": "ceiling/matmul/fp16/N:8192", "provider": "ceiling", "TFLOPS": 751.5},
   {"name": "ceiling/copy/MB:1024", "GBps": 4100.0}]})") == 751.5);
  CHECK(std::isnan(matmul_ceiling(R"({"name": "ceiling/copy/MB:1024", "GBps": 4100.0})")));
  CHECK(std::isnan(matmul_ceiling(
      R"({"name": "ceiling/matmul/fp16/N:8192"}, {"name": "prefill", "TFLOPS": 300.0})")));
}
