// SPDX-License-Identifier: MIT
// The one place for the version. CMake reads these three lines; nothing else repeats them.
#pragma once

#define STROBE_VERSION_MAJOR 0
#define STROBE_VERSION_MINOR 1
#define STROBE_VERSION_PATCH 0

// Everything public lives in `strobe::v0_1`, an inline namespace, so that two versions of the
// library can meet in one program. It changes whenever a type or a function changes its meaning or
// its layout.
#define STROBE_ABI v0_1
