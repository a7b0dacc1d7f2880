// SPDX-License-Identifier: MIT
// Where the K/V rows of a problem with a paged source live: pools, their page table, and whose page
// is whose. Host code.
#pragma once

#include <vector>

#include "numbers.hpp"
#include "problem.hpp"

namespace strobe_test {

/// What a table says where a sequence has no page: far outside of every pool, so that following it
/// faults.
inline constexpr int wild_page = 0x2fffffff;

struct Pages {
  Place k, v;  // batch: stride of a page, token: stride of a slot
  int page_size = 1, count = 0;
  std::vector<std::vector<int>> of;  // the pages of each sequence
  std::vector<int> table, offsets;   // as the kernel gets them; offsets empty without CSR
  int64_t table_stride = 0;

  /// Element index of key `key` of sequence b in one pool.
  int64_t at(const Place& pool, int b, int64_t key, int head) const {
    return pool.at(of[size_t(b)][size_t(key / page_size)], key % page_size, head);
  }
};

inline Pages lay_out_pages(const Problem& p) {
  const Paging& paging = p.paging;
  const auto pages_of = [&](int keys) { return (keys + paging.page_size - 1) / paging.page_size; };
  Pages pages;
  pages.page_size = paging.page_size;
  int needed = 0;
  for (int b = 0; b < p.batch; ++b) needed += pages_of(extent_of(p, b).kv_len);
  pages.count = paging.pool_pages > 0 ? paging.pool_pages : needed + 3;

  std::vector<int> ids;
  for (int i = 0; i < pages.count; ++i) ids.push_back(i);
  Random random(paging.shuffle);
  if (paging.shuffle != 0)
    for (int i = pages.count - 1; i > 0; --i)
      std::swap(ids[size_t(i)], ids[size_t(random.below(i + 1))]);
  size_t next = 0;
  for (int b = 0; b < p.batch; ++b) {
    pages.of.emplace_back();
    for (int i = pages_of(extent_of(p, b).kv_len); i > 0; --i)
      pages.of.back().push_back(ids[next++]);
  }

  // Without a fixed size the table ends with the last sequence's last page: reading on is an error
  // that AddressSanitizer and compute-sanitizer name.
  pages.table_stride = pages_of(p.kv_len) + 2;
  if (paging.csr) {
    for (const std::vector<int>& own : pages.of) {
      pages.offsets.push_back(int(pages.table.size()));
      pages.table.insert(pages.table.end(), own.begin(), own.end());
      if (&own != &pages.of.back()) pages.table.push_back(wild_page);
    }
    pages.offsets.push_back(int(pages.table.size()));
  } else {
    pages.table.assign(size_t(p.batch) * size_t(pages.table_stride), wild_page);
    for (size_t b = 0; b < pages.of.size(); ++b)
      std::copy(pages.of[b].begin(), pages.of[b].end(),
                pages.table.begin() + int64_t(b) * pages.table_stride);
    if (paging.pool_pages == 0)
      pages.table.resize((pages.of.size() - 1) * size_t(pages.table_stride) +
                         pages.of.back().size());
  }
  if (pages.table.empty()) pages.table.push_back(wild_page);

  const auto pool = [&](int dim, int pad) {
    return place(Layout{paging.order, 0, 0, pad, 0}, pages.count, paging.page_size, p.kv_heads,
                 dim);
  };
  pages.k = pool(p.head_dim, paging.page_pad);
  pages.v = p.storage == Storage::v_in_k ? pages.k : pool(p.value_dim, 3 * paging.page_pad);
  if (paging.interleaved) {  // [page][K or V], padding behind each page
    const int64_t half = int64_t(paging.page_size) * p.kv_heads * p.head_dim;
    pages.k = pool(p.head_dim, int(half) + paging.page_pad);
    pages.v = pages.k;
    pages.v.offset = half;
  }
  return pages;
}

}  // namespace strobe_test
