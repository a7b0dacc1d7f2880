// SPDX-License-Identifier: MIT
// New rows in another type than the cache.
// error: Append: the cache has the element type of the rows
#include <strobe/append.cuh>

#if defined(STROBE_TEST_RIGHT)
using Cache = __half;
#else
using Cache = __nv_bfloat16;
#endif

strobe::Status extend(const strobe::Append<__half, strobe::Strided<Cache>>& a) {
  return strobe::append(a, {}, nullptr);
}
