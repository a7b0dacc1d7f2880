#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# usage: check_macros.sh CXX INCLUDE_DIR TOOLKIT_INCLUDE_DIR...
# Every macro that is defined once strobe is included, and would not be by what it includes, begins with STROBE_.
set -euo pipefail
cxx=$1 include_dir=$2
shift 2
flags=(-std=c++17 -dM -E -x c++ "-I$include_dir")
for folder in "$@"; do flags+=(-isystem "$folder"); done
# What the headers include of the toolkit's and the standard library's; host execution is no part of users' programs.
theirs=$(cd "$include_dir/strobe" && find . -name host -prune -o -type f -print0 |
  xargs -0 grep -hoE '^# *include <[^>]+>' | grep -v '<strobe/' | sort -u)
[ -n "$theirs" ] || { echo "no includes found in $include_dir/strobe" >&2; exit 1; }

names() { "$cxx" "${flags[@]}" - | awk '{ sub(/\(.*/, "", $2); print $2 }' | sort -u; }
ours=$(comm -13 <(names <<<"$theirs") <(names <<<"$theirs"$'\n#include <strobe/strobe.cuh>'))
[ "$(grep -c '^STROBE_' <<<"$ours")" -gt 10 ] || { echo "strobe's own macros were not found" >&2; exit 1; }
if grep -v '^STROBE_' <<<"$ours"; then
  echo "these macros, left defined by strobe's headers, do not begin with STROBE_" >&2
  exit 1
fi
echo "$(wc -l <<<"$ours") macros, all of them STROBE_*"
