// SPDX-License-Identifier: MIT
// Attention sinks with a sliding window, written as a user of strobe writes a mask: first so that
// it is right, then so that it is fast (the library has one of its own, strobe::SinkWindow).
#pragma once

#include <strobe/mask.hpp>

#include <cstdio>

// [docs: plain]
// Query q sees the first `sinks` keys and the last `window` keys, its own included; never the
// future.
struct PlainSinkWindow {
  int sinks, window;
  STROBE_HOST_DEVICE bool visible(int q, int k) const {
    return k <= q && (k < sinks || q - k < window);
  }
  STROBE_HOST_DEVICE PlainSinkWindow bind(const strobe::Block&) const { return *this; }
};
// [docs: end]

struct SinkWindow {
  int sinks = 4;
  int window = 1024;

  struct Bound {
    int sinks, window;
    strobe::Span q;  // positions of the block's query rows

    STROBE_HOST_DEVICE bool visible(int position, int k) const {
      return k <= position && (k < sinks || position - k < window);
    }
    // [docs: next_key]
    // The first key from k on that some row may see. Between the sinks and the window of the first
    // row is a hole, behind the last row is nothing.
    STROBE_HOST_DEVICE int next_key(int k) const {
      if (k > q.end - 1) return strobe::unlimited;
      if (k < sinks) return k;
      const int first = q.begin - window + 1;
      return k < first ? first : k;
    }
    // [docs: end]
    // [docs: tile]
    // Full tiles are multiplied without a question. Partial is always right, and only slower.
    STROBE_HOST_DEVICE strobe::Tile tile(strobe::Span keys) const {
      const int first_row = q.begin, last_row = q.end - 1, last_key = keys.end - 1;
      const bool past = last_key <= first_row;
      const bool near = keys.begin > last_row - window || keys.end <= sinks;
      return past && near ? strobe::Tile::full : strobe::Tile::partial;
    }
    // [docs: end]
  };
  // [docs: bind]
  STROBE_HOST_DEVICE Bound bind(const strobe::Block& block) const {
    return {sinks, window, block.q};
  }
  // [docs: end]
  // [docs: check]
  // Called on the host before a launch. Positions stay below 2^30, so this keeps every sum an int.
  strobe::Status check(const strobe::Bounds&) const noexcept {
    strobe::Status status;
    if (sinks < 0 || window < 1 || window > 1 << 30) {
      status.code = strobe::Code::invalid;
      status.cuda = cudaErrorInvalidValue;
      std::snprintf(status.text, sizeof status.text,
                    "mask: sinks is %d, window is %d; they must be at least 0 and 1", sinks,
                    window);
    }
    return status;
  }
  // [docs: end]
};
