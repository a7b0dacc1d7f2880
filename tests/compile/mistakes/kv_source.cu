// SPDX-License-Identifier: MIT
// A score in the place of the KV source, which comes before it.
// error: Attention: Kv is a KV source
#include "call.hpp"

#if defined(STROBE_TEST_RIGHT)
using A = strobe::Attention<__half, 64, strobe::Full, strobe::Strided<__half>, strobe::SoftCap>;
#else
using A = strobe::Attention<__half, 64, strobe::Full, strobe::SoftCap>;
#endif

strobe::Status attend(const A& a) { return call(a); }
