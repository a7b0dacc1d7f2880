#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# usage: plain_nvcc.sh NVCC SOURCE_DIR WORK
# README's shortest way in: no build system, an include path and an architecture.
set -euo pipefail
nvcc=$1 source_dir=$2 work=$3
mkdir -p "$work"
cd "$source_dir"
set -x
"$nvcc" -Werror all-warnings -arch=sm_80 -I include tests/package/cuda/main.cu -o "$work/plain_nvcc"
"$work/plain_nvcc"
