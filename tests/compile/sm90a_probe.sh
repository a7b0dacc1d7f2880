#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# usage: sm90a_probe.sh NVCC INCLUDE_DIR BUILD_DIR
# built_for_sm90a has shared memory of its own in code for 9.0a and in no other: what cudaFuncGetAttributes will say
# at run time, read here from the machine code. From 9.0 on every kernel has 1024 bytes that are CUDA's.
set -euo pipefail
nvcc=$1 include_dir=$2 build_dir=$3
echo '#include <strobe/prefill.cuh>
strobe::Status run(const strobe::Attention<__half, 64>& a) { return strobe::prefill(a, {}, {}, nullptr); }' \
  >"$build_dir/sm90a_probe.cu"

# Bytes of the probe's shared memory in code for architecture $1.
shared_bytes() {
  "$nvcc" -std=c++17 -O1 "-gencode=arch=compute_$1,code=sm_$1" "-I$include_dir" -cubin \
    "$build_dir/sm90a_probe.cu" -o "$build_dir/sm90a_probe.cubin" >&2
  readelf --wide --section-headers "$build_dir/sm90a_probe.cubin" 2>/dev/null |
    awk '{ sub(/^ *\[ *[0-9]+\] */, "") } $1 ~ /^\.nv\.shared\..*built_for_sm90a/ { print "0x" $5 }'
}
for arch in 80 90 90a; do
  bytes=$(shared_bytes $arch)
  [ -n "$bytes" ] || { echo "sm_$arch: the probe is not in the code" >&2; exit 1; }
  own=$((bytes - (${arch%a} >= 90 ? 1024 : 0)))
  echo "sm_$arch: $own bytes of shared memory"
  case $arch in
    90a) [ $own -gt 0 ] || { echo "sm_90a: not told from the others" >&2; exit 1; } ;;
    *) [ $own -eq 0 ] || { echo "sm_$arch: taken for 90a" >&2; exit 1; } ;;
  esac
done
