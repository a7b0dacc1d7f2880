// SPDX-License-Identifier: MIT
// A valid call of prefill with everything in it that can be wrong, and what a row of the tables of
// wrong calls says. The tables (api_wrong_*.cpp) need no kernel; api_errors.cpp runs them.
#pragma once

#include <cuda_fp16.h>

#include <limits>
#include <string>
#include <vector>

#include "strobe/attention.hpp"

namespace api {

// One instance that has every mask and every score of the library.
using Mask = strobe::Both<strobe::Both<strobe::Window, strobe::SinkWindow>,
                          strobe::Both<strobe::Document, strobe::BlockList>>;
using Score = strobe::Chain<strobe::SoftCap, strobe::Alibi>;
using Attention = strobe::Attention<__half, 64, Mask, strobe::Strided<__half>, Score>;

struct Call {
  Attention a;
  strobe::Device device;
  strobe::Workspace workspace;

  strobe::Window& window() { return a.mask.first.first; }
  strobe::SinkWindow& sinks() { return a.mask.first.second; }
  strobe::Document& document() { return a.mask.second.first; }
  strobe::BlockList& list() { return a.mask.second.second; }
  strobe::SoftCap& soft_cap() { return a.score.first; }
  strobe::Alibi& alibi() { return a.score.second; }
};

/// A wrong call: what is changed in the valid one, the code, and the whole sentence, in which
/// {shared_bytes} stands for what the kernel needs.
struct Wrong {
  const char* name;
  void (*change)(Call& call);
  strobe::Code code;
  std::string sentence;
  bool of_workspace = false;  // prefill_supported is not given a workspace
};

std::vector<Wrong> wrong_bounds();
std::vector<Wrong> wrong_tensors();
std::vector<Wrong> wrong_nouns();

/// An address that no check may follow.
template <class T>
T* address(uintptr_t value) {
  return reinterpret_cast<T*>(value);
}

/// The buffers of a valid call: 2 sequences, 5 query rows, 7 keys, 4 heads on 2, width 64.
class Problem {
 public:
  static constexpr int batch = 2, q_len = 5, kv_len = 7, q_heads = 4, kv_heads = 2, dim = 64;
  static constexpr unsigned short marker = 0x7dad;  // a NaN
  static constexpr float lse_marker = -12345.f;

  Problem()
      : q_(buffer(batch * q_len * q_heads, 0x3000)),
        k_(buffer(batch * kv_len * kv_heads, 0x3400)),
        v_(buffer(batch * kv_len * kv_heads, 0x3c00)),  // 1.0: so every output is 1
        o_(buffer(batch * q_len * q_heads, marker)),
        lse_(size_t(batch * q_len * q_heads), lse_marker) {}

  Call valid() {
    Call call;
    Attention& a = call.a;
    a.q = strobe::token_major(static_cast<const __half*>(half(q_)), q_len, q_heads, dim);
    a.kv.k = strobe::token_major(static_cast<const __half*>(half(k_)), kv_len, kv_heads, dim);
    a.kv.v = strobe::token_major(static_cast<const __half*>(half(v_)), kv_len, kv_heads, dim);
    a.o = strobe::token_major(half(o_), q_len, q_heads, dim);
    a.lse = strobe::token_major(lse_.data(), q_len, q_heads, 1);
    a.bounds = {batch, q_len, kv_len, q_heads, kv_heads};
    call.document() = {one_document_, 0};
    call.list() = {offsets_, columns_, 64, 64};
    call.alibi() = {slopes_, 0};
    call.device = {0, 80, 4, 99 * 1024};
    return call;
  }
  /// Number of output elements, of O and LSE together, that are not the marker.
  int written() const {
    int count = 0;
    for (const Chunk& chunk : o_)
      for (unsigned short bits : chunk.bits) count += bits != marker;
    for (float value : lse_) count += value != lse_marker;
    return count;
  }
  /// Whether O is all ones, which is right for any softmax over these values.
  bool all_ones() const {
    for (const Chunk& chunk : o_)
      for (unsigned short bits : chunk.bits)
        if (bits != 0x3c00) return false;
    return true;
  }
  static constexpr int outputs = batch * q_len * q_heads * (dim + 1);

 private:
  struct alignas(16) Chunk {
    unsigned short bits[8];
  };
  static std::vector<Chunk> buffer(int rows, unsigned short bits) {
    Chunk chunk;
    for (unsigned short& b : chunk.bits) b = bits;
    return std::vector<Chunk>(size_t(rows) * dim / 8, chunk);
  }
  static __half* half(std::vector<Chunk>& chunks) {
    return reinterpret_cast<__half*>(chunks.data());
  }
  std::vector<Chunk> q_, k_, v_, o_;
  std::vector<float> lse_;
  int one_document_[kv_len] = {};
  int offsets_[2] = {0, 1};
  int columns_[1] = {0};
  float slopes_[q_heads] = {0.5f, 0.25f, 0.125f, 0.f};
};

}  // namespace api
