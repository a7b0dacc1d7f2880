#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# usage: pkg_config.sh PKG_CONFIG CXX SOURCE_DIR PREFIX TOOLKIT_INCLUDE_DIR...
# What pkg-config says of the installed and moved package leads to its headers, and to no folder it was built in.
set -euo pipefail
pkg_config=$1 cxx=$2 source_dir=$3 prefix=$4
shift 4
export PKG_CONFIG_PATH=$prefix/share/pkgconfig
unset PKG_CONFIG_LIBDIR PKG_CONFIG_SYSROOT_DIR
read -ra flags <<<"$("$pkg_config" --cflags strobe-attention)"
version=$("$pkg_config" --modversion strobe-attention)
echo "strobe-attention $version: ${flags[*]}"
[ "$(realpath "${flags[0]#-I}")" = "$(realpath "$prefix/include")" ] ||
  { echo "the first flag is not $prefix/include" >&2; exit 1; }

folders=()
for folder in "$@"; do folders+=(-isystem "$folder"); done
program=$prefix/../pkg_config
"$cxx" -std=c++17 "${flags[@]}" "${folders[@]}" -x c++ - -o "$program" <<'END'
#include <strobe/attention.hpp>
#include <strobe/version.hpp>

#include <cstdio>
int main() { std::printf("%d.%d.%d\n", STROBE_VERSION_MAJOR, STROBE_VERSION_MINOR, STROBE_VERSION_PATCH); }
END
[ "$("$program")" = "$version" ] || { echo "the headers say version $("$program")" >&2; exit 1; }
