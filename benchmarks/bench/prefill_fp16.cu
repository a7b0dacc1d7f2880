// SPDX-License-Identifier: MIT
#include "prefill.cuh"

namespace bench {

Prepared prepare_prefill_fp16(Gpu& gpu, const Spec& spec) {
  return detail::prepare_prefill<__half>(gpu, spec);
}

}  // namespace bench
