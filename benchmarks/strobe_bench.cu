// SPDX-License-Identifier: MIT
// strobe's speed on a GPU: prefill, decode, and the limits of the machine beside them. One
// benchmark is one shape, measured as a whole by CUDA events; docs: --help below.
#include <benchmark/benchmark.h>
#include <strobe/version.hpp>

#include <cstdio>
#include <cstring>
#include <fstream>
#include <iterator>
#include <memory>
#include <optional>

#include "bench/cells.hpp"

namespace {

using namespace bench;

constexpr const char* usage = R"(strobe_bench: measures strobe's kernels on the GPU at hand

  --grid NAME      ceilings, prefill, twelve_heads, variants, decode or all (all, unless --shape
                   is given); may come several times
  --shape NAME     one shape by its name, the form --list shows; may come several times
  --quick          of the grids about a sixth of the cells, and fewer samples
  --hot            decode: one copy of K and V that stays in L2 where it fits
  --bound N        decode: the host is told of N keys at most, the real length lies on the device
  --ceilings FILE  JSON of peers.py; prefill is then also given as a fraction of its matmul
  --json FILE      writes all figures there, and no table to the standard output
  --list           prints the names that would run, and runs nothing
  --resources      prints what the kernels of these shapes take (registers, shared memory, blocks a
                   multiprocessor) as JSON, to the file of --json if given, and measures nothing
  --calls N        only calls each shape N times, for a profiler; the clocks have risen by then
  --benchmark_...  Google Benchmark's own options, --benchmark_filter=REGEX for one

Times are medians in microseconds. Decode: CUDA graphs over several copies of K and V, L2 swept
before each; prefill: one call a pair of events, below 50 us a graph. Ends with 1 if a shape failed.
)";

struct Options {
  std::vector<std::string> names;
  Effort effort;
  bool quick = false, hot = false, list = false, resources = false;
  int64_t bound = 0;
  int64_t calls = 0;          // 0: measure
  double matmul_ceiling = 0;  // TFLOPS; 0: unknown
  std::string json;
  std::string command = "strobe_bench";
  std::vector<std::string> for_google;
};

[[noreturn]] void refuse(const std::string& sentence) { throw std::invalid_argument(sentence); }

std::string contents(const std::string& file) {
  std::ifstream stream(file);
  if (!stream) refuse("cannot read " + file);
  return {std::istreambuf_iterator<char>(stream), {}};
}

/// Two programs share the grid: matmul is peers.py's.
bool measured_here(const std::string& name) { return parse(name).kind != Kind::matmul; }

Options parse_options(int argc, char** argv) {
  Options o;
  std::vector<std::string> grids, shapes;
  for (int i = 1; i < argc; ++i) {
    std::string option = argv[i], value;
    if (option.rfind("--benchmark_", 0) == 0) {
      o.for_google.push_back(option);
      o.command += " " + option;
      continue;
    }
    const size_t equals = option.find('=');
    const bool attached = equals != std::string::npos;
    if (attached) {
      value = option.substr(equals + 1);
      option.resize(equals);
    }
    const bool is_switch =
        option == "--quick" || option == "--hot" || option == "--list" || option == "--resources";
    const bool has_value = option == "--grid" || option == "--shape" || option == "--bound" ||
                           option == "--ceilings" || option == "--json" || option == "--calls";
    if (!is_switch && !has_value) refuse("unknown option " + option + "; --help lists them all");
    if (is_switch && attached) refuse(option + " takes no value");
    if (has_value && !attached) {
      if (++i == argc) refuse(option + " needs a value");
      value = argv[i];
    }
    if (option == "--quick") o.quick = true;
    if (option == "--hot") o.hot = true;
    if (option == "--list") o.list = true;
    if (option == "--resources") o.resources = true;
    if (option == "--grid") grids.push_back(value);
    if (option == "--shape") shapes.push_back(value);
    if (option == "--json") o.json = value;
    if (option == "--bound") {
      const int64_t most = bench::detail::NameReader::most_tokens;
      o.bound = bench::detail::number_of(value);
      if (o.bound < 1 || o.bound > most)
        refuse("--bound is '" + value + "'; it must be an integer from 1 to " +
               std::to_string(most));
    }
    if (option == "--calls") {
      o.calls = bench::detail::number_of(value);
      if (o.calls < 1 || o.calls > 1000)
        refuse("--calls is '" + value + "'; it must be an integer from 1 to 1000");
    }
    if (option == "--ceilings") {
      o.matmul_ceiling = matmul_ceiling(contents(value));
      if (!(o.matmul_ceiling > 0)) refuse(value + " has no ceiling/matmul entry with TFLOPS");
    }
    // Folders are of no interest to whoever reads the figures.
    const bool is_file = option == "--json" || option == "--ceilings";
    o.command += " " + option;
    if (has_value) o.command += " " + (is_file ? value.substr(value.rfind('/') + 1) : value);
  }
  if (o.resources && o.calls > 0) refuse("--resources and --calls exclude each other");
  if (o.quick) o.effort = quick_effort;
  for (const std::string& shape : shapes) {
    if (!measured_here(shape)) refuse(shape + ": peers.py measures this one");
    o.names.push_back(shape);
  }
  if (grids.empty() && shapes.empty()) grids.emplace_back("all");
  for (const std::string& grid : grids)
    for (const std::string& name : cells_of(grid, o.quick))
      if (measured_here(name)) o.names.push_back(name);
  return o;
}

