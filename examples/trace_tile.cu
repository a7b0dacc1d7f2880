// SPDX-License-Identifier: MIT
// usage: trace_tile [FILE]
// Writes down what Hopper's prefill kernel does with one query tile of four key tiles: who asks for
// which copy, who waits for whom, which product is issued and complete when. The kernel runs on the
// CPU, by host execution, which tells its events to whoever asks. docs/images/learn.py draws it.
// Lines: who, what, of which: "consumer1 pass k_full0".
//
// Host execution alone. One thread stands for each role: thread 0 for the producer, the first
// thread of each consumer warpgroup for the others.
#include <strobe/host/execution.hpp>
#include <strobe/prefill.cuh>

#include <cstdio>
#include <string>
#include <vector>

namespace {

using Attention = strobe::Attention<__half, 128>;
using C = strobe::kernel::PrefillSm90a<Attention>;
using Control = strobe::kernel::PrefillControl<C>;
using strobe::host::TraceEvent;
using Kind = TraceEvent::Kind;

class Recorder {
 public:
  // [docs: sink]
  static void sink(void* recorder, const TraceEvent& event) {
    static_cast<Recorder*>(recorder)->take(event);
  }
  // [docs: end]
  const std::vector<std::string>& lines() const { return lines_; }

 private:
  static std::string name(const char* what, uint32_t number) {
    return what + std::to_string(number);
  }

  // The mbarriers, at the start of shared memory.
  static std::string barrier(uint32_t offset) {
    const struct {
      const char* name;
      size_t begin;
      int stages;
    } all[] = {{"q_full", offsetof(Control, q_full), C::q_buffers},
               {"q_empty", offsetof(Control, q_empty), C::q_buffers},
               {"k_full", offsetof(Control, k_full), C::k_stages},
               {"k_empty", offsetof(Control, k_empty), C::k_stages},
               {"v_full", offsetof(Control, v_full), C::v_stages},
               {"v_empty", offsetof(Control, v_empty), C::v_stages}};
    for (const auto& b : all)
      if (offset >= b.begin && offset < b.begin + 8u * unsigned(b.stages))
        return name(b.name, uint32_t(offset - b.begin) / 8);
    return name("mbarrier", offset);
  }

  // Which of the rings a place in shared memory belongs to, and how far into a tile it is.
  struct Place {
    char ring;  // Q, K or V
    uint32_t stage, within;
  };
  static Place place(uint32_t offset) {
    offset -= C::control_bytes;
    if (offset < C::q_buffers * C::q_bytes) return {'Q', offset / C::q_bytes, offset % C::q_bytes};
    offset -= C::q_buffers * C::q_bytes;
    if (offset < C::k_stages * C::k_bytes) return {'K', offset / C::k_bytes, offset % C::k_bytes};
    offset -= C::k_stages * C::k_bytes;
    return {'V', offset / C::v_bytes, offset % C::v_bytes};
  }
  static uint32_t tile_bytes(char ring) {
    return uint32_t(ring == 'Q' ? C::q_bytes : ring == 'K' ? C::k_bytes : C::v_bytes);
  }
  static std::string tile(char ring, uint32_t number) {
    return std::string(1, ring) + std::to_string(number);
  }
  static int index(char ring) { return ring == 'Q' ? 0 : ring == 'K' ? 1 : 2; }

  static std::string who(uint32_t thread) {
    return thread == 0 ? "producer" : name("consumer", thread / 128 - 1);
  }
  void say(const std::string& who, const char* what, const std::string& of) {
    lines_.push_back(who + " " + what + " " + of);
  }

