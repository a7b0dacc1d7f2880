// SPDX-License-Identifier: MIT
// What every step of the ladder shares and none of them is about: the problem and its numbers, the
// command line, the check against fp64, the line it prints. Plain C++, because step 1 is built
// without the CUDA toolkit.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

namespace ladder {

inline constexpr int head_dim = 64;
inline constexpr float scale = 0.125f;  // 1 / sqrt(head_dim)

/// One rung: its file's name, what it does, what keeps it from being faster.
struct Step {
  const char* name;
  const char* idea;
  const char* limit;
  double tolerance;  ///< largest |o - fp64| that is right; fp16 rounds an o below 2 by up to 4.9e-4
};

// ---- the problem -------------------------------------------------------------------------------
/// Batch 1. Tensors are [heads][len][head_dim]. Prefill: as many queries as keys. Decode: the last
/// query alone.
struct Problem {
  bool decode = false;
  int len = 0;
  int heads = 0;
  bool causal = false;
  std::vector<int> rows;  ///< query rows of each head that are checked

  /// The field's convention: 4 S S D operations a head, half of that when causal.
  double flops() const {
    return 4.0 * heads * (decode ? 1.0 : double(len)) * len * head_dim / (causal ? 2 : 1);
  }
  /// K and V in fp16, read once: what a decode cannot avoid.
  double decode_bytes() const { return 2.0 * 2.0 * heads * double(len) * head_dim; }
};

struct Inputs {
  std::vector<float> q, k, v;
};

/// Uniform multiples of 2^-9 in [-2, 2): fp16 holds them exactly, so that every step, fp16 or fp32,
/// works on the same numbers.
inline Inputs make_inputs(int heads, int len) {
  uint32_t state = 1;
  const auto random = [&] {
    std::vector<float> values(size_t(heads) * size_t(len) * head_dim);
    for (float& x : values) {
      state = state * 1664525u + 1013904223u;  // Numerical Recipes' linear congruential generator
      x = float(int(state >> 21) - 1024) * 0x1p-9f;
    }
    return values;
  };
  Inputs in;
  in.q = random();
  in.k = random();
  in.v = random();
  return in;
}

// ---- the check ---------------------------------------------------------------------------------
/// What a step hands back.
struct Result {
  std::vector<float> o;  ///< [heads][problem.rows][head_dim]
  double seconds = 0;    ///< of one call; 0: not timed
  double share = 1;      ///< part of the query rows that a timed call computes
  double model = 0;      ///< TFLOP/s (decode: GB/s) that the step's limit allows; 0: no model
  std::string note;      ///< what else a reader should know
};

/// The largest |o - fp64| over the checked rows; NaN counts as infinite.
inline double worst_error(const Problem& p, const Inputs& in, const std::vector<float>& o) {
  double worst = 0;
  std::vector<double> weight(size_t(p.len));
  for (int head = 0; head < p.heads; ++head) {
    const size_t first = size_t(head) * size_t(p.len) * head_dim;
    for (size_t r = 0; r < p.rows.size(); ++r) {
      const int row = p.rows[r], visible = p.causal ? row + 1 : p.len;
      const float* q = &in.q[first + size_t(row) * head_dim];
      double largest = -INFINITY, sum = 0, expected[head_dim] = {};
      for (int key = 0; key < visible; ++key) {
        const float* k = &in.k[first + size_t(key) * head_dim];
        double dot = 0;
        for (int d = 0; d < head_dim; ++d) dot += double(q[d]) * double(k[d]);
        weight[size_t(key)] = dot * double(scale);
        largest = std::max(largest, weight[size_t(key)]);
      }
      for (int key = 0; key < visible; ++key) {
        const float* v = &in.v[first + size_t(key) * head_dim];
        const double p_key = std::exp(weight[size_t(key)] - largest);
        sum += p_key;
        for (int d = 0; d < head_dim; ++d) expected[d] += p_key * double(v[d]);
      }
      const float* got = &o[(size_t(head) * p.rows.size() + r) * head_dim];
      for (int d = 0; d < head_dim; ++d) {
        const double error = std::fabs(double(got[d]) - expected[d] / sum);
        worst = error <= worst ? worst : std::isnan(error) ? double(INFINITY) : error;
      }
    }
  }
  return worst;
}

// ---- the command line --------------------------------------------------------------------------
struct Options {
  std::vector<int> lens = {4096};
  int heads = 12;
  bool full = true, causal = true;
  int rows = 16;     ///< checked in each head
  double limit = 0;  ///< seconds; longer lengths are left out once a call would take more. 0: none
  bool json = false;

