// SPDX-License-Identifier: MIT
// A score in the place of the mask.
// error: mask: its Bound needs bool visible(int q, int k) const
#include "call.hpp"

#if defined(STROBE_TEST_RIGHT)
using A = strobe::Attention<__half, 64, strobe::Full, strobe::Strided<__half>, strobe::SoftCap>;
#else
using A = strobe::Attention<__half, 64, strobe::SoftCap>;
#endif

strobe::Status attend(const A& a) { return call(a); }
