// SPDX-License-Identifier: MIT
// What the ptx/ wrappers and the CUDA built-ins call when a kernel runs on the CPU: one fiber a
// CUDA thread, many fibers an OS thread. Users want execution.hpp; this is its inside, implemented
// in src/*.cpp.
// Layer: host execution. Every operation that can be misused takes the Site of its caller.
#pragma once

#include <vector_types.h>

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "site.hpp"

// Staging of operands is the runtime's own business: under -fsanitize=thread, which instruments
// kernels for the race checker, it is left alone.
#if defined(__SANITIZE_THREAD__)
#define STROBE_HOST_UNCHECKED __attribute__((no_sanitize("thread")))
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define STROBE_HOST_UNCHECKED __attribute__((no_sanitize("thread")))
#endif
#endif
#if !defined(STROBE_HOST_UNCHECKED)
#define STROBE_HOST_UNCHECKED
#endif

namespace strobe {
inline namespace STROBE_ABI {
namespace host {

enum class Element { f16, bf16 };
enum class Ordering { relaxed, acquire, release, acq_rel };

// Where the lanes of a warp leave operands and find results. A lane only writes its own slots,
// before it arrives at the collective, and only reads results after it; so no slot is overwritten
// before its lane has read it. Laid out so that a fragment register of the whole warp is an 8x8
// matrix in row-major order (mma.cuh has the table): the arithmetic reads matrices, not lanes.
struct alignas(64) WarpExchange {
  uint32_t a[4][32];       // mma: registers of A
  uint32_t b[2][32];       // mma: registers of B
  float d_upper[32][2];    // mma: d[0], d[1]: rows 0..7 of D
  float d_lower[32][2];    // mma: d[2], d[3]: rows 8..15
  uint32_t address[32];    // ldmatrix, stmatrix
  uint32_t matrix[4][32];  // ldmatrix, stmatrix
  uint64_t value[32];      // shuffles, votes: what each lane gives
  uint64_t gathered[32];   // shuffles, votes: what all lanes of the mask gave
};

// What the built-ins need to know of the running thread.
struct Thread {
  WarpExchange* exchange;  // of its warp
  unsigned char* shared;   // the block's dynamic shared memory, 1024-byte aligned
  uint32_t linear;         // in the block
  uint32_t lane;
  uint32_t warp;
  uint3 thread_index;
  uint3 block_index;
  dim3 block_dim;
  dim3 grid_dim;
};

// The running thread, null outside a kernel. __thread: no initialisation check at each use.
extern __thread Thread* current;

inline unsigned char* dynamic_shared() { return current->shared; }

// Fails the launch: `launch` returns cudaErrorLaunchFailure and failure() has the text. Does not
// return.
[[noreturn]] void fail(const char* what, Site site);

// Lets other threads run. `yield` in a loop that nobody can end is reported as a deadlock;
// note_progress says that memory has changed, so that a spinning thread may find its condition
// true.
void yield(Site site);
void note_progress();

// ---- shared memory (src/memory.cpp) -------------------------------------------------------------
uint32_t shared_address(const void* pointer, Site site);

// ---- barriers (src/barrier.cpp) -----------------------------------------------------------------
// All threads of the block; returns how many came with predicate != 0.
int block_barrier(int predicate, const char* name, Site site);
void named_barrier(int id, int threads, bool wait, Site site);

// ---- warp collectives (src/warp.cpp) ------------------------------------------------------------
void warp_barrier(uint32_t mask, Site site);
// What each lane of the mask gave. Valid until the calling lane's next collective.
const uint64_t* gather(uint32_t mask, uint64_t value, const char* name, Site site);
void check_source_lane(uint32_t mask, uint32_t source, const char* name, Site site);

// ---- matrices (src/matrix.cpp) ------------------------------------------------------------------
// Operands and results pass through current->exchange.
void exchange_load_matrices(int count, bool transposed, Site site);
void exchange_store_matrices(int count, bool transposed, Site site);
void exchange_mma_m16n8k16(Element type, Site site);

template <int Count, bool Transposed>
STROBE_HOST_UNCHECKED inline void load_matrices(uint32_t (&r)[Count], uint32_t address, Site site) {
  const Thread& self = *current;
  self.exchange->address[self.lane] = address;
  exchange_load_matrices(Count, Transposed, site);
  for (int m = 0; m < Count; ++m) r[m] = self.exchange->matrix[m][self.lane];
}

template <int Count, bool Transposed>
STROBE_HOST_UNCHECKED inline void store_matrices(uint32_t address, const uint32_t (&r)[Count],
                                                 Site site) {
  const Thread& self = *current;
  self.exchange->address[self.lane] = address;
  for (int m = 0; m < Count; ++m) self.exchange->matrix[m][self.lane] = r[m];
  exchange_store_matrices(Count, Transposed, site);
}

STROBE_HOST_UNCHECKED inline void mma_m16n8k16(Element type, float (&d)[4], const uint32_t (&a)[4],
                                               uint32_t b0, uint32_t b1, Site site) {
  const Thread& self = *current;
  WarpExchange& x = *self.exchange;
  const uint32_t lane = self.lane;
  for (int i = 0; i < 4; ++i) x.a[i][lane] = a[i];
  x.b[0][lane] = b0;
  x.b[1][lane] = b1;
  x.d_upper[lane][0] = d[0];
  x.d_upper[lane][1] = d[1];
  x.d_lower[lane][0] = d[2];
  x.d_lower[lane][1] = d[3];
  exchange_mma_m16n8k16(type, site);
  d[0] = x.d_upper[lane][0];
  d[1] = x.d_upper[lane][1];
  d[2] = x.d_lower[lane][0];
  d[3] = x.d_lower[lane][1];
}

// ---- asynchronous copies (src/async_copy.cpp) ---------------------------------------------------
// `source_bytes` of the `bytes` come from global memory, the rest are zero.
void cp_async(uint32_t dst_smem, const void* src_gmem, uint32_t bytes, uint32_t source_bytes,
              Site site);
void cp_async_commit();
void cp_async_wait(int newest);

// ---- Hopper: barriers in shared memory (src/mbarrier.cpp)
// ----------------------------------------
void mbarrier_init(uint32_t barrier_smem, uint32_t arrivals, Site site);
void mbarrier_fence_init();
void mbarrier_arrive(uint32_t barrier_smem, Site site);
void mbarrier_arrive_expect(uint32_t barrier_smem, uint32_t bytes, Site site);
void mbarrier_wait(uint32_t barrier_smem, uint32_t parity, Site site);

// ---- Hopper: copies of tiles (src/tma.cpp)
// ------------------------------------------------------- Elements have 16 bits, the box's rows at
// most 128 bytes; the shared side has the 128-byte swizzle. `map` points to what encode_tensor_map
// made. Extents, strides (of dimensions 1, 2, ..) and box as for cuTensorMapEncodeTiled; false
// where that would refuse them.
bool encode_tensor_map(void* map, size_t map_bytes, const void* base, int rank,
                       const uint64_t* extents, const uint64_t* strides_bytes, const uint32_t* box);
void tma_load(uint32_t dst_smem, const void* map, const int* at, int rank, uint32_t barrier_smem,
              Site site);
void tma_leave_out(uint32_t dst_smem, uint32_t bytes, uint32_t barrier_smem, Site site);
void tma_store(const void* map, const int* at, int rank, uint32_t src_smem, Site site);
void tma_store_commit();
void tma_store_wait_read(int newest);
void fence_proxy_async();

// ---- Hopper: products of warpgroups (src/wgmma.cpp)
// ---------------------------------------------- d: the n / 2 accumulators of the calling lane,
// which hold NaN patterns from here until the wait. a_registers: 4 words of the lane, or null, and
// then A is where a_descriptor says.
void wgmma_fence(Site site);
void wgmma(Element type, float* d, int n, const uint32_t* a_registers, uint64_t a_descriptor,
           uint64_t b_descriptor, bool accumulate, bool rows_along_sum, Site site);
void wgmma_commit(Site site);
void wgmma_wait(int newest, Site site);

// ---- atomics and fences (src/atomic.cpp) --------------------------------------------------------
enum class AtomicKind { load, store, update };
void before_atomic(const void* pointer, size_t bytes, AtomicKind kind, Ordering ordering,
                   Site site);
void memory_fence();  // __threadfence

// Atomically replaces *pointer by change(old) and returns old. Really atomic: blocks may run on
// several OS threads.
template <class T, class Change>
STROBE_HOST_UNCHECKED inline T atomic_update(T* pointer, Change change, Ordering ordering,
                                             Site site) {
  before_atomic(pointer, sizeof(T), AtomicKind::update, ordering, site);
  T old, next;
  __atomic_load(pointer, &old, __ATOMIC_SEQ_CST);
  do {
    next = change(old);
  } while (
      !__atomic_compare_exchange(pointer, &old, &next, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST));
  if (std::memcmp(&old, &next, sizeof(T)) != 0) note_progress();
  return old;
}

template <class T>
STROBE_HOST_UNCHECKED inline T atomic_load(const T* pointer, Ordering ordering, Site site) {
  before_atomic(pointer, sizeof(T), AtomicKind::load, ordering, site);
  T value;
  __atomic_load(pointer, &value, __ATOMIC_SEQ_CST);
  return value;
}

template <class T>
STROBE_HOST_UNCHECKED inline void atomic_store(T* pointer, T value, Ordering ordering, Site site) {
  before_atomic(pointer, sizeof(T), AtomicKind::store, ordering, site);
  __atomic_store(pointer, &value, __ATOMIC_SEQ_CST);
  note_progress();
}

// ---- values -------------------------------------------------------------------------------------
template <class T>
inline uint32_t bits_of(const T& value) {
  static_assert(sizeof(T) == 4, "a 32-bit value");
  uint32_t bits;
  std::memcpy(&bits, &value, 4);
  return bits;
}

// What .ftz does to operands and results: a subnormal becomes a zero of its sign.
inline float flush_subnormal(float x) { return (bits_of(x) & 0x7f800000u) == 0 ? x * 0.0f : x; }

}  // namespace host
}  // namespace STROBE_ABI
}  // namespace strobe
