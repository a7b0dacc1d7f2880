#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# usage: clang_host.sh CLANG SOURCE_DIR BUILD_DIR FLAGS...
# All headers by Clang through host execution; then the host runtime and examples/minimal.cu, which runs a kernel
# and checks it.
set -euo pipefail
clang=$1 source_dir=$2 build_dir=$3
shift 3
flags=(-DSTROBE_HOST_EXECUTION=1 "-I$source_dir/include" "-I$build_dir" "$@")
"$clang" "${flags[@]}" -fsyntax-only -x c++ "$source_dir/tests/compile/all_headers.cu"
objects=()
compile() { # SOURCE FLAGS..
  objects+=("$build_dir/clang_$(basename "$1").o")
  "$clang" "${flags[@]}" "${@:2}" -x c++ -c "$1" -o "${objects[-1]}"
}
for source in "$source_dir"/include/strobe/host/src/*.cpp; do
  [[ $source == */tsan_hooks.cpp ]] || compile "$source"
done
compile "$source_dir/examples/minimal.cu" "-I$source_dir/examples" -Wno-unused-function
"$clang" "${objects[@]}" -pthread -ldl -o "$build_dir/clang_minimal"
"$build_dir/clang_minimal"
"$clang" --version | head -n 1
