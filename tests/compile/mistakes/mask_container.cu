// SPDX-License-Identifier: MIT
// A mask with a container: its memory is the host's, and kernels get a copy of its bytes.
// error: mask: it travels to the device as bytes, so it is trivially copyable
#include <vector>

#include "call.hpp"

#if defined(STROBE_TEST_RIGHT)
using Keys = const int*;
#else
using Keys = std::vector<int>;
#endif

struct Listed {
  Keys keys;
  struct Bound {
    __host__ __device__ bool visible(int, int k) const { return k % 2 == 0; }
  };
  __host__ __device__ Bound bind(const strobe::Block&) const { return {}; }
};
using A = strobe::Attention<__half, 64, Listed>;
strobe::Status attend(const A& a) { return call(a); }
