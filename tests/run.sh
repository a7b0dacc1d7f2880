#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Sets up, builds and runs strobe's tests. Without a GPU the kernels run on the CPU and the [gpu] tests skip.
#
#   bash tests/run.sh [--no-install] [--quick]
#
#   --no-install   install nothing: name what is missing and stop
#   --quick        only what g++ builds, without sanitizers: the first answer while you work
#
# STROBE_BUILD_DIR (default build/ci) and STROBE_JOBS (default: the number of cores) change what they say.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
. cmake/setup.sh

install=yes quick=no
for option in "$@"; do
  case $option in
    --no-install) install=no ;;
    --quick) quick=yes ;;
    -h | --help) sed -n '3,11s/^# \{0,1\}//p' tests/run.sh; exit ;;
    *) fail "unknown option $option (--no-install, --quick)" ;;
  esac
done

find_cuda
need "$install" cmake g++ make catch2 python

# ---- what to build ---------------------------------------------------------------------------------------

preset=ci settings=(-DSTROBE_BUILD_BENCHMARKS=OFF)
if [ "$have_nvcc" = no ] && [ -z "$cuda_headers" ]; then
  fail "missing: the CUDA toolkit, 12.8 or newer. Install it, or set CUDA_HOME to where it is. \
(Its headers alone are enough to run the kernels on the CPU.)"
elif [ "$quick" = yes ]; then
  preset=host-only
  settings+=(-DSTROBE_TEST_SANITIZERS=OFF)
  say "quick: kernels on the CPU only; no nvcc, no sanitizers"
elif [ "$have_nvcc" = no ]; then
  preset=host-only
  say "nvcc was not found, only CUDA headers in $cuda_headers: kernels run on the CPU, nothing is built for a GPU"
fi
# For the GPU at hand; without one for 9.0 alone, because each architecture multiplies the build.
find_gpu
[ "$preset" = host-only ] || settings+=("-DCMAKE_CUDA_ARCHITECTURES=${gpu_arch:-90a-real}")
build=${STROBE_BUILD_DIR:-build/ci}
[ "$quick" = no ] || build=${STROBE_BUILD_DIR:-build/quick}
jobs=${STROBE_JOBS:-$(nproc)}

# A build folder keeps its first generator.
if [ ! -f "$build/CMakeCache.txt" ] && command -v ninja >/dev/null; then
  settings+=(-G Ninja)
fi

say "configuring $build (preset $preset)"
cmake --preset "$preset" -B "$build" "${settings[@]}"
say "building with $jobs jobs"
cmake --build "$build" --parallel "$jobs"
built=$SECONDS

# ---- run -------------------------------------------------------------------------------------------------

say "testing"
log=$build/tests.log
status=0
ctest --test-dir "$build" --output-on-failure --no-tests=error --parallel "$jobs" | tee "$log" || status=$?

# ctest calls it a success when every test skipped itself, so count: tests of label $1 that ended as $2.
count() {
  { ctest --test-dir "$build" -N -L "^$1\$" && cat "$log"; } | awk -v ended="$2" '
    match($0, /^ +Test +#[0-9]+:/) { split($0, part, /[#:]/); labelled[part[2]] = 1 }
    match($0, /^ *[0-9]+\/[0-9]+ Test +#[0-9]+:/) {
      split($0, part, /[#:]/)
      result = /   Passed +[0-9.]+ sec$/ ? "passed" : /\*\*\*Skipped/ ? "skipped" : "failed"
      if (part[2] in labelled && result == ended) n++
    }
    END { print n + 0 }'
}
gpu_skipped=$(count gpu skipped)
say "summary"
for label in cpu sanitizer compile package python docs example gpu; do
  printf '   %-10s %4d passed  %4d failed  %4d skipped\n' "$label" \
    "$(count "$label" passed)" "$(count "$label" failed)" "$(count "$label" skipped)"
done
if [ "$gpu_skipped" -gt 0 ]; then
  echo "   GPU tests skipped: ${no_gpu:-no usable GPU}"
fi
if [ "$status" -eq 0 ] && [ "$(count cpu passed)" -eq 0 ]; then
  echo "strobe: no cpu test passed, so nothing was tested" >&2
  status=1
fi
say "$((built / 60)) min $((built % 60)) s to build, $((SECONDS / 60)) min $((SECONDS % 60)) s in all"
[ "$status" -eq 0 ] || { say "FAILED"; exit "$status"; }
say "passed"
