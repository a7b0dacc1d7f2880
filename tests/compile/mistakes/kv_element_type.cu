// SPDX-License-Identifier: MIT
// K and V in another type than Q, of the same size: they would be read as what they are not.
// error: Attention: K and V have the element type of Q
#include "call.hpp"

#if defined(STROBE_TEST_RIGHT)
using Cache = __half;
#else
using Cache = __nv_bfloat16;
#endif

using A = strobe::Attention<__half, 64, strobe::Full, strobe::Strided<Cache>>;
strobe::Status attend(const A& a) { return call(a); }
