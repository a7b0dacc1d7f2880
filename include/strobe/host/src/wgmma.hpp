// SPDX-License-Identifier: MIT
// Products of warpgroups (wgmma) in flight.
// Layer: host execution, internal.
#pragma once

#include <cstdint>
#include <deque>
#include <vector>

#include "../runtime.hpp"

namespace strobe {
inline namespace STROBE_ABI {
namespace host {

struct Fiber;
struct Warp;

constexpr uint32_t kWarpgroup = 4;  // warps

// One instruction of the family: what the lanes of a warp, and the warps of a warpgroup, must issue
// alike.
struct WarpgroupStep {
  const char* name = nullptr;
  Site site;
  int number = 0;  // wgmma: columns; wait: groups
  Element type = Element::f16;
  bool a_in_registers = false;
  bool accumulate = false;
  bool rows_along_sum = false;
  uint64_t a = 0;  // descriptors
  uint64_t b = 0;

  friend bool operator==(const WarpgroupStep& x, const WarpgroupStep& y) {
    return x.name == y.name && x.site == y.site && x.number == y.number && x.type == y.type &&
           x.a_in_registers == y.a_in_registers && x.accumulate == y.accumulate &&
           x.rows_along_sum == y.rows_along_sum && x.a == y.a && x.b == y.b;
  }
};

// A warp's part of a product that is not carried out yet.
struct Product {
  WarpgroupStep step;
  uint32_t group;
  uint32_t accumulator;  // index
  uint32_t a[4][32];     // registers of A
};

// 16 x n sums of a warp that are in flight.
struct Accumulator {
  float* d[32] = {};  // where each lane wants its part; null: not in use
  int n = 0;
  uint32_t group = 0;         // of the last product
  Site site;                  // of the last product
  std::vector<float> values;  // row-major
};

struct WarpProducts {
  std::vector<Product> pending;  // in the order of issue
  std::vector<Accumulator> accumulators;
  uint32_t group = 0;     // committed so far
  uint64_t steps = 0;     // issued so far
  bool fenced = false;    // since accumulators were last delivered
  WarpgroupStep joining;  // what the lanes that wait for the others have issued
  uint32_t joined = 0;    // those lanes
};

// What the foremost of four warps has issued, as far as the last has not.
struct Warpgroup {
  std::deque<WarpgroupStep> steps;
  uint64_t first = 0;  // number of the front
};

// warpgroup.cpp. Like meet(), and fails the launch if lanes or warps disagree: the warp for the
// lane that came last, null for the others after that.
Warp* meet_warpgroup(const WarpgroupStep& step);
// Fails the launch if the thread leaves its warpgroup alone.
void check_warpgroup_at_exit(const Fiber& self);

// wgmma.cpp. Fails the launch if the thread leaves with products in flight.
void check_products_at_exit(const Fiber& self);

}  // namespace host
}  // namespace STROBE_ABI
}  // namespace strobe
