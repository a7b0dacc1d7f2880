// SPDX-License-Identifier: MIT
// What a problem is run through: strobe::prefill or strobe::decode, and the workspace of the call.
#pragma once

#include <strobe/decode.cuh>
#include <strobe/prefill.cuh>

#include <catch2/catch_test_macros.hpp>

#include <string>
#include <vector>

#include "memory.hpp"

namespace strobe_test {

struct Prefill {
  template <class Attention>
  static size_t workspace_bytes(const Attention& a) {
    return strobe::prefill_workspace_bytes<Attention>(a.bounds, test_device());
  }
  template <class Attention>
  static strobe::Status run(const Attention& a, const strobe::Workspace& workspace,
                            cudaStream_t stream) {
    return strobe::prefill(a, test_device(), workspace, stream);
  }
};

struct Decode {
  template <class Attention>
  static size_t workspace_bytes(const Attention& a) {
    return strobe::decode_workspace_bytes<Attention>(a.bounds, test_device());
  }
  template <class Attention>
  static strobe::Status run(const Attention& a, const strobe::Workspace& workspace,
                            cudaStream_t stream) {
    return strobe::decode(a, test_device(), workspace, stream);
  }
};

/// A workspace of exactly `bytes` between guards: NaN everywhere, then initialised once.
class Scratch {
 public:
  Scratch() = default;
  explicit Scratch(size_t bytes) {
    if (bytes == 0) return;
    memory_ = GuardedMemory(bytes, 256);
    require_ok(strobe::init_workspace(get(), nullptr));
    finish();
  }
  strobe::Workspace get() const {
    return memory_.bytes() == 0 ? strobe::Workspace{}
                                : strobe::Workspace{memory_.data(), memory_.bytes()};
  }
  /// Empty, or what is wrong: bytes written outside, or a header that the next call cannot use.
  std::string damage() const {
    if (memory_.bytes() == 0) return {};
    if (const std::string bad = memory_.guard_damage(); !bad.empty())
      return "the workspace: " + bad;
    std::vector<unsigned char> all(memory_.bytes());
    memory_.download(all.data());
    for (size_t i = 0; i < strobe::workspace_header_bytes; ++i)
      if (all[i] != 0)
        return "byte " + std::to_string(i) + " of the workspace's header was left at " +
               std::to_string(int(all[i]));
    return {};
  }

 private:
  GuardedMemory memory_;
};

}  // namespace strobe_test
