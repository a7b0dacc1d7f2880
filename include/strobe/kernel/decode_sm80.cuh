// SPDX-License-Identifier: MIT
// Decode with mma.sync and cp.async, for compute capability 8.0 and newer: few query rows a
// sequence, so the kernel is a way to read K and V once and fast. Layer: kernel. Sources:
// Flash-Decoding (Dao, Haziza, Massa, Sizov, 2023) for the split over keys; the packing of a
// group's query heads into the rows of one product is FlashInfer's and FlashAttention-3's.
//
// One block owns up to 16 or 64 packed rows (row = token * group + head of the group) of one KV
// head, and one part of the keys. Its four warps stand in RowWarps x KeyWarps: with 16 rows each
// warp walks keys of its own, with 64 each owns 16 rows and all four share the key tiles. The warps
// that share tiles are a "team" with a ring of slots in shared memory, filled in the order K0 V0 K1
// V1 ..: while one slot is multiplied, the others are on their way.
//
//   part of the keys --> teams --> (m, l, O) of each team in shared memory --folded--> output, or a
//   partial in the workspace last block of the row group to arrive: folds the partials in the order
//   of the parts --> output
#pragma once

#include "../attention.hpp"
#include "../ptx/atomic.cuh"
#include "../ptx/barrier.cuh"
#include "../ptx/shared.cuh"
#include "../schedule.hpp"
#include "../state.cuh"
#include "../tile/load.cuh"
#include "../warp_sm80.cuh"

