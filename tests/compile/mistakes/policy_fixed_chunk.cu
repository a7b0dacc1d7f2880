// SPDX-License-Identifier: MIT
// A chunk that ends inside a key tile.
// error: Reduction::fixed(keys): keys is a multiple of the key tile
#include "call.hpp"

#if defined(STROBE_TEST_RIGHT)
using Mine = strobe::FixedPolicy<96>;
#else
using Mine = strobe::FixedPolicy<100>;
#endif

using A = strobe::Attention<__half, 64, strobe::Full, strobe::Strided<__half>, strobe::NoScore, 64,
                            __half, Mine>;
strobe::Status attend(const A& a) { return call(a); }