  int largest_len() const { return *std::max_element(lens.begin(), lens.end()); }
};

[[noreturn]] inline void fail(const std::string& text) {
  std::fprintf(stderr, "%s\n", text.c_str());
  std::exit(2);
}

inline double number(const std::string& option, const std::string& text, double least) {
  char* end = nullptr;
  const double value = std::strtod(text.c_str(), &end);
  if (text.empty() || *end != '\0' || !(value >= least && value <= 1048576))
    fail(option + " is '" + text + "'; want a number from " + std::to_string(int(least)) +
         " to 1048576");
  return value;
}
inline int integer(const std::string& option, const std::string& text) {
  const double value = number(option, text, 1);
  if (value != std::floor(value)) fail(option + " is '" + text + "'; want an integer");
  return int(value);
}

inline Options parse(int argc, char** argv, const Step& step) {
  Options options;
  for (int i = 1; i < argc; ++i) {
    const std::string option = argv[i];
    if (option == "--help" || option == "-h") {
      std::printf(
          "%s: %s\n\n"
          "  --seq N[,N...]           sequence lengths (4096)\n"
          "  --heads N                heads (12)\n"
          "  --causal no|yes|both     the mask (both)\n"
          "  --rows N                 query rows of each head checked against fp64 (16)\n"
          "  --limit SECONDS          leave a length out if one call would take longer (none)\n"
          "  --json                   one JSON line a measurement on stdout, the rest on stderr\n\n"
          "Ends with 1 if a result differs from fp64 by more than %.0e.\n",
          step.name, step.idea, step.tolerance);
      std::exit(0);
    }
    if (option == "--json") {
      options.json = true;
      continue;
    }
    if (option != "--seq" && option != "--heads" && option != "--causal" && option != "--rows" &&
        option != "--limit")
      fail("unknown option " + option + "; --help lists them");
    if (i + 1 == argc) fail(option + " needs a value");
    const std::string value = argv[++i];
    if (option == "--heads") options.heads = integer(option, value);
    if (option == "--rows") options.rows = integer(option, value);
    if (option == "--limit") options.limit = number(option, value, 0);
    if (option == "--causal") {
      if (value != "no" && value != "yes" && value != "both")
        fail("--causal is '" + value + "'; want no, yes or both");
      options.full = value != "yes";
      options.causal = value != "no";
    }
    if (option == "--seq") {
      options.lens.clear();
      for (size_t begin = 0; begin <= value.size();) {
        const size_t comma = std::min(value.find(',', begin), value.size());
        options.lens.push_back(integer(option, value.substr(begin, comma - begin)));
        begin = comma + 1;
      }
    }
  }
  return options;
}

// ---- the lines ---------------------------------------------------------------------------------
inline std::string text_of(const char* format, double value) {
  char text[64];
  std::snprintf(text, sizeof text, format, value);
  return text;
}
/// A JSON number, or null for what was not measured.
inline std::string json_number(double value) {
  return value > 0 && std::isfinite(value) ? text_of("%.6g", value) : "null";
}
inline std::string json_text(const std::string& text) {
  std::string quoted = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') quoted += '\\';
    quoted += c;
  }
  return quoted + '"';
}

/// One measurement: a line to read and, if asked for, a line of JSON.
inline void report(const Step& step, const Options& options, const Problem& p,
                   const std::string& device, const std::string& json_tail,
                   const std::string& human_tail) {
  std::fprintf(options.json ? stderr : stdout, "%-18s %s %5d, %d heads, %-7s %s\n", step.name,
               p.decode ? "Sk" : "S ", p.len, p.heads,
               p.decode   ? "decode"
               : p.causal ? "causal"
                          : "full",
               human_tail.c_str());
  if (!options.json) return;
  std::printf("{\"step\": %s, \"kind\": \"%s\", \"%s\": %d, \"heads\": %d, \"causal\": %s, %s",
              json_text(step.name).c_str(), p.decode ? "decode" : "prefill", p.decode ? "Sk" : "S",
              p.len, p.heads, p.causal ? "true" : "false", json_tail.c_str());
  std::printf(", \"gpu\": %s, \"idea\": %s, \"limit\": %s}\n", json_text(device).c_str(),
              json_text(step.idea).c_str(), json_text(step.limit).c_str());
}

