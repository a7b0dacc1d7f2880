// SPDX-License-Identifier: MIT
// The four warps of a warpgroup, and the 32 lanes of each, issue the same wgmma instructions.
// Layer: host execution, internal.
#include <algorithm>

#include "collective.hpp"
#include "wgmma.hpp"

namespace strobe {
inline namespace STROBE_ABI {
namespace host {
namespace {

constexpr uint32_t kWholeWarp = 0xffffffffu;

[[noreturn]] void disagree(const WarpgroupStep& mine, const char* whose,
                           const WarpgroupStep& other) {
  if (mine.name != other.name || mine.site != other.site) {
    engine->fail(format("divergent warpgroup: %s at %s, but %s %s at %s", mine.name,
                        describe(mine.site).text, whose, other.name, describe(other.site).text));
  }
  engine->fail(
      format("divergent warpgroup: %s at %s with other operands than %s at %s (a %llx, "
             "b %llx, accumulate %d; there a %llx, b %llx, accumulate %d)",
             mine.name, describe(mine.site).text, whose, describe(other.site).text,
             static_cast<unsigned long long>(mine.a), static_cast<unsigned long long>(mine.b),
             mine.accumulate, static_cast<unsigned long long>(other.a),
             static_cast<unsigned long long>(other.b), other.accumulate));
}

void check_warpgroup(const Fiber& self, const WarpgroupStep& step) {
  Block& block = *self.block;
  const uint32_t first = self.warp / kWarpgroup * kWarpgroup;
  if (first + kWarpgroup > block.warps.size() ||
      block.warps[first + kWarpgroup - 1].exist != kWholeWarp) {
    engine->fail(
        format("%s at %s: warp %u is not in a warpgroup, four whole warps from a multiple "
               "of four on",
               step.name, describe(step.site).text, self.warp));
  }
  Warpgroup& group = block.warpgroups[self.warp / kWarpgroup];
  const uint64_t number = block.warps[self.warp].products.steps++;
  const uint64_t known = group.first + group.steps.size();
  if (number < known) {
    const WarpgroupStep& other = group.steps[number - group.first];
    if (!(other == step)) disagree(step, "another warp issued", other);
  } else {
    group.steps.push_back(step);
  }
  uint64_t slowest = number + 1;
  for (uint32_t w = first; w < first + kWarpgroup; ++w) {
    const Warp& warp = block.warps[w];
    if (warp.done != 0 && warp.products.steps <= number) {
      engine->fail(format("%s at %s, but warp %u of the warpgroup has exited", step.name,
                          describe(step.site).text, w));
    }
    slowest = std::min(slowest, warp.products.steps);
  }
  for (; group.first < slowest; ++group.first) group.steps.pop_front();
}

}  // namespace

Warp* meet_warpgroup(const WarpgroupStep& step) {
  const Fiber& self = self_fiber();
  WarpProducts& products = self.warp_state->products;
  if (products.joined == 0) {
    products.joining = step;
  } else if (!(products.joining == step)) {
    disagree(step, "other lanes issued", products.joining);
  }
  products.joined |= 1u << self.lane;
  if (products.joined == kWholeWarp) products.joined = 0;
  Warp* warp = meet(step.name, true, kWholeWarp, step.site);
  if (warp != nullptr) check_warpgroup(self, step);
  return warp;
}

void check_warpgroup_at_exit(const Fiber& self) {
  const WarpProducts& products = self.warp_state->products;
  const Warpgroup& group = self.block->warpgroups[self.warp / kWarpgroup];
  if (products.steps < group.first + group.steps.size()) {
    const WarpgroupStep& next = group.steps[products.steps - group.first];
    engine->fail(format("exits while another warp of its warpgroup has issued %s at %s", next.name,
                        describe(next.site).text));
  }
}

}  // namespace host
}  // namespace STROBE_ABI
}  // namespace strobe
