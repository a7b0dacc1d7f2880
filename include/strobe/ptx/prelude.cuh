// SPDX-License-Identifier: MIT
// What every ptx/ header needs: the library's macros, fixed-width integers (NVRTC has no
// <cstdint>) and, under host execution, the CUDA built-ins and the runtime that the wrappers call
// instead of inline assembly.
// Layer: ptx, the lowest. Inline assembly lives in this folder and nowhere else.
#pragma once

#include "../detail/config.hpp"

#if defined(__CUDACC_RTC__)
using int32_t = int;
using uint32_t = unsigned int;
using int64_t = long long;
using uint64_t = unsigned long long;
#else
#include <cstdint>
#endif

#if STROBE_HOST_EXECUTION
#include "../host/builtins.hpp"
#include "../host/runtime.hpp"
#endif

// The last parameter of a wrapper whose misuse the host runtime reports: the caller's file and
// line. On the device it vanishes. A device function that wants its own caller named instead takes
// STROBE_AND_SITE as its last parameter and passes STROBE_PASS_SITE on. STROBE_SITE is the same for
// functions without parameters.
#if STROBE_HOST_EXECUTION
#define STROBE_SITE ::strobe::host::Site site = ::strobe::host::Site::here()
#define STROBE_AND_SITE , STROBE_SITE
#define STROBE_PASS_SITE , site
#else
#define STROBE_SITE
#define STROBE_AND_SITE
#define STROBE_PASS_SITE
#endif
