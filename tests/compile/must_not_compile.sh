#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# usage: must_not_compile.sh CASE.cu CXX NVCC|none INCLUDE_DIR TOOLKIT_INCLUDE_DIR...
# A case is wrong in one way; a line "// error: TEXT" of it says what the first error of each compiler names, and
# has to name within its first lines. "// nvcc: TEXT" in its place: only nvcc sees the mistake. "// flags: ..": the
# mistake is in the flags. With -DSTROBE_TEST_RIGHT in their place it compiles, so that nothing else is wrong with it.
set -euo pipefail
case=$1 cxx=$2 nvcc=$3 include_dir=$4
shift 4
system=()
for folder in "$@"; do system+=(-isystem "$folder"); done
# Lines up to the error, the includes and instantiations that lead there among them: what a terminal still shows.
first_lines=15

said() { sed -n "s|^// $1: ||p" "$case"; }
everywhere=$(said error) nvcc_only=$(said nvcc)
expected=${everywhere:-$nvcc_only}
[ -n "$expected" ] || { echo "$case: no line '// error: ..' or '// nvcc: ..'" >&2; exit 2; }
read -ra wrong_flags <<<"$(said flags)"
host=("$cxx" -std=c++17 -fsyntax-only -x c++ -DSTROBE_HOST_EXECUTION=1 "-I$include_dir" "${system[@]}")
device=("$nvcc" -std=c++17 -arch=compute_80 -cuda -o /dev/null "-I$include_dir")
[ -z "$everywhere" ] || [ -z "$nvcc_only" ] || { echo "$case: both // error: and // nvcc:" >&2; exit 2; }

# COMPILER COMMAND..: has to fail, and to say so.
refuses() {
  local compiler=$1 output line
  shift
  if output=$(LC_ALL=C "$@" "${wrong_flags[@]}" "$case" 2>&1); then
    echo "$compiler compiles $case, which it must not" >&2
    exit 1
  fi
  line=$(grep -n -m1 -w error <<<"$output" || true)
  if [[ $line != *"$expected"* ]] || [ "${line%%:*}" -gt "$first_lines" ]; then
    echo "$compiler: the first error of $case is not, within $first_lines lines, '$expected':" >&2
    head -n 40 <<<"$output" >&2
    exit 1
  fi
  echo "$compiler, line ${line%%:*} of $(wc -l <<<"$output"): ${line#*:}"
}

right=("${host[@]}")
if [ -n "$nvcc_only" ]; then
  [ "$nvcc" != none ] || { echo "needs nvcc" >&2; exit 2; }
  right=("${device[@]}")
fi
"${right[@]}" -DSTROBE_TEST_RIGHT "$case" ||
  { echo "$case is wrong even with STROBE_TEST_RIGHT" >&2; exit 1; }
[ -z "$everywhere" ] || refuses "$(basename "$cxx")" "${host[@]}"
[ "$nvcc" = none ] || refuses nvcc "${device[@]}"
