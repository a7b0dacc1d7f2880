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
  static constexpr int warps = 4;
  static constexpr int teams = warps / RowWarps;
  static constexpr int team_threads = 32 * RowWarps;
  static constexpr int threads = 32 * warps;
  static constexpr int rows = 16 * RowWarps;
  static constexpr int block_kv = tile.block_kv;
  static constexpr int slots = tile.slots;
  static constexpr int row_tiles = 1;
  static constexpr int key_tiles = block_kv / 8;
  static constexpr int value_tiles = value_dim / 8;
  static constexpr int q_bytes = rows * head_dim * 2;
  static constexpr int slot_bytes = block_kv * (head_dim > value_dim ? head_dim : value_dim) * 2;
  static constexpr int ring_bytes = teams * slots * slot_bytes;
  static constexpr int state_bytes = 16 * warps * state_floats(value_dim) * 4;
  static constexpr int shared_bytes =
      q_bytes + (ring_bytes > state_bytes ? ring_bytes : state_bytes);
  static constexpr int blocks_per_sm = 3;  ///< what registers are limited for

  static_assert(RowWarps == 1 || RowWarps == 4, "16 or 64 rows a block");
  static_assert(block_kv >= 16 && block_kv % 16 == 0,
                "DecodeTile: block_kv, keys a tile, is a multiple of 16");
  static_assert(slots >= 2, "DecodeTile: K and V of a tile each take one of its slots");
  static_assert(block_kv < 1 || chunk % block_kv == 0,
                "Reduction::fixed(keys): keys is a multiple of the key tile");
  static_assert(shared_bytes <= 99 * 1024,
                "DecodeTile: Q and the slots fit in the 99 kB of shared memory that a block has on "
                "sm_86, sm_89 and sm_120");
};

/// A key tile that a team will work on, in few registers: its first key, a multiple of 16, plus 1
/// if the tile is partial; and, through a page table, the pages this thread has to know.
template <int Pages>
struct WalkedTile {
  static constexpr int none = -1;
  int key = none;
  int page[Pages] = {};
  STROBE_DEVICE bool exists() const { return key != none; }
  STROBE_DEVICE int begin() const { return key & ~1; }
  STROBE_DEVICE bool partial() const { return (key & 1) != 0; }
};

