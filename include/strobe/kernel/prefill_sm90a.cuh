// SPDX-License-Identifier: MIT
// Prefill with TMA and wgmma, for compute capability 9.0 (code for 9.0a). Layer: kernel. Sources:
// FlashAttention-3 (Shah et al., 2024), section 3, for who does what; the register layouts are
// those of tile/fragment.cuh.
//
// A block, one or two of them a multiprocessor, stays for the whole launch and takes query tiles
// one after another. Its first warp is the producer: it walks the key tiles that the mask leaves
// and asks TMA for them. The other warpgroups are consumers of 64 query rows each:
//
//   global --TMA--> shared Q, K, V (128-byte swizzle) --wgmma--> S --softmax--> P --wgmma--> O
//
// A consumer issues S = Q K^T of the next key tile and O += P V of this one together, and computes
// the next tile's softmax while P V still runs; consumers take turns at issuing, so that one's
// softmax also runs beside another's products. Where shared memory has room for two buffers of Q
// the first S of the next query tile runs while the output of this one is stored. Barriers and what
// lies where: prefill_sm90a_shared.cuh.
#pragma once

#include "../ptx/barrier.cuh"
#include "../ptx/registers.cuh"
#include "../tile/load_tma.cuh"
#include "../warp_sm90a.cuh"
#include "prefill_sm90a_shared.cuh"

