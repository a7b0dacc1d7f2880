// SPDX-License-Identifier: MIT
// Wrong calls: pointers and strides of q, k, v, o and lse.
#include "api_call.hpp"

namespace api {

namespace {
constexpr auto invalid = strobe::Code::invalid;
}

std::vector<Wrong> wrong_tensors() {
  return {
      {"q null", [](Call& c) { c.a.q.data = nullptr; }, invalid, "q.data is null"},
      {"k null", [](Call& c) { c.a.kv.k.data = nullptr; }, invalid, "kv.k.data is null"},
      {"v null", [](Call& c) { c.a.kv.v.data = nullptr; }, invalid, "kv.v.data is null"},
      {"o null", [](Call& c) { c.a.o.data = nullptr; }, invalid, "o.data is null"},

      {"LAY-04: q 2 bytes off", [](Call& c) { c.a.q.data = address<__half>(0x1002); }, invalid,
       "q.data is 0x1002; it must be aligned to 16 bytes"},
      {"LAY-04: k 2 bytes off", [](Call& c) { c.a.kv.k.data = address<__half>(0x1002); }, invalid,
       "kv.k.data is 0x1002; it must be aligned to 16 bytes"},
      {"LAY-04: v off, k not", [](Call& c) { c.a.kv.v.data = address<__half>(0x1008); }, invalid,
       "kv.v.data is 0x1008; it must be aligned to 16 bytes"},
      {"LAY-04: o 2 bytes off", [](Call& c) { c.a.o.data = address<__half>(0x1002); }, invalid,
       "o.data is 0x1002; it must be aligned to 16 bytes"},
      {"lse 2 bytes off", [](Call& c) { c.a.lse.data = address<float>(0x1002); }, invalid,
       "lse.data is 0x1002; it must be aligned to 4 bytes"},

      {"LAY-04: q head stride 65", [](Call& c) { c.a.q.head = 65; }, invalid,
       "q.head is 65; it must be a multiple of 8 elements (16 bytes)"},
      {"LAY-04: rows of 100", [](Call& c) { c.a.q.token = 100; }, invalid,
       "q.token is 100; it must be a multiple of 8 elements (16 bytes)"},
      {"q.batch", [](Call& c) { c.a.q.batch = 1284; }, invalid,
       "q.batch is 1284; it must be a multiple of 8 elements (16 bytes)"},
      {"q.head negative", [](Call& c) { c.a.q.head = -65; }, invalid,
       "q.head is -65; it must be a multiple of 8 elements (16 bytes)"},
      {"k.head", [](Call& c) { c.a.kv.k.head = 65; }, invalid,
       "kv.k.head is 65; it must be a multiple of 8 elements (16 bytes)"},
      {"k.token", [](Call& c) { c.a.kv.k.token = 127; }, invalid,
       "kv.k.token is 127; it must be a multiple of 8 elements (16 bytes)"},
      {"k.batch", [](Call& c) { c.a.kv.k.batch = 900; }, invalid,
       "kv.k.batch is 900; it must be a multiple of 8 elements (16 bytes)"},
      {"v.head", [](Call& c) { c.a.kv.v.head = 66; }, invalid,
       "kv.v.head is 66; it must be a multiple of 8 elements (16 bytes)"},
      {"v.token", [](Call& c) { c.a.kv.v.token = 129; }, invalid,
       "kv.v.token is 129; it must be a multiple of 8 elements (16 bytes)"},
      {"v.batch", [](Call& c) { c.a.kv.v.batch = 1; }, invalid,
       "kv.v.batch is 1; it must be a multiple of 8 elements (16 bytes)"},
      {"o.head", [](Call& c) { c.a.o.head = 65; }, invalid,
       "o.head is 65; it must be a multiple of 8 elements (16 bytes)"},
      {"o.token", [](Call& c) { c.a.o.token = 260; }, invalid,
       "o.token is 260; it must be a multiple of 8 elements (16 bytes)"},
      {"o.batch", [](Call& c) { c.a.o.batch = 1283; }, invalid,
       "o.batch is 1283; it must be a multiple of 8 elements (16 bytes)"},
      // A stride whose size in bytes does not fit 64 bits: odd all the same, and no overflow.
      {"q.batch 2^63 - 1", [](Call& c) { c.a.q.batch = std::numeric_limits<int64_t>::max(); },
       invalid, "q.batch is 9223372036854775807; it must be a multiple of 8 elements (16 bytes)"},
      {"packed tokens",  // one token a sequence by its bound, but more of them in memory
       [](Call& c) {
         c.a.bounds.q_len = 1;
         c.a.lengths.q_offsets = address<int>(0x1000);
         c.a.q.token = 12;
       },
       invalid, "q.token is 12; it must be a multiple of 8 elements (16 bytes)"},
      {"packed keys",
       [](Call& c) {
         c.a.bounds.kv_len = 1;
         c.a.lengths.kv_offsets = address<int>(0x1000);
         c.a.kv.v.token = 12;
       },
       invalid, "kv.v.token is 12; it must be a multiple of 8 elements (16 bytes)"},

      {"o.batch 0", [](Call& c) { c.a.o.batch = 0; }, invalid,
       "o.batch is 0 but its extent is 2: rows would overwrite each other"},
      {"o.token 0", [](Call& c) { c.a.o.token = 0; }, invalid,
       "o.token is 0 but its extent is 5: rows would overwrite each other"},
      {"o.head 0", [](Call& c) { c.a.o.head = 0; }, invalid,
       "o.head is 0 but its extent is 4: rows would overwrite each other"},
      {"lse.batch 0", [](Call& c) { c.a.lse.batch = 0; }, invalid,
       "lse.batch is 0 but its extent is 2: rows would overwrite each other"},
      {"lse.token 0", [](Call& c) { c.a.lse.token = 0; }, invalid,
       "lse.token is 0 but its extent is 5: rows would overwrite each other"},
      {"lse.head 0", [](Call& c) { c.a.lse.head = 0; }, invalid,
       "lse.head is 0 but its extent is 4: rows would overwrite each other"},
  };
}

}  // namespace api
