#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# usage: nvcc_links.sh NVCC INCLUDE_DIR BUILD_DIR SOURCE_DIR NAME FLAGS...
# Compiles all_headers.cu twice with FLAGS, and host_unit.cpp by the host compiler; links the objects, and once more
# two of them from a static library. For compute capability 8.0 alone, unless FLAGS have a -gencode: this is about what
# the front ends accept.
set -euo pipefail
nvcc=$1 include_dir=$2 build_dir=$3 source_dir=$4 name=$5
shift 5
arch=(-arch=sm_80)
for flag in "$@"; do [[ $flag != -gencode=* ]] || arch=(); done
flags=("${arch[@]}" "-I$include_dir" "-I$build_dir" "$@")
"$nvcc" "${flags[@]}" -c "$source_dir/all_headers.cu" -o "$build_dir/$name.o"
"$nvcc" "${flags[@]}" -DSTROBE_TEST_MAIN -c "$source_dir/all_headers.cu" -o "$build_dir/${name}_main.o"
cxx=${CXX:-g++}
for flag in "$@"; do [[ $flag != -ccbin=* ]] || cxx=${flag#-ccbin=}; done
toolkit=$(dirname "$(dirname "$nvcc")")/include
"$cxx" -std=c++17 "-I$include_dir" "-I$build_dir" -isystem "$toolkit" -c "$source_dir/host_unit.cpp" \
  -o "$build_dir/${name}_host.o"
# The flags of the compiler proper mean nothing to the link; these do.
link=("${arch[@]}")
for flag in "$@"; do
  case $flag in -gencode=* | -ccbin=* | -rdc=true) link+=("$flag") ;; esac
done
objects=("$build_dir/$name.o" "$build_dir/${name}_host.o")
"$nvcc" "${link[@]}" "$build_dir/${name}_main.o" "${objects[@]}" -o "$build_dir/$name"
"$build_dir/$name"
rm -f "$build_dir/lib$name.a"
ar rcs "$build_dir/lib$name.a" "${objects[@]}"
"$nvcc" "${link[@]}" "$build_dir/${name}_main.o" "$build_dir/lib$name.a" -o "$build_dir/${name}_static"
"$build_dir/${name}_static"
echo "compiled twice, linked and started with: $*"
