#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# usage: check_spdx.sh <project folder>
# Every source, CMake, shell and Python file that git tracks begins with its licence (after #! where there is one).
# Where git does not know the folder, as in an archive, every such file counts.
set -euo pipefail
cd "$1"
tracked() {
  if [ -e .git ] && git -c safe.directory="$PWD" ls-files 2>/dev/null; then return; fi
  find . \( -name .git -o -name 'build*' -o -name __pycache__ \) -prune -o -type f -print | sed 's|^\./||'
}
count=0 missing=0
while IFS= read -r file; do
  [ -f "$file" ] || continue
  case $file in
    *.hpp | *.cuh | *.cu | *.cpp | *.h | *.c | *.inc) mark='// ' ;;
    *.py | *.sh | *.cmake | *.cmake.in | *.pc.in | *.yml | *.yaml | CMakeLists.txt | */CMakeLists.txt | .ci/run) mark='# ' ;;
    *) continue ;;
  esac
  count=$((count + 1))
  { read -r first || true; read -r second || true; } <"$file"
  [[ $first != '#!'* ]] || first=$second
  if [ "$first" != "${mark}SPDX-License-Identifier: MIT" ]; then
    echo "$file does not begin with '${mark}SPDX-License-Identifier: MIT'" >&2
    missing=$((missing + 1))
  fi
done < <(tracked)
[ "$count" -gt 100 ] || { echo "only $count files in $PWD: not the project" >&2; exit 1; }
[ "$missing" -eq 0 ] || exit 1
echo "$count files begin with their licence"
