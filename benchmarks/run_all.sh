#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Measures strobe and its peers on the GPU at hand: benchmarks/results/<date>-<gpu>.json, docs/benchmarks.md, charts.
#
#   bash benchmarks/run_all.sh [--quick] [--bin FILE] [--raw FOLDER] [--no-flex]
#
#   --quick        about a sixth of the cells, fewer samples: some 3 minutes on an H200 instead of some 7; result,
#                  page and charts go to build/bench-quick and not over the full ones
#   --bin FILE     a strobe_bench built before; without it CMake and nvcc build one in build/bench
#   --raw FOLDER   where both programs' JSON goes (build/bench-raw)
#   --no-flex      without FlexAttention, whose compiler takes most of the time
#
# Needs python3 with PyTorch and matplotlib. strobe and its peers take turns, grid by grid, so that a GPU that drifts does so for both.
# Ends with 1 if a shape failed, after the pages are made.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
. cmake/setup.sh

quick=() flex=() bin='' raw=build/bench-raw
while [ $# -gt 0 ]; do
  case $1 in
    --quick) quick=(--quick) ;;
    --no-flex) flex=(--no-flex) ;;
    --bin | --raw)
      [ $# -gt 1 ] || fail "$1 needs a value"
      [ "$1" = --bin ] && bin=$2 || raw=$2
      shift ;;
    -h | --help) sed -n '3,14s/^# \{0,1\}//p' benchmarks/run_all.sh; exit ;;
    *) fail "unknown option $1 (--quick, --bin FILE, --raw FOLDER, --no-flex)" ;;
  esac
  shift
done

if [ -z "$bin" ]; then
  find_cuda
  [ "$have_nvcc" = yes ] || fail "nvcc was not found: give a strobe_bench built elsewhere with --bin FILE"
  need yes cmake g++ make benchmark
  find_gpu
  [ -z "$no_gpu" ] || fail "$no_gpu"
  generator=()
  if [ ! -f build/bench/CMakeCache.txt ] && command -v ninja >/dev/null; then generator=(-G Ninja); fi
  say "building strobe_bench"
  cmake -S . -B build/bench "${generator[@]}" -DCMAKE_BUILD_TYPE=Release "-DCMAKE_CUDA_ARCHITECTURES=$gpu_arch" \
    -DSTROBE_BUILD_TESTS=OFF -DSTROBE_BUILD_EXAMPLES=OFF
  cmake --build build/bench --parallel --target strobe_bench
  bin=build/bench/benchmarks/strobe_bench
fi
[ -x "$bin" ] || fail "--bin is $bin, which is not there or not executable"
case $bin in /*) ;; *) bin=./$bin ;; esac
mkdir -p "$raw"
rm -f "$raw"/peers-*.json "$raw"/strobe-*.json

# ---- measure ---------------------------------------------------------------------------------------------

started=$SECONDS failed=no report=()
say "about $([ ${#quick[@]} -gt 0 ] && echo 3 || echo 7) minutes on an H200, most of it FlexAttention's compiler and PyTorch's start"

# measure STAGE GRID...: peers, then strobe, on some grids.
measure() {
  local stage=$1 grids=() grid program
  shift
  for grid in "$@"; do grids+=(--grid "$grid"); done
  for program in peers strobe; do
    local file=$raw/$program-$stage.json ceilings=() command=("$bin")
    [ "$program" = strobe ] || command=(python3 benchmarks/peers.py "${flex[@]}")
    # The first stage of the peers measures the matmul that fractions refer to.
    [ ! -f "$raw/peers-decode.json" ] || ceilings=(--ceilings "$raw/peers-decode.json")
    say "$program: $* ($((SECONDS - started)) s so far)"
    "${command[@]}" "${quick[@]}" "${grids[@]}" "${ceilings[@]}" --json "$file" || failed=yes
    [ -s "$file" ] || fail "$program wrote no figures for $*"
    sed -i '/"host_name":/d' "$file"  # Google Benchmark's; of no interest to whoever reads the figures
    report+=("--$program" "$file")
  done
}
measure decode ceilings decode
measure prefill prefill twelve_heads
measure variants variants

say "measured in $(((SECONDS - started) / 60)) min $(((SECONDS - started) % 60)) s; raw figures are in $raw"
if [ ${#quick[@]} -gt 0 ]; then
  report+=(--results build/bench-quick --page build/bench-quick/benchmarks.md --images build/bench-quick/images)
fi
python3 benchmarks/report.py "${report[@]}"
[ "$failed" = no ] || fail "some shapes failed, see above"
