// SPDX-License-Identifier: MIT
// A value width that is none.
// error: Attention: ValueDim, a compiled width, is 32, 64, 96, 128, 192 or 256; the field value_dim
#include "call.hpp"

#if defined(STROBE_TEST_RIGHT)
constexpr int width = 64;
#else
constexpr int width = 72;
#endif

using A =
    strobe::Attention<__half, 64, strobe::Full, strobe::Strided<__half>, strobe::NoScore, width>;
strobe::Status attend(const A& a) { return call(a); }
