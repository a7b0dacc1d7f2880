#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Builds and runs examples/quickstart.cu: causal attention on the tensors of a real model, checked against fp64.
# On a GPU where there is one and nvcc to build for it, else on the CPU (host execution), and says which.
#
#   bash examples/quickstart.sh [--no-install] [--host]
#
#   --no-install   install nothing: name what is missing and stop
#   --host         run on the CPU although there is a GPU
#
# STROBE_BUILD_DIR (default build/quickstart) is where it builds.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
. cmake/setup.sh

install=yes where=''
for option in "$@"; do
  case $option in
    --no-install) install=no ;;
    --host) where=host ;;
    -h | --help) sed -n '3,11s/^# \{0,1\}//p' examples/quickstart.sh; exit ;;
    *) fail "unknown option $option (--no-install, --host)" ;;
  esac
done

find_cuda
need "$install" cmake g++ make
if [ "$have_nvcc" = no ] && [ -z "$cuda_headers" ]; then
  fail "missing: the CUDA toolkit, 12.8 or newer. Install it, or set CUDA_HOME to where it is. \
(Its headers alone are enough to run on the CPU.)"
fi

settings=(-DCMAKE_BUILD_TYPE=Release -DSTROBE_BUILD_TESTS=OFF -DSTROBE_BUILD_BENCHMARKS=OFF -DSTROBE_INSTALL=OFF)
find_gpu
if [ "$where" != host ] && [ -n "$gpu_arch" ]; then
  say "running on the GPU: $gpu_name, built for $gpu_arch"
  target=quickstart
  settings+=(-DSTROBE_ENABLE_CUDA=ON "-DCMAKE_CUDA_ARCHITECTURES=$gpu_arch")
else
  if [ "$where" = host ]; then no_gpu="--host was given"; fi
  say "running on the CPU (host execution of the same kernels), because $no_gpu"
  target=quickstart_host
  settings+=(-DSTROBE_ENABLE_CUDA=OFF)
fi

build=${STROBE_BUILD_DIR:-build/quickstart}
if [ ! -f "$build/CMakeCache.txt" ] && command -v ninja >/dev/null; then
  settings+=(-G Ninja)
fi
say "building in $build"
mkdir -p "$build"
cmake -S . -B "$build" "${settings[@]}" >"$build/configure.log" 2>&1 || { cat "$build/configure.log" >&2; fail "configuring failed"; }
cmake --build "$build" --target "$target" --parallel "$(nproc)"
say "$build/examples/$target"
"$build/examples/$target"
