#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Climbs the ladder: every step at every length, checked against fp64 and timed, on the GPU at hand.
#
#   bash examples/ladder/run.sh [--json FILE] [--quick] [--bin DIR] [--seq N,N,...] [--heads N]
#
#   --json FILE   also writes all measurements there, for page.py
#   --quick       two lengths instead of five
#   --bin DIR     runs the programs in DIR (01_cpu, 02_naive, ...) and builds nothing; without it nvcc
#                 builds them in build/ladder for the GPU at hand
#   --seq, --heads   other lengths than 512,1024,2048,4096,8192, other heads than 12
#
# A step is not run at a length where one call would take more than a second, and step 7 only on a GPU of
# compute capability 9.0; they say so. Ends with 1 if a step is wrong or cannot run. Less than a minute on an
# H200, with --quick less than 20 seconds.
set -euo pipefail
command="bash examples/ladder/run.sh${*:+ $*}"
root=$(realpath "$(dirname "${BASH_SOURCE[0]}")/../..")
. "$root/cmake/setup.sh"

json='' bin='' seq=512,1024,2048,4096,8192 heads=12
while [ $# -gt 0 ]; do
  option=$1
  shift
  case $option in
    --quick) seq=512,2048; continue ;;
    -h | --help) sed -n "3,16s/^# \{0,1\}//p" "$root/examples/ladder/run.sh"; exit ;;
    --json | --bin | --seq | --heads) [ $# -gt 0 ] || fail "$option needs a value" ;;
    *) fail "unknown option $option (--json, --quick, --bin, --seq, --heads)" ;;
  esac
  case $option in
    --json) json=$(realpath -m "$1") ;;
    --bin) bin=$(realpath -m "$1") ;;
    --seq) seq=$1 ;;
    --heads) heads=$1 ;;
  esac
  shift
done
cd "$root"
steps=(01_cpu 02_naive 03_tiled 04_fused 05_register_tiles 05_split_k 06_strobe 07_strobe_hopper)

if [ -z "$bin" ]; then
  find_cuda
  [ "$have_nvcc" = yes ] || fail "nvcc was not found, and no --bin DIR names built programs"
  find_gpu
  [ -n "$gpu_arch" ] || fail "no GPU to build for: $no_gpu"
  bin=$PWD/build/ladder
  mkdir -p "$bin"
  for step in "${steps[@]}"; do
    source=examples/ladder/$step
    say "building $bin/$step"
    if [ -f "$source.cpp" ]; then
      "${CXX:-g++}" -std=c++17 -O3 "$source.cpp" -o "$bin/$step"
    else  # 90a-real is nvcc's sm_90a; a list means that the GPU did not say what it is: its first entry
      architecture=${gpu_arch%%;*}
      nvcc -std=c++17 -O3 "-arch=sm_${architecture%-real}" -Iinclude "$source.cu" -o "$bin/$step"
    fi
  done
fi
for step in "${steps[@]}"; do
  [ -x "$bin/$step" ] || fail "$bin has no program $step"
done

rows=$(mktemp)
trap 'rm -f "$rows"' EXIT
started=$SECONDS
for step in "${steps[@]}"; do
  "$bin/$step" --json --seq "$seq" --heads "$heads" --limit 1 >>"$rows" || fail "$step failed (exit code $?)"
done
say "$((SECONDS - started)) s"

# A text as a JSON string.
quoted() {
  local text=${1//\\/\\\\}
  printf '"%s"' "${text//\"/\\\"}"
}
if [ -n "$json" ]; then
  gpu=$(sed -n '/"step": "02_naive"/s/.*"gpu": "\([^"]*\)".*/\1/p' "$rows" | head -n1)
  driver=$(nvidia-smi --query-gpu=driver_version --format=csv,noheader 2>/dev/null | head -n1) || driver=''
  {
    printf '{"context": {"gpu": %s, "driver": %s, "date": %s,\n "command": %s},\n "rows": [\n' \
      "$(quoted "$gpu")" "$(quoted "${driver:-not known, nvidia-smi did not say}")" \
      "$(quoted "$(date -u +%F)")" "$(quoted "$command")"
    sed '$!s/$/,/; s/^/  /' "$rows"
    printf ' ]}\n'
  } >"$json"
  say "written to $json"
fi
