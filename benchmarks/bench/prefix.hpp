// SPDX-License-Identifier: MIT
// A mask that strobe does not bring along: causal, and every query also sees the first keys (a
// prompt that is read in both directions).
#pragma once

#include <strobe/mask.hpp>

namespace bench {

struct Prefix {
  int keys;

  struct Bound {
    int keys;
    strobe::Causal::Bound causal;
    STROBE_HOST_DEVICE bool visible(int position, int k) const {
      return k < keys || causal.visible(position, k);
    }
    STROBE_HOST_DEVICE strobe::Tile tile(strobe::Span tile_keys) const {
      if (tile_keys.end <= keys) return strobe::Tile::full;
      const strobe::Tile by_causal = causal.tile(tile_keys);
      const bool reaches_in = tile_keys.begin < keys;
      return by_causal == strobe::Tile::skip && reaches_in ? strobe::Tile::partial : by_causal;
    }
    STROBE_HOST_DEVICE int next_key(int k) const { return k < keys ? k : causal.next_key(k); }
  };
  STROBE_HOST_DEVICE Bound bind(const strobe::Block& block) const {
    return {keys, strobe::Causal{}.bind(block)};
  }
};

}  // namespace bench