namespace strobe {
inline namespace STROBE_ABI {
namespace kernel {

template <class Attention>
struct DecodeParams {
  Attention attention;
  DecodeSchedule schedule;
  float scale;
  uint32_t* arrivals;  ///< schedule.counters a row group, 0 before and after every call
  float* partials;     ///< [row group][part or chunk][row][value_dim + 2]; see state.cuh
};

/// Compile-time numbers. Shared memory: Q, then the teams' rings; the states take the rings' place
/// at the end.
template <class Attention, int RowWarps>
struct DecodeSm80 {
  using T = typename Attention::query_type;
  static constexpr int head_dim = Attention::compiled_head_dim;
  static constexpr int value_dim = Attention::compiled_value_dim;
  static constexpr DecodeTile tile =
      Attention::policy_type::decode(Family::sm80, head_dim, value_dim);
  static constexpr int chunk = Attention::policy_type::reduction.chunk;
  static constexpr int row_warps = RowWarps;
  static constexpr int teams = 4 / RowWarps;
  static constexpr int team_threads = 32 * RowWarps;
  static constexpr int threads = 128;
  static constexpr int rows = 16 * RowWarps;
  static constexpr int block_kv = tile.block_kv;
  static constexpr int slots = tile.slots;
  static constexpr int row_tiles = 1;
  static constexpr int key_tiles = block_kv / 8;
  static constexpr int value_tiles = value_dim / 8;
  static constexpr int q_bytes = rows * head_dim * 2;
  static constexpr int slot_bytes = block_kv * (head_dim > value_dim ? head_dim : value_dim) * 2;
  static constexpr int ring_bytes = teams * slots * slot_bytes;
  static constexpr int state_bytes = 64 * state_floats(value_dim) * 4;
  static constexpr int shared_bytes =
      q_bytes + (ring_bytes > state_bytes ? ring_bytes : state_bytes);

  static_assert(RowWarps == 1 || RowWarps == 4, "16 or 64 rows a block");
  static_assert(block_kv % 16 == 0, "a key tile is a multiple of 16");
  static_assert(slots >= 2, "K and V of a tile each take a slot");
  static_assert(chunk % block_kv == 0,
                "Reduction::fixed(keys): keys is a multiple of the key tile");
  static_assert(shared_bytes <= 99 * 1024,
                "sm_86, sm_89 and sm_120 have 99 kB of shared memory a block");
};

/// Grid: schedule.blocks along x. Dynamic shared memory: DecodeSm80::shared_bytes.
template <class Attention, int RowWarps>
static __global__ void __launch_bounds__(128, 3)
    decode_sm80(const __grid_constant__ DecodeParams<Attention> params) {
#if STROBE_HAS_SM80
  using C = DecodeSm80<Attention, RowWarps>;
  using T = typename C::T;
  constexpr bool scores = !tile::is_same<typename Attention::score_type, NoScore>;
  constexpr float log2_e = 1.4426950408889634f;
  constexpr int state_size = state_floats(C::value_dim);

  const Attention& a = params.attention;
  const DecodeSchedule& schedule = params.schedule;
  const DecodeWork work = schedule.work(int(blockIdx.x));
  const Sequence sequence = resolve_sequence(a.bounds, a.lengths, work.batch);
  const int first_row = work.row_block * C::rows;
  const int rows = detail::min_of(sequence.q_len * schedule.group - first_row, C::rows);
  if (rows <= 0) return;
  const int first_token = schedule.by_group(first_row),
            last_token = schedule.by_group(first_row + rows - 1);
  const int offset = sequence.kv_len - sequence.q_len;
  const int first_head = work.kv_head * schedule.group;
  const Block block{work.batch,     first_head,
                    work.kv_head,   {first_token + offset, last_token + 1 + offset},
                    sequence.q_len, sequence.kv_len};
  const auto mask = a.mask.bind(block);

  // What is there to do, and this block's part of it: the same in every block of the row group.
  const TileStep first = next_tile(mask, 0, sequence.kv_len, C::block_kv);
  const DecodeParts parts = schedule.cut(first.valid ? first.begin : sequence.kv_len,
                                         sequence.kv_len, C::block_kv, C::chunk);
  if (work.part >= parts.count) return;
  const Span part = parts.keys(work.part);

  const int thread = int(threadIdx.x), lane = thread % 32, warp_index = thread / 32;
  const int team = warp_index / C::row_warps, team_thread = thread % C::team_threads;
  const int warp_row = warp_index % C::row_warps * 16;
  STROBE_DYNAMIC_SHARED(shared);
  const uint32_t q_smem = ptx::shared_address(shared);
  const uint32_t ring_smem = q_smem + C::q_bytes + team * C::slots * C::slot_bytes;
  float* const states = reinterpret_cast<float*>(shared + C::q_bytes);
  const auto team_sync = [&] {
    if constexpr (C::row_warps == 1) {
      __syncwarp();
    } else {
      __syncthreads();  // one team: all four warps
    }
  };
  const auto token_of = [&](int row) { return schedule.by_group(row); };
  const float scale_log2 =
      scores ? log2_e : (params.scale == 0.f ? 1.f : fabsf(params.scale)) * log2_e;

  // Q, once.
  tile::AsyncLoader<C::rows, C::head_dim, C::threads> load_q(thread, a.head_dim);
  load_q(q_smem, rows, [&](int r) {
    const int token = token_of(first_row + r);
    return a.q.row(sequence.batch, sequence.q_begin + token,
                   first_head + first_row + r - token * schedule.group);
  });
  ptx::cp_async_commit();
  const auto publish_q =
      [&] {  // after this thread's part of Q has arrived; by the whole block, once
        if (!scores && params.scale <= 0.f) warp::apply_sign<C>(shared, params.scale, thread);
        __syncthreads();
      };
  const uint32_t q_cursor = tile::a_cursor<C::head_dim>(q_smem, warp_row, lane);

  // The two rows of this thread: where they stand, and their heads' scores.
  int position[2];
  Block row_block[2] = {block, block};
  for (int h = 0; h < 2; ++h) {
    const int row = first_row + detail::min_of(warp_row + lane / 4 + 8 * h, rows - 1);
    const int token = token_of(row);
    position[h] = token + offset;
    row_block[h].q_head = first_head + row - token * schedule.group;
  }
  const detail::BoundOf<typename Attention::score_type> score[2] = {a.score.bind(row_block[0]),
                                                                    a.score.bind(row_block[1])};
  const auto kv = a.kv.bind(sequence, work.kv_head);
  using Kv = decltype(kv);
  static_assert(!Kv::has_pages || C::block_kv <= 32, "a lane keeps one key's page");
  const tile::AsyncLoader<C::block_kv, C::head_dim, C::team_threads> load_k(team_thread,
                                                                            a.head_dim);
  const tile::AsyncLoader<C::block_kv, C::value_dim, C::team_threads> load_v(team_thread,
                                                                             a.value_dim);

  // Sums up this team's tiles of `keys`, every `sharers`-th from the `share`-th on, and leaves the
  // state of this warp's 16 rows at `state`. Teams take turns by tiles and not by stretches: the
  // block then reads one stretch of memory, not four.
  const auto attend = [&](Span keys, int share, int sharers, float* state) {
    const auto next_in = [&](int k) {
      while (k < keys.end) {
        const TileStep step = next_tile(mask, k, sequence.kv_len, C::block_kv);
        if (!step.valid || step.begin >= keys.end) break;
        const int ahead =
            (share + sharers - (step.begin - keys.begin) / C::block_kv % sharers) % sharers;
        if (ahead == 0) return step;
        k = step.begin + ahead * C::block_kv;
      }
      return TileStep{};
    };
    // Pages: lane i looks up where key i of the next tile lies, one tile ahead, works out its rows'
    // addresses once, and hands them to the lanes that copy them. What waits for the table then is
    // not what waits for the keys.
    const auto key_of = [&](const TileStep& tile_step) {
      return detail::min_of(tile_step.begin + lane % C::block_kv, sequence.kv_len - 1);
    };
    const auto pages_of = [&](const TileStep& tile_step) {
      if constexpr (!Kv::has_pages) return 0;
      return tile_step.valid ? kv.page(key_of(tile_step)) : 0;
    };
    const auto from_lane = [](const T* row, int r) {
      return reinterpret_cast<const T*>(__shfl_sync(
          0xffffffffu, static_cast<unsigned long long>(reinterpret_cast<uintptr_t>(row)), r));
    };
    const TileStep first_step = next_in(keys.begin);
    TileStep step = first_step, fetch = first_step, fetch_next;
    int pages = pages_of(fetch), next_pages = 0;
    const auto look_ahead = [&] {
      fetch_next = fetch.valid ? next_in(fetch.begin + C::block_kv) : TileStep{};
      next_pages = pages_of(fetch_next);
    };
    look_ahead();
    bool fetch_value = false;
    int fetch_slot = 0, slot = 0;
    const auto advance = [](int s) { return s + 1 == C::slots ? 0 : s + 1; };
    const auto issue =
        [&] {  // the next load of the sequence K0 V0 K1 V1 .. into the slot just freed
          if (fetch.valid) {
            const uint32_t to = ring_smem + fetch_slot * C::slot_bytes;
            const int begin = fetch.begin, count = sequence.kv_len - begin;
            if (fetch_value) {
              if constexpr (Kv::has_pages) {
                const T* const row = kv.v_row(key_of(fetch), pages);
                load_v(to, count, [&](int r) { return from_lane(row, r); });
              } else {
                load_v(to, count, [&](int r) { return kv.v_row(begin + r, 0); });
              }
              fetch = fetch_next;
              pages = next_pages;
              look_ahead();
            } else {
              if constexpr (Kv::has_pages) {
                const T* const row = kv.k_row(key_of(fetch), pages);
                load_k(to, count, [&](int r) { return from_lane(row, r); });
              } else {
                load_k(to, count, [&](int r) { return kv.k_row(begin + r, 0); });
              }
            }
            fetch_value = !fetch_value;
            fetch_slot = advance(fetch_slot);
          }
          ptx::cp_async_commit();  // also when empty: waits count groups
        };
    const auto arrive = [&] {  // the oldest load is whole, for the whole team
      ptx::cp_async_wait<C::slots - 1>();
      team_sync();
      return ring_smem + slot * C::slot_bytes;
    };
    const auto release = [&] {
      team_sync();
      issue();
      slot = advance(slot);
    };

    float o[1][C::value_tiles][4] = {};
    OnlineSoftmax<1> softmax;
    for (int i = 0; i < C::slots; ++i) issue();
    if constexpr (C::chunk == 0) {  // Q, with the first keys already on their way
      ptx::cp_async_wait<C::slots>();
      publish_q();
    }
    for (; step.valid; step = next_in(step.begin + C::block_kv)) {
      float s[1][C::key_tiles][4] = {};
      warp::multiply_qk<C>(s, q_cursor, tile::k_cursor<C::head_dim>(arrive(), lane));
      release();
      if (scores || step.partial)
        warp::shape_logits<C, scores>(
            s, step, sequence.kv_len, params.scale, lane,
            [&](int row, int k) { return mask.visible(position[row], k); },
            [&](int row, float logit, int k) { return score[row](logit, position[row], k); });
      float shrink[1][2];
      if (softmax.raise(s, scale_log2, shrink)) warp::scale_rows<C::value_tiles>(o[0], shrink[0]);
      warp::multiply_pv<C, Attention::policy_type::precision>(
          o, s, softmax, scale_log2, tile::v_cursor<C::value_dim>(arrive(), lane));
      release();
    }
    ptx::cp_async_wait<0>();
    softmax.finish();
    if constexpr (C::chunk == 0)
      __syncthreads();  // every team is done with its ring, whose place the states take
    store_states<C::value_tiles>(state, o[0], softmax, lane);
  };

  // Four columns of each row go to a thread, which folds them over teams or parts.
  const auto for_columns = [&](auto fold_columns) {
    constexpr int quads = C::value_dim / 4;
    for (int i = thread; i < rows * quads; i += C::threads)
      if (4 * (i % quads) < a.value_dim) fold_columns(i / quads, 4 * (i % quads));
  };
  const auto finish = [&](int row, int column, const ColumnState& folded) {
    const int packed = first_row + row, token = token_of(packed),
              head = first_head + packed - token * schedule.group;
    folded.store(
        a.o.row(sequence.batch, sequence.q_begin + token, head),
        a.lse.data == nullptr ? nullptr : a.lse.row(sequence.batch, sequence.q_begin + token, head),
        column);
  };

  const int64_t row_group =
      (int64_t(work.batch) * schedule.kv_heads + work.kv_head) * schedule.row_blocks +
      work.row_block;
  const auto partial_of = [&](int64_t index, int row) {
    return params.partials + ((row_group * schedule.partials + index) * C::rows + row) * state_size;
  };

  if constexpr (C::chunk == 0) {
    // The teams' shares of the part, then one state a row for the block.
    attend(part, team, C::teams, states + (warp_index * 16) * state_size);
    __syncthreads();
    for_columns([&](int row, int column) {
      ColumnState folded;
      folded.fold_in<C::value_dim, C::teams>(states + row * state_size, C::rows * state_size,
                                             C::teams, column);
      if (parts.count == 1) {
        finish(row, column, folded);
      } else {
        folded.store_state<C::value_dim>(partial_of(work.part, row), column);
      }
    });
    if (parts.count == 1) return;
  } else {
    // A partial a chunk, whoever computes it. A team may have none, so Q is waited for before.
    ptx::cp_async_wait<0>();
    publish_q();
    const int first_chunk = part.begin / C::chunk, end_chunk = detail::ceil_div(part.end, C::chunk);
    for (int c = first_chunk + team; c < end_chunk; c += C::teams)
      attend(Span{c * C::chunk, detail::min_of((c + 1) * C::chunk, sequence.kv_len)}, 0, 1,
             partial_of(c, warp_row));
  }

  // Folding the partials. fast: a tree over the parts, `fan` leaves a node; the last block to
  // arrive at a node folds it, keeps the result behind the parts' and goes on to the next level.
  // fixed: one node, all chunks in order.
  constexpr int fan = DecodeSchedule::fan;
  bool* const is_last = reinterpret_cast<bool*>(shared);
  int index = work.part, leaves = parts.count, first_leaf = 0, first_node = 0;
  while (true) {
    const bool root = C::chunk > 0 || leaves <= fan;
    const int node = root ? 0 : index / fan;
    const int arrivals = root ? leaves : detail::min_of(fan, leaves - node * fan);
    __syncthreads();
    if (thread == 0) {
      uint32_t* const counter = params.arrivals + row_group * schedule.counters + first_node + node;
      *is_last = ptx::atomic_inc_acq_rel(counter, uint32_t(arrivals - 1)) == uint32_t(arrivals - 1);
    }
    __syncthreads();
    if (!*is_last) return;
    const int first_partial =
        C::chunk > 0 ? parts.begin / detail::max_of(C::chunk, 1) : first_leaf + node * fan;
    const int count =
        C::chunk > 0
            ? detail::ceil_div(sequence.kv_len, detail::max_of(C::chunk, 1)) - first_partial
            : arrivals;
    for_columns([&](int row, int column) {
      ColumnState folded;
      folded.fold_in<C::value_dim, fan>(partial_of(first_partial, row),
                                        int64_t(C::rows) * state_size, count, column);
      if (root) {
        finish(row, column, folded);
      } else {
        folded.store_state<C::value_dim>(partial_of(schedule.parts + first_node + node, row),
                                         column);
      }
    });
    if (root) return;
    index = node;
    first_leaf = schedule.parts + first_node;
    first_node += detail::ceil_div(leaves, fan);
    leaves = detail::ceil_div(leaves, fan);
  }
#else
  __trap();  // never launched: the host entry looks at what was compiled before it launches
#endif
}

}  // namespace kernel
}  // namespace STROBE_ABI
}  // namespace strobe
