// SPDX-License-Identifier: MIT
// What the rest of a program sees of its attention: a plain function. C++ files include this, and
// only attend.cu knows strobe's kernels.
#pragma once

#include <cuda_fp16.h>
#include <strobe/types.hpp>

#include "sink_window.hpp"

// Tensors are [tokens, heads, 64] of one sequence, contiguous, in device memory.
strobe::Status attend(const __half* q, const __half* k, const __half* v, float* o, int q_len,
                      int kv_len, int q_heads, int kv_heads, SinkWindow mask,
                      const strobe::Device& device, cudaStream_t stream);
