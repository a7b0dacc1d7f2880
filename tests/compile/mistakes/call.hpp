// SPDX-License-Identifier: MIT
// What every case does with its type. STROBE_TEST_RIGHT takes the mistake out: the rest of a case
// is right, or its message would prove nothing.
#pragma once

#include <strobe/decode.cuh>
#include <strobe/prefill.cuh>

template <class Attention>
strobe::Status call(const Attention& a) {
  const strobe::Device device;
  if (const strobe::Status status = strobe::prefill(a, device, {}, nullptr); !status) return status;
  return strobe::decode(a, device, {}, nullptr);
}
