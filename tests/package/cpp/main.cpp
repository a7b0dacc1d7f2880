// SPDX-License-Identifier: MIT
#include <cuda_runtime.h>
#include <strobe/types.hpp>
#include <strobe/version.hpp>

#include <cstdio>

int main() {
  std::printf("strobe %d.%d.%d\n", STROBE_VERSION_MAJOR, STROBE_VERSION_MINOR,
              STROBE_VERSION_PATCH);
  int devices = 0;
  const cudaError_t error =
      cudaGetDeviceCount(&devices);  // links: the runtime came with strobe::strobe
  std::printf("%d devices (%s)\n", devices, cudaGetErrorString(error));
}