bool is_attention(const Spec& s) { return s.kind == Kind::prefill || s.kind == Kind::decode; }

Prepared prepare(Gpu& gpu, const Spec& s, int copies, int64_t kv_bound) {
  if (s.kind == Kind::decode) return prepare_decode(gpu, s, copies, kv_bound);
  return s.type == "fp16" ? prepare_prefill_fp16(gpu, s) : prepare_prefill_bf16(gpu, s);
}

/// What a cell asks of Gpu::normals().
size_t input_bytes(const Spec& s) {
  const double terabytes = double(s.batch * s.head_dim) * 2e-12 *
                           (double(s.q_heads * s.q_len) + 2.0 * double(s.kv_heads * s.kv_len));
  if (terabytes > 10)
    refuse(name_of(s) + ": Q, K and V take " + std::to_string(int64_t(terabytes)) + " TB");
  const size_t q = aligned(size_t(s.batch * s.q_len * s.q_heads * s.head_dim) * 2);
  switch (s.kind) {
    case Kind::prefill:
      return q + 2 * aligned(size_t(s.batch * s.kv_len * s.kv_heads * s.head_dim) * 2);
    case Kind::decode:
      return q + size_t(rotation(kv_bytes(s)).copies) * aligned(cache_bytes(s));
    default:
      return size_t(s.size) * 1000000;
  }
}

/// One run of the program: what its cells share.
class Session {
 public:
  explicit Session(const Options& options) : options_(options), gpu_(expected(options)) {
    warm_up(gpu_);
  }

  /// One cell, as Google Benchmark's only iteration of it.
  void run(benchmark::State& state, const std::string& name) {
    const bool all_run = benchmark::GetBenchmarkFilter().empty();
    std::fprintf(stderr, "[%d%s] %s ... ", ++started_,
                 all_run ? ("/" + std::to_string(options_.names.size())).c_str() : "",
                 name.c_str());
    for (auto _ : state) {
      try {
        measure(state, parse(name));
        std::fprintf(stderr, "%.2f us\n", double(state.counters["median_us"]));
      } catch (const std::exception& error) {
        ++failed_;
        std::fprintf(stderr, "failed\n  %s\n", error.what());
        state.SkipWithError(error.what());
        break;
      }
    }
  }

  int failed() const { return failed_; }
  const strobe::Device& device() const { return gpu_.device; }

 private:
  static size_t expected(const Options& options) {
    size_t most = 0;
    for (const std::string& name : options.names) most = std::max(most, input_bytes(parse(name)));
    return most;
  }