/// Checks a result and reports it. False if it is wrong.
inline bool check_and_report(const Step& step, const Options& options, const Problem& p,
                             const Inputs& in, const Result& result, const std::string& device) {
  const double error = worst_error(p, in, result.o);
  const bool right = error <= step.tolerance;
  const double us = result.seconds * 1e6;
  const double tflops = us > 0 ? p.flops() * result.share / us * 1e-6 : 0;
  const double gbps = us > 0 ? p.decode_bytes() / us * 1e-3 : 0;

  std::string human = us <= 0 ? std::string("not timed")
                      : p.decode
                          ? text_of("%9.2f us", us) + text_of(" %8.1f GB/s", gbps)
                          : text_of("%9.3f ms", us * 1e-3) + text_of(" %9.4f TFLOP/s", tflops);
  if (result.model > 0)
    human += text_of(p.decode ? " (model %.0f)" : " (model %.1f)", result.model);
  human += text_of("  error %.1e", error) + text_of(" (allowed %.0e)", step.tolerance);
  if (!right) human += " WRONG";
  human += "  " + device;
  if (!result.note.empty()) human += "; " + result.note;

  std::string json = "\"us\": " + json_number(us);
  if (p.decode) {
    json += ", \"GBps\": " + json_number(gbps) + ", \"model_GBps\": " + json_number(result.model);
  } else {
    json += ", \"TFLOPS\": " + json_number(tflops) +
            ", \"model_TFLOPS\": " + json_number(result.model) +
            ", \"rows_timed\": " + text_of("%.0f", std::round(result.share * p.len));
  }
  json += ", \"max_error\": " + (std::isfinite(error) ? text_of("%.3g", error) : "null") +
          ", \"tolerance\": " + text_of("%.3g", step.tolerance) +
          ", \"right\": " + (right ? "true" : "false") + ", \"note\": " + json_text(result.note);
  report(step, options, p, device, json, human);
  return right;
}

/// `count` rows spread evenly over `len`, the first and the last among them; all if there are no
/// more.
inline std::vector<int> spread_rows(int len, int count) {
  std::vector<int> rows;
  count = std::min(count, len);
  for (int i = 0; i < count; ++i)
    rows.push_back(count == 1 ? len - 1 : int(int64_t(i) * (len - 1) / (count - 1)));
  return rows;
}

/// Measures a step's prefill at every length, with and without the causal mask. `measure(problem,
/// inputs)` gives a Result. Returns the program's exit code.
template <class Measure>
int run_prefill(const Step& step, const Options& options, const std::string& device,
                const Measure& measure) {
  bool right = true;
  double seconds_per_flop[2] = {0, 0};  // of the length before: full, causal
  for (const int len : options.lens) {
    const Inputs in = make_inputs(options.heads, len);
    for (const bool causal : {false, true}) {
      if (!(causal ? options.causal : options.full)) continue;
      const Problem p{false, len, options.heads, causal, spread_rows(len, options.rows)};
      const double expected = p.flops() * seconds_per_flop[causal];
      if (options.limit > 0 && expected > options.limit) {
        const std::string why = "left out: a call would take about " + text_of("%.1f s", expected) +
                                text_of(", more than %g s", options.limit);
        report(step, options, p, device, "\"skipped\": " + json_text(why), why);
        continue;
      }
      const Result result = measure(p, in);
      right = check_and_report(step, options, p, in, result, device) && right;
      seconds_per_flop[causal] = result.seconds / p.flops();
    }
  }
  return right ? 0 : 1;
}

/// The same for a step's decode.
template <class Measure>
int run_decode(const Step& step, const Options& options, const std::string& device,
               const Measure& measure) {
  bool right = true;
  for (const int len : options.lens) {
    const Inputs in = make_inputs(options.heads, len);
    const Problem p{true, len, options.heads, false, {len - 1}};
    right = check_and_report(step, options, p, in, measure(p, in), device) && right;
  }
  return right ? 0 : 1;
}

}  // namespace ladder
