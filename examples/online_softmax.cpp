// SPDX-License-Identifier: MIT
// The online softmax in plain C++, for one query and values of one number each: what every kernel
// of the library does a row. docs/learn/attention.md shows the parts between the marks.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <limits>
#include <vector>

constexpr double infinity = std::numeric_limits<double>::infinity();

// [docs: textbook]
// The textbook: all logits at once.
double attend(const std::vector<double>& logits, const std::vector<double>& values) {
  const double m = *std::max_element(logits.begin(), logits.end());
  double l = 0, o = 0;
  for (size_t i = 0; i < logits.size(); ++i) {
    const double p = std::exp(logits[i] - m);  // at most 1, so nothing overflows
    l += p;
    o += p * values[i];
  }
  return o / l;
}
// [docs: end]

// [docs: online]
// The same, a tile of keys at a time.
struct State {
  double m = -infinity;  // the largest logit so far
  double l = 0;          // the sum of exp(logit - m)
  double o = 0;          // the sum of exp(logit - m) * value
};

void add_tile(State& s, const double* logits, const double* values, int keys) {
  const double m = std::max(s.m, *std::max_element(logits, logits + keys));
  const double shrink = std::exp(s.m - m);  // 1 where the maximum stays, 0 at the first tile
  s = {m, s.l * shrink, s.o * shrink};
  for (int i = 0; i < keys; ++i) {
    const double p = std::exp(logits[i] - m);
    s.l += p;
    s.o += p * values[i];
  }
}
// [docs: end]

// [docs: merge]
// Two states over different keys make one, in any order: the keys of a long sequence can be shared
// out among blocks, or among GPUs.
State merge(const State& a, const State& b) {
  const double m = std::max(a.m, b.m), of_a = std::exp(a.m - m), of_b = std::exp(b.m - m);
  return {m, a.l * of_a + b.l * of_b, a.o * of_a + b.o * of_b};
}
// [docs: end]

int main() {
  const std::vector<double> logits{1, 3, 2, 0, 2, 5, 1, 3, 0, 4, 2, 1},
      values{4, 2, 6, 1, 3, 8, 5, 2, 7, 4, 1, 6};
  const int keys = 4;
  State all, parts[3];
  std::printf("tile         m        l        o      o / l\n");
  for (int tile = 0; tile < 3; ++tile) {
    add_tile(all, &logits[size_t(tile * keys)], &values[size_t(tile * keys)], keys);
    add_tile(parts[tile], &logits[size_t(tile * keys)], &values[size_t(tile * keys)], keys);
    std::printf("%4d  %8.3f %8.3f %8.3f   %8.3f\n", tile, all.m, all.l, all.o, all.o / all.l);
  }
  const State merged = merge(parts[2], merge(parts[0], parts[1]));
  const double expected = attend(logits, values);
  std::printf("textbook %.12f, online %.12f, merged %.12f\n", expected, all.o / all.l,
              merged.o / merged.l);
  const double error =
      std::max(std::fabs(all.o / all.l - expected), std::fabs(merged.o / merged.l - expected));
  return error < 1e-12 ? 0 : 1;
}
