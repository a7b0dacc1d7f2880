// SPDX-License-Identifier: MIT
#include "prefill.cuh"

namespace bench {

Prepared prepare_prefill_bf16(Gpu& gpu, const Spec& spec) {
  return detail::prepare_prefill<__nv_bfloat16>(gpu, spec);
}

}  // namespace bench