namespace strobe {
inline namespace STROBE_ABI {
namespace kernel {

/// The producer: one warp, all the loads of all query tiles of this block.
template <class C, class Attention>
STROBE_DEVICE void produce_sm90a(const PrefillSm90aParams<Attention>& params,
                                 unsigned char* shared_memory) {
  // Scores often fall with the distance. If the keys next to the queries come first, m starts high
  // enough and need not move: first the tile at the first query, then the others in order.
  constexpr bool nearest_first = !detail::is_same<typename Attention::score_type, NoScore>;
  const Attention& a = params.attention;
  const PrefillShared<C> shared(shared_memory);
  const int lane = int(threadIdx.x) % 32;
  tile::StageCursor<C::k_stages> k_cursor;
  tile::StageCursor<C::v_stages> v_cursor;
  tile::StageCursor<C::q_buffers> q_cursor;
  tile::StageCursor<3> item_cursor;

  // The first tiles go by block, the others to whoever asks: asking until nothing is left makes as
  // many requests as there are tiles, after which the counter is back at 0. Without a counter every
  // block takes each gridDim.x-th.
  const int tiles = params.schedule.tiles();
  int asked = 0;
  const auto next_index = [&](int index) {
    return int(gridDim.x) +
           (params.counter != nullptr ? __shfl_sync(0xffffffffu, asked, 0) : index);
  };
  for (int index = int(blockIdx.x);; index = next_index(index)) {
    if (index >= tiles) {
      ptx::mbarrier_wait(shared.k_empty + 8 * k_cursor.stage, k_cursor.parity ^ 1);
      ptx::mbarrier_wait(shared.q_empty + 8 * q_cursor.stage, q_cursor.parity ^ 1);
      if (lane == 0) {
        // Nothing is loaded, and the product of what lies there is dropped.
        const uint32_t k_full = shared.k_full + 8 * k_cursor.stage,
                       q_full = shared.q_full + 8 * q_cursor.stage;
        shared.control.step[k_cursor.stage] = {0, WorkStep::end};
        ptx::tma_leave_out(shared.k_smem + k_cursor.stage * C::k_bytes, C::k_bytes, k_full);
        ptx::mbarrier_arrive(k_full);
        if (C::ramps) ptx::mbarrier_arrive(k_full);
        ptx::tma_leave_out(shared.q_smem + q_cursor.stage * C::q_bytes, C::q_bytes, q_full);
        ptx::mbarrier_arrive(q_full);
      }
      return;
    }
    // The answer is wanted only after all loads of this tile.
    if (lane == 0 && params.counter != nullptr)
      asked = int(atomicInc(params.counter, uint32_t(tiles) - 1));
    WorkItem item;
    item.work = params.schedule.work(index);
    item.sequence = resolve_sequence(a.bounds, a.lengths, item.work.batch);
    const Sequence& sequence = item.sequence;
    if (item.work.q_tile * C::block_q >= sequence.q_len) continue;
    const Block block = block_of(item, C::block_q);
    const auto mask = a.mask.bind(block);
    [[maybe_unused]] const auto score = a.score.bind(block);
    [[maybe_unused]] warp::RampTable<C> ramps(shared.control.ramp, q_cursor.stage);
    TileStep nearest{};
    if constexpr (nearest_first)
      nearest = next_tile(mask, detail::max_of(block.q.begin, 0), sequence.kv_len, C::block_kv);
    int resume = 0;
    const auto following = [&] {
      TileStep next = next_tile(mask, resume, sequence.kv_len, C::block_kv);
      if (nearest.valid && next.valid && next.begin == nearest.begin)
        next = next_tile(mask, nearest.begin + C::block_kv, sequence.kv_len, C::block_kv);
      resume = next.begin + C::block_kv;
      return next;
    };
    TileStep step = nearest.valid ? nearest : following();

    // V is wanted one softmax later than K, so it is asked for after the K of the tile behind it; Q
    // after the first K, whose stage is free earlier. A query tile that sees no key gets a key tile
    // with every row past the end.
    if (!step.valid) {
      step = {sequence.kv_len, true, true};
      resume = sequence.kv_len;
    }
    TileStep v_step{};
    for (bool first = true; step.valid || v_step.valid; first = false) {
      TileStep next{};
      int flags = 0;
      if (step.valid) {
        next = following();
        ptx::mbarrier_wait(shared.k_empty + 8 * k_cursor.stage, k_cursor.parity ^ 1);
        flags = step.partial * WorkStep::partial + !next.valid * WorkStep::last;
        if (lane == 0) {
          if (!C::ramps) shared.control.step[k_cursor.stage] = {step.begin, flags};
          tile::load_tile<C::block_kv, C::head_panels>(
              shared.k_smem + k_cursor.stage * C::k_bytes, params.k,
              detail::min_of(sequence.kv_len - step.begin, C::block_kv),
              int(sequence.kv_begin) + step.begin, item.work.kv_head, sequence.kv_batch,
              shared.k_full + 8 * k_cursor.stage, ptx::L2Hint::evict_last);
        }
      }
      if (first) {
        ptx::mbarrier_wait(shared.q_empty + 8 * q_cursor.stage, q_cursor.parity ^ 1);
        if (lane == 0) {
          shared.control.item[item_cursor.stage] = item;
          tile::load_tile<C::block_q, C::head_panels>(
              shared.q_smem + q_cursor.stage * C::q_bytes, params.q, block.q.end - block.q.begin,
              int(sequence.q_begin) + item.work.q_tile * C::block_q, item.work.q_head,
              sequence.batch, shared.q_full + 8 * q_cursor.stage, ptx::L2Hint::evict_first);
        }
        q_cursor.next();
        item_cursor.next();
      }
      if (step.valid) {
        if constexpr (C::ramps) {
          // Behind the loads, because the score may wait for memory; `full` waits for both.
          const Span keys{step.begin, detail::min_of(step.begin + C::block_kv, sequence.kv_len)};
          const bool some = keys.begin < keys.end;
          float per_key;
          if (some && warp::adds_ramp(score, block.q, keys, C::block_kv, &per_key)) {
            flags |= ramps.find(per_key, params.scale, lane) * WorkStep::each_consumer_ramp;
          } else if (some) {
            STROBE_UNROLL_BY(1)
            for (int c = 0; c < C::consumers; ++c)
              if (warp::has_ramp(score, mask, rows_of_consumer(block.q, c), step.partial, keys,
                                 C::block_kv, lane, &per_key))
                flags |= ramps.find(per_key, params.scale, lane) << WorkStep::ramp_bit(c);
          }
          if (lane == 0) {
            shared.control.step[k_cursor.stage] = {step.begin, flags};
            ptx::mbarrier_arrive(shared.k_full + 8 * k_cursor.stage);
          }
        }
        k_cursor.next();
      }
      if (v_step.valid) {
        const uint32_t tile_smem = shared.v_smem + v_cursor.stage * C::v_bytes;
        const int keys = detail::min_of(sequence.kv_len - v_step.begin, C::block_kv);
        ptx::mbarrier_wait(shared.v_empty + 8 * v_cursor.stage, v_cursor.parity ^ 1);
        if (!params.v.template in_one_box<C::block_kv>(keys,
                                                       int(sequence.kv_begin) + v_step.begin)) {
          // P is 0 for keys past the end, and 0 times what lay there must be 0.
          tile::zero_rows<C::block_kv, C::value_panels>(shared.q + (tile_smem - shared.q_smem),
                                                        keys, lane);
          ptx::fence_proxy_async();
          __syncwarp();
        }
        if (lane == 0)
          tile::load_tile<C::block_kv, C::value_panels, true>(
              tile_smem, params.v, keys, int(sequence.kv_begin) + v_step.begin, item.work.kv_head,
              sequence.kv_batch, shared.v_full + 8 * v_cursor.stage, ptx::L2Hint::evict_last);
        v_cursor.next();
      }
      v_step = step;
      step = next;
    }
  }
}

/// A consumer warpgroup: 64 rows of every query tile of this block.
template <class C, class Attention>
STROBE_DEVICE void consume_sm90a(const PrefillSm90aParams<Attention>& params,
                                 unsigned char* shared_memory, int consumer) {
  using Score = detail::BoundOf<typename Attention::score_type>;
  constexpr bool scores = !detail::is_same<typename Attention::score_type, NoScore>;

  const Attention& a = params.attention;
  const PrefillShared<C> shared(shared_memory);
  const int thread = int(threadIdx.x) % 128, lane = thread % 32,
            warp_row = consumer * 64 + thread / 32 * 16;
  tile::StageCursor<C::k_stages> k_cursor;
  tile::StageCursor<C::v_stages> v_cursor;
  tile::StageCursor<C::q_buffers> q_cursor;
  tile::StageCursor<3> item_cursor;
  // Without a score the scale is folded into the exponential, which needs it positive: Q takes the
  // sign, or the zero. A scale that makes nothing of any logit may as well be one with a
  // reciprocal.
  const float scale_log2 =
      scores ? log2_e : fmaxf((params.scale == 0.f ? 1.f : fabsf(params.scale)) * log2_e, 1e-30f);
  const float per_scale_log2 = 1.f / scale_log2;

  // Consumers take turns at issuing: at barrier 1 + c consumer c waits for the one before it.
  const auto take_turn = [&] {
    if constexpr (C::consumers > 1) ptx::barrier_sync(1 + consumer, 256);
  };
  const auto pass_turn = [&] {
    if constexpr (C::consumers > 1) ptx::barrier_arrive(1 + (consumer + 1) % C::consumers, 256);
  };
  if (consumer == C::consumers - 1) pass_turn();

  float s[1][C::key_tiles][4];
  uint32_t p[C::key_tiles / 2][4];
  WorkStep step;
  uint32_t q_tile = 0, k_tile = 0, ramp = 0;
  const auto has_ramp = [&] { return C::ramps && step.ramp(consumer) != 0; };
  const auto receive_step = [&] {
    ptx::mbarrier_wait(shared.k_full + 8 * k_cursor.stage, k_cursor.parity);
    // Lane 0 reads and tells the others: it alone arrives at `empty`, so what it has read is not
    // written anew before. A shuffle also tells the compiler that all lanes have the same: the
    // operands of wgmma then stay in uniform registers.
    if (lane == 0) step = shared.control.step[k_cursor.stage];
    if constexpr (C::ramps)
      ramp = __shfl_sync(0xffffffffu, shared.ramp_smem + uint32_t(step.ramp(consumer)) * 128, 0);
    step.begin = __shfl_sync(0xffffffffu, step.begin, 0);
    step.flags = __shfl_sync(0xffffffffu, step.flags, 0);
    k_tile = __shfl_sync(0xffffffffu, shared.k_smem + k_cursor.stage * C::k_bytes, 0);
  };
  const auto release_k = [&] {
    if (lane == 0) ptx::mbarrier_arrive(shared.k_empty + 8 * k_cursor.stage);
    // Every lane for itself, because each has read the work item.
    if (step.is(WorkStep::last)) ptx::mbarrier_arrive(shared.q_empty + 8 * q_cursor.stage);
    k_cursor.next();
  };
  // The first product of a query tile: issued, not waited for.
  const auto begin_tile = [&] {
    ptx::mbarrier_wait(shared.q_full + 8 * q_cursor.stage, q_cursor.parity);
    const uint32_t rows = q_cursor.stage * C::q_bytes + uint32_t(consumer * 64 * 128);
    if (!scores && params.scale <= 0.f)
      warp::apply_sign<C>(reinterpret_cast<uint4*>(shared.q + rows), params.scale, thread,
                          8 + consumer);
    q_tile = __shfl_sync(0xffffffffu, shared.q_smem + rows, 0);
    warp::issue_qk<C>(s[0], q_tile, k_tile, ramp, shared.ramp_keys_smem);
  };

  receive_step();
  if (step.is(WorkStep::end)) return;
  begin_tile();
  ptx::wgmma_wait<0>(s[0]);
  for (;;) {
    // Read anew where it is wanted: registers are for tiles.
    const WorkItem& item = shared.control.item[item_cursor.stage];
    const Sequence& sequence = item.sequence;
    item_cursor.next();
    const Block block = block_of(item, C::block_q);
    const auto mask = a.mask.bind(block);
    const auto score = a.score.bind(block);
    float o[1][C::value_tiles][4] = {};
    OnlineSoftmax<1> softmax;

    // Rows past the end stand in for the last one, so that masks and scores only see real
    // positions.
    const auto position = [&](int row) {
      const int r = warp_row + tile::lane_coordinates(lane).row + 8 * (row % 2);
      return detail::min_of(block.q.begin + r, block.q.end - 1);
    };
    constexpr bool looks_up = detail::looks_up<typename Attention::mask_type>(0);
    const auto masked = warp::masked_rows<2, looks_up>(mask, position);
    const auto tile_step = [&] { return TileStep{step.begin, step.is(WorkStep::partial), true}; };
    using Shortcut = warp::ScoreShortcut<C, Score>;
    Shortcut shortcut(score, params.scale);
    const auto hide = [&] {
      warp::shape_logits<C, false>(s, tile_step(), block.kv_len, params.scale, lane, masked,
                                   [&](int) { return &score; });
    };
    // What makes base-2 logits of those in s, and its reciprocal.
    float unit = scale_log2, per_unit = per_scale_log2;
    const auto take_shortcut = [&] {
      STROBE_UNROLL
      for (int i = 0; i < 4 * C::key_tiles; ++i)
        s[0][i / 4][i % 4] = shortcut.logit_log2(s[0][i / 4][i % 4], i % 4, 0.f);
      unit = per_unit = 1.f;
    };
    const auto shape = [&] {
      if (has_ramp()) return take_shortcut();
      warp::shape_logits<C, scores>(s, tile_step(), block.kv_len, params.scale, lane, masked,
                                    [&](int) { return &score; });
      unit = scale_log2;
      per_unit = per_scale_log2;
    };
    const auto prepare_shortcut = [&](float limit0_log2, float limit1_log2) {
      if (C::ramps && !has_ramp())
        shortcut.refuse();
      else
        shortcut.prepare(score, step.begin, position, {limit0_log2, limit1_log2});
    };
    // Whether the shortcut is good for all of the warp's logits of this key tile. Hidden keys'
    // become -infinity, which a ramp leaves as it is.
    const auto shortcut_is_good = [&] {
      if constexpr (C::ramps) hide();
      if (Shortcut::limited && step.is(WorkStep::partial)) return false;
      return shortcut.is_good_for(s[0]);
    };
    // Of the accumulator tiles [first, end).
    const auto exponentiate = [&](int first, int end) {
      STROBE_UNROLL
      for (int n = first; n < end; ++n) softmax.exponentiate(s[0][n], 0, unit);
    };
    const auto score_and_exponentiate = [&](int first, int end) {
      STROBE_UNROLL
      for (int n = first; n < end; ++n)
        softmax.exponentiate(s[0][n], 0, [&](float product, int e, float more) {
          return shortcut.logit_log2(product, e, more);
        });
    };
    const auto vanish = [&](int first, int end) {
      STROBE_UNROLL
      for (int i = 4 * first; i < 4 * end; ++i) s[0][i / 4][i % 4] = 0.f;
    };
    const auto round_p = [&] {
      STROBE_UNROLL
      for (int k = 0; k < C::key_tiles / 2; ++k)
        warp::round_p<typename C::T>(p[k], s[0][2 * k], s[0][2 * k + 1]);
    };
    const auto multiply_pv = [&] {
      ptx::mbarrier_wait(shared.v_full + 8 * v_cursor.stage, v_cursor.parity);
      warp::issue_pv<C>(o[0], p, shared.v_smem + v_cursor.stage * C::v_bytes);
    };
    const auto release_v = [&] {
      if (lane == 0) ptx::mbarrier_arrive(shared.v_empty + 8 * v_cursor.stage);
      v_cursor.next();
    };
    const auto store = [&] {
      softmax.finish();
      warp::store_output(a, o[0], softmax, 0, item.work, sequence,
                         item.work.q_tile * C::block_q + warp_row, lane);
    };

    // A consumer without rows, and one whose rows see nothing more of the block's keys, only lets
    // go of what comes.
    const auto pass_over = [&] {
      release_k();
      ptx::mbarrier_wait(shared.v_full + 8 * v_cursor.stage, v_cursor.parity);
      release_v();
    };
    Block own = block;
    own.q = rows_of_consumer(block.q, consumer);
    [[maybe_unused]] int end = 0;
    if constexpr (C::consumers > 1 && looks_up)
      end = warp::end_of_keys(mask, own.q, block.kv_len, lane);
    // Without look-ups a walk in a tile that is partial anyway costs less than one more register.
    const auto sees_no_more = [&] {
      if (C::consumers == 1 || !step.is(WorkStep::partial)) return false;
      if (looks_up && detail::mask_one_span(mask)) return step.begin >= end;
      return !next_tile(a.mask.bind(own), step.begin, block.kv_len, C::block_kv).valid;
    };

    if (C::consumers > 1 && own.q.begin == own.q.end) {
      pass_over();
    } else {
      // The first S is there.
      release_k();
      prepare_shortcut(1e30f, 1e30f);
      float shrink[1][2], more[2] = {0.f, 0.f};
      if (has_ramp()) {  // what it adds at the tile's first key is the same for a row's logits
        hide();
        unit = shortcut.factor(more);
      } else if (Shortcut::limited && shortcut_is_good()) {
        take_shortcut();
      } else {
        shape();
      }
      softmax.raise(s, unit, shrink);
      exponentiate(0, C::key_tiles);
      if (C::ramps) softmax.shift(0, more);
      round_p();
      bool grew = false, over = false;
      while (!step.is(WorkStep::last)) {
        receive_step();
        take_turn();
        if (sees_no_more()) {
          over = true;
          break;
        }
        warp::issue_qk<C>(s[0], q_tile, k_tile, ramp, shared.ramp_keys_smem);
        // While Q K^T runs:
        prepare_shortcut(softmax.m_log2[0][0] + C::slack_log2,
                         softmax.m_log2[0][1] + C::slack_log2);
        if (grew) warp::scale_rows<C::value_tiles>(o[0], shrink[0]);
        multiply_pv();
        pass_turn();
        ptx::wgmma_wait<1>(s[0]);
        release_k();
        // P V of the tile before is done by the time that most exponentials are, and the others
        // then hide the rounding.
        const auto make_p = [&](const auto& exponentials_of) {
          constexpr int part = C::key_tiles * 3 / 4;
          exponentials_of(0, part);
          ptx::finish_before_wait(softmax.l[0][0] + softmax.l[0][1], shared.q_smem);
          ptx::wgmma_wait<0>(o[0]);
          release_v();
          exponentials_of(part, C::key_tiles);
          round_p();
        };
        grew = false;
        if (!shortcut_is_good()) {  // always, without a shortcut
          shape();
          grew = softmax.raise_seldom(s, unit, per_unit, C::slack_log2, shrink);
          make_p(exponentiate);
        } else if (shortcut.vanishes(s[0])) {
          make_p(vanish);
        } else {
          make_p(score_and_exponentiate);
        }
      }
      if (grew) warp::scale_rows<C::value_tiles>(o[0], shrink[0]);
      multiply_pv();
      if constexpr (!C::ends_under_next) {
        if (over) pass_turn();
        ptx::wgmma_wait<0>(o[0]);
        release_v();
        if (over) pass_over();
      }
    }
    while (!step.is(WorkStep::last)) {
      receive_step();
      take_turn();
      pass_turn();
      pass_over();
    }
    q_cursor.next();

    if constexpr (C::q_buffers == 2) {
      // The next query tile's first product runs while this one's output is stored. It is issued
      // behind the last query tile, too, of what lies in shared memory: with a way around it ptxas
      // would run all products of the kernel one after another.
      receive_step();
      begin_tile();
      if constexpr (C::ends_under_next) {
        ptx::wgmma_wait<1>(o[0]);
        release_v();
      }
      store();
      ptx::wgmma_wait<0>(s[0]);
      if (step.is(WorkStep::end)) return;
    } else {
      store();
      receive_step();
      if (step.is(WorkStep::end)) return;
      begin_tile();
      ptx::wgmma_wait<0>(s[0]);
    }
  }
}

/// Grid: at most blocks_per_sm blocks a multiprocessor, at most schedule.tiles(). Dynamic shared
/// memory: PrefillSm90a::shared_bytes.
template <class Attention, Family Size>
static __global__ void __launch_bounds__(PrefillSm90a<Attention, Size>::threads,
                                         PrefillSm90a<Attention, Size>::tile_shape.blocks_per_sm)
    prefill_sm90a(const __grid_constant__ PrefillSm90aParams<Attention> params) {
#if STROBE_HAS_SM90A
  using C = PrefillSm90a<Attention, Size>;
  STROBE_DYNAMIC_SHARED(shared_memory);
  if (threadIdx.x == 0) {
    const PrefillShared<C> shared(shared_memory);
    const auto init = [](uint32_t full, int producers, uint32_t empty, int consumers, int stages) {
      for (int stage = 0; stage < stages; ++stage) {
        ptx::mbarrier_init(full + 8 * stage, producers);
        ptx::mbarrier_init(empty + 8 * stage, consumers);
      }
    };
    init(shared.q_full, 1, shared.q_empty, 128 * C::consumers, C::q_buffers);
    init(shared.k_full, C::ramps ? 2 : 1, shared.k_empty, 4 * C::consumers, C::k_stages);
    init(shared.v_full, 1, shared.v_empty, 4 * C::consumers, C::v_stages);
    ptx::mbarrier_fence_init();
  }
  if constexpr (C::ramps) {
    const PrefillShared<C> shared(shared_memory);
    for (int i = int(threadIdx.x); i < C::block_kv; i += C::threads)
      shared.control.ramp_keys[i] = warp::Ramp<typename C::T>::key_row(i);
    if (threadIdx.x < 8) shared.control.ramp[0][threadIdx.x] = make_uint4(0, 0, 0, 0);
    ptx::fence_proxy_async();
  }
  __syncthreads();
  const int warpgroup = __shfl_sync(0xffffffffu, int(threadIdx.x) / 128, 0);
  if (warpgroup == 0) {
    ptx::fewer_registers<C::producer_registers>();
    if (threadIdx.x < 32) produce_sm90a<C>(params, shared_memory);
  } else {
    ptx::more_registers<C::consumer_registers>();
    consume_sm90a<C>(params, shared_memory, warpgroup - 1);
  }
#else
  __trap();  // never launched: the host entry looks at what was compiled before it launches
#endif
}

}  // namespace kernel
}  // namespace STROBE_ABI
}  // namespace strobe
