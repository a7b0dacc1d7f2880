// SPDX-License-Identifier: MIT
#include <strobe/types.hpp>
#include <strobe/version.hpp>

#include <cstdio>

int main() {
  std::printf("strobe %d.%d.%d\n", STROBE_VERSION_MAJOR, STROBE_VERSION_MINOR,
              STROBE_VERSION_PATCH);
}
