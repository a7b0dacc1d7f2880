// SPDX-License-Identifier: MIT
// A width that has no kernel yet.
// error: Attention: HeadDim, a compiled width, is 32, 64, 96, 128, 192 or 256; the field head_dim
#include "call.hpp"

#if defined(STROBE_TEST_RIGHT)
constexpr int width = 256;
#else
constexpr int width = 512;
#endif

using A = strobe::Attention<__half, width>;
strobe::Status attend(const A& a) { return call(a); }
