// SPDX-License-Identifier: MIT
// A project that is still at C++14.
// error: strobe needs C++17 or newer
// flags: -std=c++14
#include "call.hpp"
