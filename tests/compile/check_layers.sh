#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# usage: check_layers.sh include/strobe
# The layer rules: a header includes its own layer or a lower one, in the order
#   nouns (.hpp, detail/*.hpp) <- host <- ptx <- tile <- softmax <- warp <- kernel <- detail/launch <- device
#     <- prefill, decode, append, merge <- strobe
# and besides: one kernel never includes another (but kernel/X.cuh its own part, kernel/X_part.cuh), no .hpp includes
# a .cuh, asm lives in ptx/ alone (ptx/*.hpp is a noun's, for both sides), <<<>>> is nowhere, and what NVRTC lacks
# (streams, strings, containers) is in host/ alone.
set -euo pipefail
cd "$1"

layer() {
  case $1 in
    host/*) echo 1 ;;
    ptx/*.hpp) echo 0 ;;
    ptx/*) echo 2 ;;
    tile/*) echo 3 ;;
    softmax.cuh | state.cuh) echo 4 ;;
    warp_*.cuh) echo 5 ;;
    kernel/*) echo 6 ;;
    detail/*.cuh) echo 7 ;;
    device.cuh) echo 8 ;;
    prefill.cuh | decode.cuh | append.cuh | merge.cuh) echo 9 ;;
    strobe.cuh) echo 10 ;;
    *.hpp) echo 0 ;;
    *) echo unknown ;;
  esac
}

failures=0
complain() {
  echo "layers: $1" >&2
  failures=$((failures + 1))
}

# The text without comments, line numbers kept.
code_of() {
  awk '{ line = $0; out = ""
         while (line != "") {
           if (inside) { end = index(line, "*/"); if (!end) break; line = substr(line, end + 2); inside = 0 }
           else {
             block = index(line, "/*"); rest = index(line, "//")
             if (rest && (!block || rest < block)) { out = out substr(line, 1, rest - 1); break }
             if (!block) { out = out line; break }
             out = out substr(line, 1, block - 1); line = substr(line, block + 2); inside = 1
           }
         }
         print out }' "$1"
}

count=0
while IFS= read -r file; do
  count=$((count + 1))
  from=$(layer "$file")
  [ "$from" != unknown ] || { complain "$file: has no layer; add it to tests/compile/check_layers.sh"; continue; }
  code=$(code_of "$file")

  # Each include of ours, as a path below include/strobe.
  while IFS=: read -r line target; do
    [ -n "$target" ] || continue
    case $target in
      "<strobe/"*) path=${target#"<strobe/"} path=${path%">"} ;;
      '"'*) path=$(realpath -m --relative-to=. "$(dirname "$file")/$(tr -d '"' <<<"$target")") ;;
      "<iostream>" | "<string>" | "<vector>" | "<map>" | "<memory>" | "<functional>" | "<sstream>")
        case $file in host/*) ;; *) complain "$file:$line: $target belongs in host/ alone" ;; esac
        continue ;;
      *) continue ;;
    esac
    [ -f "$path" ] || { complain "$file:$line: $path does not exist"; continue; }
    to=$(layer "$path")
    if [ "$to" != unknown ] && [ "$to" -gt "$from" ]; then
      complain "$file:$line: includes $path, which is in a higher layer"
    fi
    case $file:$path in
      kernel/*:"${file%.cuh}_"*) ;;  # its own part
      kernel/*:kernel/*) complain "$file:$line: one kernel includes another ($path)" ;;
      *.hpp:*.cuh) complain "$file:$line: a .hpp includes a .cuh ($path)" ;;
    esac
  done < <(grep -nE '^[[:space:]]*#[[:space:]]*include' <<<"$code" |
    sed -E 's/^([0-9]+):[[:space:]]*#[[:space:]]*include[[:space:]]*([<"][^>"]*[>"]).*/\1:\2/')

  while IFS=: read -r line _; do
    [ -n "$line" ] && complain "$file:$line: <<<>>> (launch through detail/)"
  done < <(grep -n '<<<' <<<"$code" || true)
  case $file in
    ptx/* | host/*) ;;
    *)
      while IFS=: read -r line _; do
        [ -n "$line" ] && complain "$file:$line: asm outside ptx/"
      done < <(grep -nE '\basm\b|\b__asm__\b' <<<"$code" || true) ;;
  esac
done < <(find . -type f \( -name '*.hpp' -o -name '*.cuh' \) | sed 's|^\./||' | sort)

[ "$count" -gt 0 ] || complain "no headers in $PWD"
if [ "$failures" -gt 0 ]; then
  echo "layers: $failures violations in $count headers" >&2
  exit 1
fi
echo "layers: $count headers keep the rules"
