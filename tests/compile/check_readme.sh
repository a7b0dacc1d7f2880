#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# usage: check_readme.sh <project folder>
# README's example is the marked part of examples/minimal.cu, which is compiled and run; and the files README links to exist.
set -euo pipefail
cd "$1"
shown=$(awk '/^```cpp$/ { inside = 1; next } /^```$/ { if (inside) exit } inside' README.md)
compiled=$(awk '/^\/\/ \[readme\]$/ { inside = !inside; next } inside' examples/minimal.cu)
[ -n "$compiled" ] || { echo "examples/minimal.cu has no part between // [readme] marks" >&2; exit 1; }
diff <(echo "$shown") <(echo "$compiled") || { echo "README.md's example differs from examples/minimal.cu" >&2; exit 1; }
missing=0
for page in README.md docs/*.md; do
  while IFS= read -r link; do
    target=$(dirname "$page")/${link%%#*}
    [ -e "$target" ] || { echo "$page links to $link, which is not there" >&2; missing=1; }
  done < <(grep -oE '\]\([^)#:]+[^):]*\)' "$page" | sed 's/^](//; s/)$//')
done
exit "$missing"
