#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# usage: reference.sh DOXYGEN CHECKOUT OUTPUT
# The reference builds without a warning, and everything in a namespace has a comment. Members of structs
# need none where their name says it.
set -euo pipefail
doxygen=$1 checkout=$2 output=$3
cd "$checkout"
mkdir -p "$output"
{ cat docs/Doxyfile; echo "OUTPUT_DIRECTORY = $output"; } | "$doxygen" -
{ cat docs/Doxyfile; printf '%s\n' "OUTPUT_DIRECTORY = $output/again" WARN_IF_UNDOCUMENTED=YES WARN_AS_ERROR=NO; } >"$output/Doxyfile"
mkdir -p "$output/again"
"$doxygen" "$output/Doxyfile" 2>&1 | grep -E "Compound|of (namespace|file)" && exit 1
exit 0