  void measure(benchmark::State& state, const Spec& spec) {
    switch (spec.kind) {
      case Kind::prefill:
        return measure_prefill(state, spec);
      case Kind::decode:
        return measure_decode(state, spec);
      case Kind::copy: {
        const size_t bytes = size_t(spec.size) * 1000000;
        const double median = report(state, copy_samples(gpu_, bytes, options_.effort));
        state.counters["GBps"] = 2 * double(bytes) / median * 1e-3;
        return;
      }
      case Kind::read: {
        const size_t bytes = size_t(spec.size) * 1000000;
        const double median = report(state, read_samples(gpu_, bytes, options_.effort));
        state.counters["GBps"] = double(bytes) / median * 1e-3;
        return;
      }
      case Kind::exp2: {
        const double median = report(state, exp2_samples(gpu_, options_.effort));
        state.counters["Gops"] = exp2_count(gpu_) / median * 1e-3;
        return;
      }
      case Kind::matmul:
        refuse(name_of(spec) + ": peers.py measures this one");
    }
  }

  void measure_prefill(benchmark::State& state, const Spec& spec) {
    const Prepared prepared = prepare(gpu_, spec, 1, 0);
    check_result(spec, prepared);
    const double median = report(state, warm_samples(gpu_, prepared.call, options_.effort));
    state.SetLabel(prepared.kernel);
    const double tflops = flop(spec) / median * 1e-6;
    state.counters["TFLOPS"] = tflops;
    if (options_.matmul_ceiling > 0) state.counters["fraction"] = tflops / options_.matmul_ceiling;
  }

  void measure_decode(benchmark::State& state, const Spec& spec) {
    const double bytes = kv_bytes(spec);
    const Rotation rotation_of_cell = rotation(bytes);
    const int copies = options_.hot ? 1 : rotation_of_cell.copies, calls = rotation_of_cell.calls;
    const Prepared prepared = prepare(gpu_, spec, copies, options_.bound);
    check_result(spec, prepared);
    const double median = report(
        state, graph_samples(gpu_, calls, prepared.call, options_.effort.replays, !options_.hot));
    state.SetLabel(prepared.kernel);
    state.counters["GBps"] = bytes / median * 1e-3;
    const double floor = floor_(gpu_, prepared.cache, size_t(bytes), copies, calls,
                                options_.effort.replays, !options_.hot);
    state.counters["floor_us"] = floor;
    state.counters["fraction"] = floor / median;
  }

  /// Not whether the result is right, which is the tests' task, but that there is one.
  void check_result(const Spec& spec, const Prepared& prepared) {
    prepared.call(0);
    require_finite(gpu_, spec.type, prepared.output, prepared.output_count);
  }

  /// Returns the median. `samples` ascend.
  static double report(benchmark::State& state, const std::vector<double>& samples) {
    const double median = percentile(samples, 0.5);
    state.SetIterationTime(median * 1e-6);
    state.counters["median_us"] = median;
    state.counters["low_us"] = percentile(samples, 0.1);
    state.counters["high_us"] = percentile(samples, 0.9);
    state.counters["samples"] = double(samples.size());
    return median;
  }

  const Options& options_;
  Gpu gpu_;
  ReadFloor floor_;
  int started_ = 0, failed_ = 0;
};

/// The driver's version as nvidia-smi says it, or else the newest CUDA it supports.
std::string driver_version() {
  std::string text;
  if (FILE* const pipe =
          popen("nvidia-smi --query-gpu=driver_version --format=csv,noheader 2>/dev/null", "r")) {
    char line[64];
    if (std::fgets(line, sizeof line, pipe) != nullptr) text.assign(line, std::strcspn(line, "\n"));
    if (pclose(pipe) == 0 && !text.empty()) return text;
  }
  int version = 0;
  check(cudaDriverGetVersion(&version), "cudaDriverGetVersion");
  return "for CUDA " + std::to_string(version / 1000) + "." + std::to_string(version % 1000 / 10);
}

