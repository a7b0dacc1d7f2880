#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# usage: consume.sh --cmake CMAKE --generator NAME --cxx COMPILER --nvcc COMPILER --source CHECKOUT --work FOLDER
#          install BUILD_DIR
#        consume.sh (the same options) PROJECT FROM [ARCHITECTURES]
# The first installs strobe and moves the result; the second configures, builds and starts tests/package/PROJECT
# with strobe from find_package, add_subdirectory or fetch_content, for CMAKE_CUDA_ARCHITECTURES or, where that is
# none, without naming any.
set -euo pipefail
while [[ $1 == --* ]]; do
  case $1 in
    --cmake) cmake=$2 ;;
    --generator) generator=$2 ;;
    --cxx) cxx=$2 ;;
    --nvcc) nvcc=$2 ;;
    --source) source_dir=$2 ;;
    --work) work=$2 ;;
  esac
  shift 2
done
prefix=$work/moved/prefix

if [ "$1" = install ]; then
  rm -rf "$work/installed" "$work/moved"
  "$cmake" --install "$2" --prefix "$work/installed" >/dev/null
  # Nothing installed may remember where it was built or first installed.
  if grep -rnF -e "$source_dir" -e "$2" -e "$work" "$work/installed"; then
    echo "installed files name folders of this machine" >&2
    exit 1
  fi
  # Every header of the checkout is there.
  diff -r "$source_dir/include/strobe" "$work/installed/include/strobe"
  mkdir -p "$work/moved"
  mv "$work/installed" "$prefix"
  find "$prefix" -type f | sed "s|^$prefix/||" | sort
  exit
fi

# One architecture: this is about finding the library, not about its kernels.
project=$1 from=$2 architectures=${3:-80-virtual}
build=$work/$project-$from-$architectures
rm -rf "$build"
settings=("-DSTROBE_FROM=$from" "-DCMAKE_CXX_COMPILER=$cxx" -DCMAKE_BUILD_TYPE=Release)
if [ "$from" = find_package ]; then
  settings+=("-DCMAKE_PREFIX_PATH=$prefix")
else
  settings+=("-DSTROBE_SOURCE=$source_dir")
fi
if [ "$project" = cuda ]; then
  settings+=("-DCMAKE_CUDA_COMPILER=$nvcc")
  [ "$architectures" = none ] || settings+=("-DCMAKE_CUDA_ARCHITECTURES=$architectures")
fi
"$cmake" -S "$source_dir/tests/package/$project" -B "$build" -G "$generator" "${settings[@]}"
"$cmake" --build "$build"
"$build/consumer"