  void take(const TraceEvent& e) {
    const bool nobody = e.thread == TraceEvent::kNoThread;
    if (!nobody && e.thread != 0 && (e.thread % 128 != 0 || e.thread / 128 > C::consumers)) return;
    switch (e.kind) {
      case Kind::mbarrier_arrive:
        return say(who(e.thread), "arrive", barrier(e.at));
      case Kind::mbarrier_wait:
        return say(who(e.thread), "wait", barrier(e.at));
      case Kind::mbarrier_pass:
        return say(who(e.thread), "pass", barrier(e.at));
      case Kind::mbarrier_complete:
        return say("memory", "complete", barrier(e.at));
      case Kind::barrier_arrive:
        if (e.at != 0) say(who(e.thread), "arrive", name("turn", e.at - 1));
        return;
      case Kind::barrier_complete:
        if (e.at != 0) say("memory", "complete", name("turn", e.at - 1));
        return;
      case Kind::barrier_pass:
        if (e.at != 0) say(who(e.thread), "pass", name("turn", e.at - 1));
        return;
      case Kind::tile_load: {
        const Place p = place(e.at);
        if (p.within == 0) say("producer", "load", tile(p.ring, asked_[index(p.ring)]++));
        return;
      }
      case Kind::tile_land: {
        const Place p = place(e.at);
        uint32_t& bytes = landed_[index(p.ring)];
        bytes += e.value;
        if (bytes % tile_bytes(p.ring) == 0)
          say("memory", "land", tile(p.ring, bytes / tile_bytes(p.ring) - 1));
        return;
      }
      case Kind::wgmma: {
        // A product is many instructions; the first of a group is told.
        Consumer& c = consumers_[e.thread / 128 - 1];
        if (c.open) return;
        c.open = true;
        const bool pv = place(e.at).ring == 'V';
        c.groups.push_back(pv ? name("PV", c.pv++) : name("QK", c.qk++));
        return say(who(e.thread), "issue", c.groups.back());
      }
      case Kind::wgmma_commit:
        consumers_[e.thread / 128 - 1].open = false;
        return;
      case Kind::wgmma_wait: {
        Consumer& c = consumers_[e.thread / 128 - 1];
        for (; c.done < e.at; ++c.done) say(who(e.thread), "done", c.groups[c.done]);
        return;
      }
    }
  }

  struct Consumer {
    bool open = false;
    uint32_t qk = 0, pv = 0, done = 0;
    std::vector<std::string> groups;
  };
  Consumer consumers_[C::consumers];
  uint32_t asked_[3] = {}, landed_[3] = {};
  std::vector<std::string> lines_;
};

}  // namespace

int main(int argc, char** argv) {
  // Two heads: the second query tile begins under the end of the first.
  const int heads = 2, q_len = C::block_q, kv_len = 4 * C::block_kv;
  const std::vector<__half> q(size_t(heads * q_len) * 128, __float2half_rn(0.5f)),
      kv(size_t(heads * kv_len) * 128, __float2half_rn(1.f));
  std::vector<__half> o(q.size());
  Attention a;
  a.q = strobe::token_major(q.data(), q_len, heads, 128);
  a.kv.k = strobe::token_major(kv.data(), kv_len, heads, 128);
  a.kv.v = a.kv.k;
  a.o = strobe::token_major(o.data(), q_len, heads, 128);
  a.bounds = {1, q_len, kv_len, heads, heads};

  // [docs: trace]
  Recorder recorder;
  strobe::host::Options options;
  options.trace = &Recorder::sink;
  options.trace_context = &recorder;
  const strobe::host::ScopedOptions scope(options);
  const strobe::Device hopper{0, 90, 1, 227 << 10};  // one multiprocessor: one block does it all
  const strobe::Status status = strobe::prefill(a, hopper, strobe::Workspace{}, nullptr);
  // [docs: end]
  if (!status) {
    std::printf("%s\n", status.text);
    return 1;
  }
  std::FILE* const file = argc > 1 ? std::fopen(argv[1], "w") : stdout;
  if (file == nullptr) return 1;
  bool loaded = false;
  for (const std::string& line : recorder.lines()) {
    std::fprintf(file, "%s\n", line.c_str());
    loaded = loaded || line == "consumer1 done PV3";
  }
  if (argc > 1) std::fclose(file);
  return loaded ? 0 : 1;
}
