// SPDX-License-Identifier: MIT
// Step 1: attention on one CPU core, as it is written down. No CUDA: g++ -std=c++17 -O3 01_cpu.cpp
//
// Idea    For each query row: a logit for every key, softmax over them, the weighted sum of the
//         value rows. Only one row of logits is kept, because rows do not depend on each other.
//
// Limit   The instructions of one core. C++ does not let the compiler reorder the additions of a
//         dot product, so they are 64 scalar ones, each waiting for the one before, 4 clocks or so;
//         the core has to work ahead on the next keys to use that time. g++ 12 makes some 250
//         instructions of a key's 128 multiply-adds; at 3 a clock and 3 GHz that is 9 GFLOP/s.
//         Vectors of 8 would take 32 instructions (-ffast-math -march=native lets the compiler do
//         so). Memory does not matter: K and V stay in the cache from row to row.
//
// What is timed: `--rows` rows of each head, 16, spread evenly, since all of them take up to half a
// minute. The TFLOP/s are those of these rows, and so are the milliseconds.
#include <chrono>
#include <fstream>

#include "ladder.hpp"

namespace {

constexpr int head_dim = ladder::head_dim;

// One query row against `visible` keys. logits: room for that many.
void attend_row(const float* q, const float* k, const float* v, int visible, float* logits,
                float* o) {
  float largest = -INFINITY;
  for (int key = 0; key < visible; ++key) {
    float dot = 0.f;
    for (int d = 0; d < head_dim; ++d) dot += q[d] * k[key * head_dim + d];
    logits[key] = dot * ladder::scale;
    largest = std::max(largest, logits[key]);
  }
  // Softmax is the same for all logits moved by one number; with the largest at 0 none overflows.
  float sum = 0.f, weighted[head_dim] = {};
  for (int key = 0; key < visible; ++key) {
    const float p = std::exp(logits[key] - largest);
    sum += p;
    for (int d = 0; d < head_dim; ++d) weighted[d] += p * v[key * head_dim + d];
  }
  for (int d = 0; d < head_dim; ++d) o[d] = weighted[d] / sum;
}

// The rows of the problem, into [heads][rows][head_dim].
void attend(const ladder::Problem& p, const ladder::Inputs& in, std::vector<float>& logits,
            std::vector<float>& o) {
  float* out = o.data();
  for (int head = 0; head < p.heads; ++head) {
    const size_t first = size_t(head) * size_t(p.len) * head_dim;
    for (const int row : p.rows) {
      attend_row(&in.q[first + size_t(row) * head_dim], &in.k[first], &in.v[first],
                 p.causal ? row + 1 : p.len, logits.data(), out);
      out += head_dim;
    }
  }
}

std::string cpu_name() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);)
    if (line.rfind("model name", 0) == 0 && line.find(": ") != std::string::npos)
      return line.substr(line.find(": ") + 2);
  return "a CPU that did not say its name";
}

}  // namespace

int main(int argc, char** argv) {
  const ladder::Step step{
      "01_cpu", "one CPU core, three loops, fp32",
      "the instructions of one core: some 250 for the 128 multiply-adds of a key", 2e-5};
  const ladder::Options options = ladder::parse(argc, argv, step);
  return ladder::run_prefill(
      step, options, "no GPU: one core of " + cpu_name(),
      [](const ladder::Problem& p, const ladder::Inputs& in) {
        ladder::Result result;
        result.o.resize(size_t(p.heads) * p.rows.size() * head_dim);
        std::vector<float> logits(size_t(p.len));
        std::vector<double> seconds;
        for (int i = 0; i < 4; ++i) {
          const auto start = std::chrono::steady_clock::now();
          attend(p, in, logits, result.o);
          seconds.push_back(
              std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
        }
        std::sort(seconds.begin() + 1, seconds.end());  // the first call is the warm-up
        result.seconds = seconds[2];
        result.share = double(p.rows.size()) / p.len;
        result.note = "timed " + std::to_string(p.rows.size()) + " of " + std::to_string(p.len) +
                      " rows a head";
        return result;
      });
}
