// SPDX-License-Identifier: MIT
// A check that no call would have made.
// error: mask or score: its check is Status check(const Bounds&) const
#include "call.hpp"

#if defined(STROBE_TEST_RIGHT)
struct Checked : strobe::Causal {
  strobe::Status check(const strobe::Bounds&) const { return {}; }
};
#else
struct Checked : strobe::Causal {
  strobe::Status check() const { return {}; }
};
#endif

using A = strobe::Attention<__half, 64, Checked>;
strobe::Status attend(const A& a) { return call(a); }
