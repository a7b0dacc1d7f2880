// SPDX-License-Identifier: MIT
// Single-precision tensors.
// error: Attention: T, the type of Q's elements, is __half or __nv_bfloat16
#include "call.hpp"

#if defined(STROBE_TEST_RIGHT)
using T = __half;
#else
using T = float;
#endif

using A = strobe::Attention<T, 64>;
strobe::Status attend(const A& a) { return call(a); }
