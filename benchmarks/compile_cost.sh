#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# What one prefill instance costs a user's build: CPU-seconds (user + system) and bytes of machine code for one
# architecture, beyond what including the header costs. Ends with 1 above 5 CPU-seconds or 200 kB.
#
#   bash benchmarks/compile_cost.sh [options]
#
#   --arch sm_80,sm_90a    architectures, one after another (these two)
#   --type __half          element type
#   --head-dim 128         compiled head dimension
#   --mask Causal          mask type in namespace strobe
#   --repeat 3             takes the cheapest of so many
#   --json FILE            also writes the figures there
#   --seconds 5 --bytes 200000   the limits
#
# The machine should have nothing else to do: a busy sibling core costs CPU time too.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
. cmake/setup.sh

archs=sm_80,sm_90a type=__half head_dim=128 mask=Causal repeat=3 json='' limit_seconds=5 limit_bytes=200000
while [ $# -gt 0 ]; do
  case $1 in
    --arch) archs=$2 ;;
    --type) type=$2 ;;
    --head-dim) head_dim=$2 ;;
    --mask) mask=$2 ;;
    --repeat) repeat=$2 ;;
    --json) json=$2 ;;
    --seconds) limit_seconds=$2 ;;
    --bytes) limit_bytes=$2 ;;
    -h | --help) sed -n '3,18s/^# \{0,1\}//p' "benchmarks/compile_cost.sh"; exit ;;
    *) fail "unknown option $1" ;;
  esac
  shift 2
done
find_cuda
[ "$have_nvcc" = yes ] || fail "nvcc was not found"
[ -f include/strobe/prefill.cuh ] || fail "include/strobe/prefill.cuh is not there yet"

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# The two translation units; they differ in the one instance.
cat >"$work/headers.cu" <<'CODE'
#include <strobe/prefill.cuh>
CODE
cat - >"$work/instance.cu" <<CODE
#include <strobe/prefill.cuh>
strobe::Status run(const strobe::Attention<$type, $head_dim, strobe::$mask>& attention, const strobe::Device& device,
                   strobe::Workspace workspace, cudaStream_t stream) {
  return strobe::prefill(attention, device, workspace, stream);
}
CODE

# CPU-seconds of one full compilation (host and device code): the least of the repeats.
cpu_seconds() {  # arch file
  local best='' used i
  for ((i = 0; i < repeat; i++)); do
    TIMEFORMAT='%U %S'
    used=$({ time nvcc -std=c++17 -O3 -Iinclude -arch="$1" -c "$2" -o "$work/out.o" 2>"$work/log"; } 2>&1) ||
      { cat "$work/log" >&2; fail "nvcc failed on the $(basename "$2" .cu) unit for $1"; }
    best=$(awk -v best="$best" '{ sum = $1 + $2; print (best == "" || sum < best) ? sum : best }' <<<"$used")
  done
  echo "$best"
}

# Bytes of the device code alone.
cubin_bytes() {  # arch file
  nvcc -std=c++17 -O3 -Iinclude -arch="$1" -cubin "$2" -o "$work/out.cubin" >&2
  stat -c %s "$work/out.cubin"
}

toolkit=$(nvcc --version | sed -n 's/.*, V\([0-9.]*\)$/\1/p')
printf 'prefill<%s, %s, %s>, nvcc %s, cheapest of %s\n\n' "$type" "$head_dim" "$mask" "$toolkit" "$repeat"
printf '| arch | headers, CPU-s | + instance, CPU-s | instance, CPU-s | instance, bytes |\n|---|---|---|---|---|\n'
over=no rows=()
for arch in ${archs//,/ }; do
  headers=$(cpu_seconds "$arch" "$work/headers.cu")
  total=$(cpu_seconds "$arch" "$work/instance.cu")
  seconds=$(awk -v a="$total" -v b="$headers" 'BEGIN { printf "%.2f", a - b }')
  bytes=$(($(cubin_bytes "$arch" "$work/instance.cu") - $(cubin_bytes "$arch" "$work/headers.cu")))
  printf '| %s | %s | %s | %s | %s |\n' "$arch" "$headers" "$total" "$seconds" "$bytes"
  rows+=("{\"arch\": \"$arch\", \"headers_cpu_s\": $headers, \"total_cpu_s\": $total, \"instance_cpu_s\": $seconds, \"instance_bytes\": $bytes}")
  if awk -v s="$seconds" -v limit="$limit_seconds" 'BEGIN { exit !(s > limit) }' || [ "$bytes" -gt "$limit_bytes" ]; then
    over=yes
  fi
done

if [ -n "$json" ]; then
  list=$(IFS=,; echo "${rows[*]}")
  printf '{"type": "%s", "head_dim": %s, "mask": "%s", "nvcc": "%s", "cpu": "%s", "date": "%s", "repeat": %s,\n "results": [%s]}\n' \
    "$type" "$head_dim" "$mask" "$toolkit" "$(sed -n 's/^model name[^:]*: //p' /proc/cpuinfo | head -n1)" \
    "$(date -u +%F)" "$repeat" "$list" >"$json"
fi
if [ "$over" = yes ]; then
  fail "above the limit of $limit_seconds CPU-seconds or $limit_bytes bytes an instance"
fi
echo
echo "within $limit_seconds CPU-seconds and $limit_bytes bytes an instance"
