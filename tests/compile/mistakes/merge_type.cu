// SPDX-License-Identifier: MIT
// Partial results in double precision.
// error: Merge: In, the type of the parts, is float, __half or __nv_bfloat16
#include <strobe/merge.cuh>

#if defined(STROBE_TEST_RIGHT)
using Part = float;
#else
using Part = double;
#endif

strobe::Status fold(const strobe::Merge<Part, __half>& m) { return strobe::merge(m, {}, nullptr); }