/// What a file of figures says about its run.
Facts facts(const Options& options, const strobe::Device& device) {
  cudaDeviceProp properties{};
  check(cudaGetDeviceProperties(&properties, device.ordinal), "cudaGetDeviceProperties");
  int runtime = 0;
  check(cudaRuntimeGetVersion(&runtime), "cudaRuntimeGetVersion");
  const auto dotted = [](int whole, int part) {
    return std::to_string(whole) + "." + std::to_string(part);
  };
  return {{"program", "strobe_bench"},
          {"command", options.command},
          {"strobe_version", dotted(STROBE_VERSION_MAJOR, STROBE_VERSION_MINOR) + "." +
                                 std::to_string(STROBE_VERSION_PATCH)},
          {"gpu", properties.name},
          {"compute_capability", dotted(properties.major, properties.minor)},
          {"sm_count", std::to_string(device.sm_count)},
          {"driver", driver_version()},
          {"cuda", dotted(runtime / 1000, runtime % 1000 / 10)}};
}

/// --resources and --calls: the shapes are prepared, and not measured.
int prepare_only(const Options& options) {
  Gpu gpu(0);
  if (options.calls > 0) warm_up(gpu);
  std::vector<std::pair<std::string, Resources>> shapes;
  for (const std::string& name : options.names) {
    const Spec spec = parse(name);
    if (!is_attention(spec)) refuse(name + ": --resources and --calls take prefill and decode");
    const Prepared prepared = prepare(gpu, spec, 1, options.bound);
    shapes.emplace_back(name, prepared.resources);
    for (int64_t i = 0; i < options.calls; ++i) prepared.call(int(i));
    check(cudaStreamSynchronize(gpu.stream), "cudaStreamSynchronize");
  }
  if (!options.resources) return 0;
  const std::string json = resources_json(gpu, facts(options, gpu.device), shapes);
  if (options.json.empty()) return std::fputs(json.c_str(), stdout) < 0 ? 1 : 0;
  std::ofstream file(options.json);
  if (!(file << json << std::flush)) refuse("cannot write " + options.json);
  return 0;
}

/// With --json the file has everything and the standard error the progress.
struct NoTable : benchmark::BenchmarkReporter {
  bool ReportContext(const Context&) override { return true; }
  void ReportRuns(const std::vector<Run>&) override {}
};

int run(const Options& options) {
  if (options.list) {
    for (const std::string& name : options.names) std::puts(name.c_str());
    return 0;
  }
  if (options.resources || options.calls > 0) return prepare_only(options);
  std::vector<std::string> arguments{"strobe_bench"};
  if (!options.json.empty()) {
    arguments.push_back("--benchmark_out=" + options.json);
    arguments.push_back("--benchmark_out_format=json");
  }
  arguments.insert(arguments.end(), options.for_google.begin(), options.for_google.end());
  std::vector<char*> argv;
  for (std::string& argument : arguments) argv.push_back(argument.data());
  int argc = int(argv.size());
  argv.push_back(nullptr);
  benchmark::Initialize(&argc, argv.data());
  if (benchmark::ReportUnrecognizedArguments(argc, argv.data())) return 1;

  Session session(options);
  for (const auto& [key, value] : facts(options, session.device()))
    benchmark::AddCustomContext(key, value);
  for (const std::string& name : options.names)
    benchmark::RegisterBenchmark(name.c_str(),
                                 [&](benchmark::State& state) { session.run(state, name); })
        ->Iterations(1)
        ->UseManualTime()
        ->Unit(benchmark::kMicrosecond);
  NoTable no_table;
  const size_t matched =
      benchmark::RunSpecifiedBenchmarks(options.json.empty() ? nullptr : &no_table);
  if (matched == 0) refuse("no shape was measured");
  if (session.failed() > 0)
    std::fprintf(stderr, "strobe_bench: %d of %zu shapes failed\n", session.failed(), matched);
  benchmark::Shutdown();
  return session.failed() > 0 ? 1 : 0;
}

}  // namespace

int main(int argc, char** argv) {
  for (int i = 1; i < argc; ++i) {
    if (std::strcmp(argv[i], "--help") == 0 || std::strcmp(argv[i], "-h") == 0) {
      std::fputs(usage, stdout);
      return 0;
    }
  }
  try {
    return run(parse_options(argc, argv));
  } catch (const std::exception& error) {
    std::fprintf(stderr, "strobe_bench: %s\n", error.what());
    return 1;
  }
}
