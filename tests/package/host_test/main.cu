// SPDX-License-Identifier: MIT
#include <strobe/types.hpp>
#include <strobe/version.hpp>

#include <cstdio>

#if !STROBE_HOST_EXECUTION
#error "strobe_add_host_test did not ask for host execution"
#endif

int main() {
  std::printf("strobe %d.%d.%d on the CPU\n", STROBE_VERSION_MAJOR, STROBE_VERSION_MINOR,
              STROBE_VERSION_PATCH);
}
