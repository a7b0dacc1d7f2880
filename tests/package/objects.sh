#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# usage: objects.sh NVCC CXX SOURCE_DIR WORK TOOLKIT_INCLUDE_DIR...
# BLD-02: several shared objects in one process, each with the library for other architectures, each running its own
# code. And what the library says where nobody named an architecture. No GPU: objects/host.cpp stands in for CUDA.
set -euo pipefail
nvcc=$1 cxx=$2 source_dir=$3 work=$4
shift 4
here=$source_dir/tests/package/objects
mkdir -p "$work"
system=()
for folder in "$@"; do system+=(-isystem "$folder"); done
"$cxx" -std=c++17 -O1 -Wall -Wextra -Wno-missing-field-initializers -rdynamic "${system[@]}" "-I$source_dir/include" \
  "$here/host.cpp" -ldl -o "$work/host"

build() { # NAME FLAGS..
  "$nvcc" -std=c++17 -shared -Xcompiler=-fPIC -cudart=none "-I$source_dir/include" "${@:2}" "$here/object.cu" \
    -o "$work/$1.so"
}
build 80 -gencode=arch=compute_80,code=sm_80
build 90 -gencode=arch=compute_90,code=sm_90
build 90a -gencode=arch=compute_90a,code=sm_90a
build unnamed  # nvcc's own default

run() {
  echo "== $*"
  "$work/host" "${@/#/$work/}"
}
portable='launches prefill_sm80' hopper='launches prefill_sm90a'
run "80.so=$portable" "90a.so=$hopper"
run "90a.so=$hopper" "80.so=$portable"
run "90.so=$portable" "90a.so=$hopper"
run "90a.so=$hopper" "90.so=$portable"
# Where nobody names an architecture, nvcc's default counts, and is no good for strobe: the sentence says what was built
# and what to do.
default=$("$nvcc" --dryrun -c -x cu /dev/null 2>&1 | sed -nE 's/.*__CUDA_ARCH_LIST__=([0-9]+).*/\1/p' | head -n 1)
[ -n "$default" ] || { echo "nvcc --dryrun does not say its default architecture" >&2; exit 1; }
if [ "$default" -lt 800 ]; then
  run "unnamed.so=no code for compute capability 9.0 in this build (__CUDA_ARCH_LIST__ = $default); build for 80 or newer"
else
  run "unnamed.so=$portable"
fi
