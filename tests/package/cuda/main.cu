// SPDX-License-Identifier: MIT
// One real instance, compiled as a user would. Its Status is printed, not judged: without a GPU it
// says so, which is an answer too.
#include <strobe/prefill.cuh>
#include <strobe/version.hpp>

#include <cstdio>

int main() {
  std::printf("strobe %d.%d.%d\n", STROBE_VERSION_MAJOR, STROBE_VERSION_MINOR,
              STROBE_VERSION_PATCH);
  strobe::Device device;
  strobe::Status status = strobe::current_device(&device);
  std::printf("current_device: %s\n", status.ok() ? "ok" : status.text);
  const strobe::Attention<__half, 64, strobe::Causal> nothing;
  status = strobe::prefill(nothing, device, strobe::Workspace{}, nullptr);
  std::printf("prefill: %s\n", status.ok() ? "ok" : status.text);
}