/// Grid: schedule.blocks along x. Dynamic shared memory: DecodeSm80::shared_bytes or more.
template <class Attention, int RowWarps>
static __global__ void __launch_bounds__(DecodeSm80<Attention, RowWarps>::threads,
                                         DecodeSm80<Attention, RowWarps>::blocks_per_sm)
    decode_sm80(const __grid_constant__ DecodeParams<Attention> params) {
#if STROBE_HAS_SM80
  using C = DecodeSm80<Attention, RowWarps>;
  using T = typename C::T;
  constexpr bool scores = !detail::is_same<typename Attention::score_type, NoScore>;
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
  const auto masked = warp::masked_rows<2, detail::looks_up<typename Attention::mask_type>(0)>(
      mask, [&](int row) { return position[row]; });
  const detail::BoundOf<typename Attention::score_type> score[2] = {a.score.bind(row_block[0]),
                                                                    a.score.bind(row_block[1])};
  const auto kv = a.kv.bind(sequence, work.kv_head);
  using Kv = decltype(kv);

  // K and V tiles are copied in runs of 16 keys, of which a thread needs to know one page; smaller
  // pages, and widths that do not divide up, by rows: each lane works out the addresses of its own
  // keys (lane, lane + 32, ..) and hands them to the lanes that copy.
  using KByRuns = tile::RunLoader<C::block_kv, C::head_dim, C::team_threads>;
  using VByRuns = tile::RunLoader<C::block_kv, C::value_dim, C::team_threads>;
  constexpr bool regular = KByRuns::regular && VByRuns::regular;
  constexpr int unroll = regular ? 1 : 64;
  const KByRuns k_by_runs(team_thread, a.head_dim);
  const VByRuns v_by_runs(team_thread, a.value_dim);
  const tile::AsyncLoader<C::block_kv, C::head_dim, C::team_threads, unroll> k_by_rows(team_thread,
                                                                                       a.head_dim);
  const tile::AsyncLoader<C::block_kv, C::value_dim, C::team_threads, unroll> v_by_rows(
      team_thread, a.value_dim);
  const bool in_runs = regular && kv.run() >= KByRuns::run_rows;
  constexpr int lane_keys = detail::ceil_div(C::block_kv, 32);
  using Walked = WalkedTile<lane_keys>;

  // Sums up this team's tiles of `keys`, every `sharers`-th from the `share`-th on, and leaves the
  // state of this warp's 16 rows at `state`. Teams take turns by tiles and not by stretches: the
  // block then reads one stretch of memory, not four.
  const auto attend = [&](Span keys, int share, int sharers, float* state) {
    // Tiles of this team, in order.
    const auto next_in = [&](int k) {
      while (k < keys.end) {
        const TileStep step = next_tile(mask, k, sequence.kv_len, C::block_kv);
        if (!step.valid || step.begin >= keys.end) break;
        const unsigned turn = unsigned(step.begin - keys.begin) / C::block_kv % unsigned(sharers);
        const unsigned ahead = (unsigned(share) + unsigned(sharers) - turn) % unsigned(sharers);
        if (ahead == 0) return step.begin + int(step.partial);
        k = step.begin + int(ahead) * C::block_kv;
      }
      return Walked::none;
    };
    const auto last_key = [&](int k) { return detail::min_of(k, sequence.kv_len - 1); };
    const auto key_of_lane = [&](int begin, int i) {
      return last_key(begin + (32 * i + lane) % C::block_kv);
    };
    // Pages are looked up a tile before an address needs them: what waits for the table then is not
    // what waits for the keys.
    const auto walk = [&](int first_key) {
      Walked walked;
      walked.key = next_in(first_key);
      if (Kv::has_pages && walked.exists()) {
        if (in_runs) {
          walked.page[0] = kv.page(last_key(walked.begin() + k_by_runs.run * KByRuns::run_rows));
        } else {
          STROBE_UNROLL
          for (int i = 0; i < lane_keys; ++i)
            walked.page[i] = kv.page(key_of_lane(walked.begin(), i));
        }
      }
      return walked;
    };
    const auto walk_on = [&](const Walked& walked) {
      return walked.exists() ? walk(walked.begin() + C::block_kv) : walked;
    };

    // Loads go K0 V0 K1 V1 .. into the ring, `slots` of them on their way: load i + slots starts
    // when load i is used up. tiles[0] is being worked on, the others' loads are started or next.
    constexpr int depth = (C::slots + 1) / 2 + (Kv::has_pages ? 2 : 1);
    Walked tiles[depth];
    tiles[0] = walk(keys.begin);
    STROBE_UNROLL
    for (int i = 1; i < depth; ++i) tiles[i] = walk_on(tiles[i - 1]);
    const auto load_tile = [&](const auto& by_runs, const auto& by_rows, uint64_t stride_bytes,
                               const auto& row_of, const Walked& walked, uint32_t to) {
      const int begin = walked.begin(), count = sequence.kv_len - begin;
      if (in_runs) {
        by_runs(to, count, row_of(begin + by_runs.run * KByRuns::run_rows, walked.page[0]),
                stride_bytes);
      } else if constexpr (Kv::has_pages) {
        unsigned long long mine[lane_keys];
        STROBE_UNROLL
        for (int i = 0; i < lane_keys; ++i)
          mine[i] = reinterpret_cast<uintptr_t>(row_of(key_of_lane(begin, i), walked.page[i]));
        by_rows(to, count, [&](int r) {
          unsigned long long row = 0;
          STROBE_UNROLL
          for (int i = 0; i < lane_keys; ++i) {
            const unsigned long long of_lane = __shfl_sync(0xffffffffu, mine[i], r % 32);
            if (r / 32 == i) row = of_lane;
          }
          return reinterpret_cast<const T*>(uintptr_t(row));
        });
      } else {
        by_rows(to, count, [&](int r) { return row_of(begin + r, 0); });
      }
    };
    const auto issue = [&](bool value, const Walked& walked, uint32_t to) {
      const auto k_row = [&](int k, int page) { return kv.k_row(k, page); };
      const auto v_row = [&](int k, int page) { return kv.v_row(k, page); };
      if (walked.exists()) {
        if (value) {
          load_tile(v_by_runs, v_by_rows, kv.v_stride_bytes, v_row, walked, to);
        } else {
          load_tile(k_by_runs, k_by_rows, kv.k_stride_bytes, k_row, walked, to);
        }
      }
      ptx::cp_async_commit();  // also when empty: waits count groups
    };
    uint32_t slot = ring_smem;
    const auto arrive = [&] {  // the oldest load is whole, for the whole team
      ptx::cp_async_wait<C::slots - 1>();
      team_sync();
      return slot;
    };
    const auto release = [&](bool value) {  // K's or V's slot takes the load `slots` further on
      constexpr bool swap = C::slots % 2 == 1;
      team_sync();
      issue(value != swap, tiles[(C::slots + int(value && swap)) / 2], slot);
      slot = slot + C::slot_bytes == ring_smem + C::slots * C::slot_bytes ? ring_smem
                                                                          : slot + C::slot_bytes;
    };

    float o[1][C::value_tiles][4] = {};
    OnlineSoftmax<1> softmax;
    STROBE_UNROLL
    for (int i = 0; i < C::slots; ++i)
      issue(i % 2 == 1, tiles[i / 2], ring_smem + i * C::slot_bytes);
    if constexpr (C::chunk == 0) {  // Q, with the first keys already on their way
      ptx::cp_async_wait<C::slots>();
      publish_q();
    }
    while (tiles[0].exists()) {
      const TileStep step{tiles[0].begin(), tiles[0].partial(), true};
      float s[1][C::key_tiles][4] = {};
      warp::multiply_qk<C>(s, q_cursor, tile::k_cursor<C::head_dim>(arrive(), lane));
      release(false);
      warp::shape_logits<C, scores>(s, step, sequence.kv_len, params.scale, lane, masked,
                                    [&](int row) { return &score[row]; });
      float shrink[1][2];
      if (softmax.raise(s, scale_log2, shrink)) warp::scale_rows<C::value_tiles>(o[0], shrink[0]);
      warp::multiply_pv<C, Attention::policy_type::precision>(
          o, s, softmax, scale_log2, tile::v_cursor<C::value_dim>(arrive(), lane));
      release(true);
      STROBE_UNROLL
      for (int i = 0; i + 1 < depth; ++i) tiles[i] = tiles[i + 1];
      tiles[depth - 1] = walk_on(tiles[depth - 1]);
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
