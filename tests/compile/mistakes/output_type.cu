// SPDX-License-Identifier: MIT
// An output in a third type.
// error: Attention: Out, the type of O's elements, is T or float
#include "call.hpp"

#if defined(STROBE_TEST_RIGHT)
using Out = float;
#else
using Out = double;
#endif

using A =
    strobe::Attention<__half, 64, strobe::Full, strobe::Strided<__half>, strobe::NoScore, 64, Out>;
strobe::Status attend(const A& a) { return call(a); }
