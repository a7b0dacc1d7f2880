#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# usage: include_cost.sh CXX INCLUDE_DIR LIMITS TOOLKIT_INCLUDE_DIR...
# What a user's compiler has to read for each header that users include: non-blank lines after preprocessing, apart
# from the CUDA toolkit's own and from what that includes anyway, against LIMITS ("header lines" a line). Lines, not
# seconds, so that a busy machine gives the same answer; the standard library's lines count, and are most of it where
# a header asks for much.
set -euo pipefail
cxx=$1 include_dir=$2 limits=$3
shift 3
flags=(-std=c++17 -E -x c++ "-I$include_dir")
for folder in "$@"; do flags+=(-isystem "$folder"); done
# Every .cu file has the first from nvcc, and whoever has tensors the other two.
toolkit='#include <cuda_runtime.h>
#include <cuda_bf16.h>
#include <cuda_fp16.h>'
# What the toolkit includes besides where nvcc compiles.
by_nvcc='#include <cmath>
#include <cstdlib>
#include <cstring>'

# Lines of stdin, preprocessed, that do not lie in a folder of the toolkit's.
lines() {
  "$cxx" "${flags[@]}" - | awk -v folders="$*" '
    BEGIN { n = split(folders, folder, " ") }
    /^# [0-9]+ "/ {
      file = $3; gsub(/"/, "", file); counts = 1
      for (i = 1; i <= n; i++) if (index(file, folder[i]) == 1) counts = 0
      next
    }
    counts && /[^ \t]/ { total++ }
    END { print total + 0 }'
}
host_base=$(lines "$@" <<<"$toolkit")
nvcc_base=$(lines "$@" <<<"$toolkit"$'\n'"$by_nvcc")

failures=0
complain() {
  echo "include cost: $1" >&2
  failures=$((failures + 1))
}
checked=0
while read -r header limit; do
  [[ -n $header && $header != '#'* ]] || continue
  [ -f "$include_dir/$header" ] || { complain "$limits names $header, which is not there"; continue; }
  case $header in
    *.cuh) cost=$(($(lines "$@" <<<"$toolkit"$'\n'"$by_nvcc"$'\n'"#include <$header>") - nvcc_base)) ;;
    *) cost=$(($(lines "$@" <<<"$toolkit"$'\n'"#include <$header>") - host_base)) ;;
  esac
  printf '%-24s %6d lines of at most %d\n' "$header" "$cost" "$limit"
  [ "$cost" -le "$limit" ] || complain "$header costs $cost lines, more than the $limit of $(basename "$limits")"
  [ "$cost" -gt 0 ] || [ "$limit" -eq 0 ] || complain "$header costs nothing, so nothing was measured"
  checked=$((checked + 1))
done <"$limits"
# The headers beside version.hpp are the users'; those in folders are the library's.
for path in "$include_dir"/strobe/*.hpp "$include_dir"/strobe/*.cuh; do
  header=strobe/${path##*/}
  grep -q "^$header " "$limits" || complain "$header has no limit in $(basename "$limits")"
done
[ "$checked" -gt 0 ] || complain "$limits names no header"
[ "$failures" -eq 0 ] || exit 1
