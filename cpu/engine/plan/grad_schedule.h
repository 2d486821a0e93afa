// Division of the gradient. A work item is one chunk of queries against one chunk of keys of a
// pair. Work items are listed in rounds: in round s, key chunk k meets query chunk (k + 1 + s) mod
// L. No two work items of a round share a chunk, and a work item waits for those before it in the
// list with which it does. So every dQ, dK and dV row is added to in an order fixed by shapes, and
// neither atomic sums nor a second pass over the scores are needed. Under a causal mask the round
// before the last is one work item, of the first key chunk and the last query chunk, with which the
// last round, the diagonal, therefore begins in its middle; its work items are short and fill the
// end.
//
// Split-Q: where a call has few chunks of keys, every n-th query chunk accumulates into its own
// partial dK and dV, and the partials are reduced at the end. A chunk of keys then counts once per
// partial. Most rows of a selection have block 0, so its keys get more partials.
//
// Where queries see few keys, rows being lanes of tiles, a work item is a chunk of queries against
// all its keys: dQ of a tile of rows is then complete in cache, and written. dK and dV are summed
// in slots, of which a chunk has one, alone or with others; their work items take turns as those of
// a key chunk.
//
// dQ of 16 bits is summed in scratch, which of long sequences would be twice as large as dQ itself:
// their queries come in ranges, one after the other, which use the same accumulators.
#pragma once

#include "cpu/engine/plan/attention_plan.h"
#include "cpu/engine/threads/team.h"

namespace nsa::cpu {

// Accumulators of a range of queries, in floats, and its chunks, at least: as many work items of a
// round.
constexpr int64_t kRangeFloats = 8 << 20;
constexpr int64_t kRangeChunks = 16;

namespace {

// Whether the queries of a segment come in several ranges: where that spares half.
inline bool in_ranges(const AttentionPlan& plan, int64_t q_len) {
  return plan.dtype != ElemType::kFloat32 && q_len * plan.G * plan.D > 2 * kRangeFloats;
}

// Queries of a chunk of which a range holds kRangeChunks, a whole number of times `multiple`, or
// `largest`.
inline int64_t range_chunk(const AttentionPlan& plan, int64_t q_len, int64_t multiple,
                           int64_t largest) {
  if (!in_ranges(plan, q_len)) return largest;
  const int64_t queries = kRangeFloats / (kRangeChunks * plan.G * plan.D);
  return min64(largest, max64(multiple, queries / multiple * multiple));
}

}  // namespace

// How the keys of a pair are divided.
struct KeyChunks {
  int64_t kv_chunk, kv_chunks;   // keys of a chunk, and how many; one counts once per partial
  int64_t num_partials;          // query partitions, each with its own dK and dV
  int64_t first_block_partials;  // those of the first keys, one chunk each
  int64_t first_block_keys;      // how many keys those are

  // Chunk of keys and partial of number `kv_chunk`.
  int64_t chunk_of_keys(int64_t kv_chunk) const {
    return max64(0, kv_chunk - first_block_partials) / num_partials;
  }
  int64_t partial(int64_t kv_chunk) const {
    return kv_chunk < first_block_partials ? kv_chunk
                                           : (kv_chunk - first_block_partials) % num_partials;
  }
  // Whether a query chunk accumulates into the partial of a key chunk.
  bool sums_to(int64_t q_chunk, int64_t kv_chunk) const {
    return q_chunk % (kv_chunk < first_block_partials ? first_block_partials : num_partials) ==
           partial(kv_chunk);
  }
  // Keys of FirstBlockSums.
  int64_t first_block_rows() const {
    return first_block_partials > 0 ? (first_block_partials - num_partials) * first_block_keys : 0;
  }
};

// The chunks of a pair in the list of work items.
struct WorkItemChunks {
  int64_t range_chunks;     // chunks of queries of a range
  int64_t first_key_chunk;  // sum of kv_chunks before it in its wave
  int64_t first_slot;       // sum of range_chunks before it in its wave
};

// Accumulators: the outputs themselves in fp32, but for several partials, otherwise scratch.
// Row 0, first head of the group. Partial n + 1 follows the keys of partial n.
struct GradSums {
  float *dq, *dk, *dv;
  RowStrides dq_strides;  // between queries, between heads of the group
  int64_t dk_row, dv_row;
};

// Per-row inputs of P and dS.
struct RowStatistics {
  float* delta;  // [q_len, G] row_delta()
  // In 16-row tiles, of all rows next to each other: [q_len, G] the maximum, and 1 / sum.
  float *max, *inv;
};

// Extra partial sums of the first keys: [first_block_partials - num_partials, first_block_keys, D],
// and Dv.
struct FirstBlockSums {
  float *first_block_dk, *first_block_dv;
};

// Where a work item has all keys: slots, of as many keys at most. dk is [slots, slot_keys, D], dv
// [slots, slot_keys, Dv].
struct KeySlots {
  int64_t slots, slot_keys;

  bool whole() const { return slots > 0; }
};

struct GradPair : ChunkedPair,
                  KeyChunks,
                  WorkItemChunks,
                  GradSums,
                  RowStatistics,
                  FirstBlockSums,
                  KeySlots {
  int64_t ranges() const { return max64(1, ceil_div(q_chunks, range_chunks)); }
  int64_t range_queries() const { return range_chunks * q_chunk; }
  int64_t rounds() const { return max64(range_chunks, kv_chunks); }  // of a range
  // Where dq of query i begins.
  int64_t dq_row(int64_t i) const { return i % range_queries() * dq_strides.row; }

  void set_ranges(const AttentionPlan& plan, int64_t q_len) {
    range_chunks = max64(1, q_chunks);
    const int64_t query = plan.G * plan.D, chunks = kRangeFloats / (q_chunk * query);
    // Chunks that are short anyway, where it spares half.
    const bool halves = plan.dtype != ElemType::kFloat32 && chunks >= kRangeChunks &&
                        q_len * query >= 2 * kRangeFloats;
    if (!halves && !in_ranges(plan, q_len)) return;
    range_chunks = min64(range_chunks, max64(chunks, kRangeChunks));
  }
  // Floats of its accumulators where those are scratch.
  int64_t accumulators(const AttentionPlan& plan, const Segment& seg) const {
    if (whole()) return sum_rows(seg) * (plan.D + plan.Dv);
    const bool floats = plan.dtype == ElemType::kFloat32;
    const int64_t dq = floats ? 0 : dq_queries(seg) * plan.G * plan.D;
    const int64_t keys = (floats && num_partials == 1 ? 0 : sum_rows(seg)) + first_block_rows();
    return dq + keys * (plan.D + plan.Dv);
  }
  // Keys of dk.
  int64_t sum_rows(const Segment& seg) const {
    return whole() ? slots * slot_keys : num_partials * seg.kv_len;
  }
  // Points dk and dv to the partial of a chunk of keys. Not inlined, it would be a
  // weak symbol, of which the linker takes that of any instruction set for all.
  [[gnu::always_inline]] void for_partial(const AttentionPlan& plan, int64_t kv_chunk) {
    const int64_t at = partial(kv_chunk), more = at - num_partials,
                  keys = plan.segments[segment].kv_len;
    if (more < 0) {
      dk += at * keys * dk_row;
      dv += at * keys * dv_row;
      return;
    }
    dk_row = plan.D;
    dv_row = plan.Dv;
    dk = first_block_dk + more * first_block_keys * dk_row;
    dv = first_block_dv + more * first_block_keys * dv_row;
  }
  // Queries whose dq is accumulated at a time, whole 16-row tiles of them.
  int64_t dq_queries(const Segment& seg) const {
    return min64(round_up(seg.q_len, kGradTile16), range_queries());
  }
};

// The keys of a slot, whole KV blocks of them: those that its chunks of queries see.
struct SlotKeys {
  int64_t first, past;

  // Always inlined: a copy that an instruction set's translation unit shares could be linked in for
  // others.
  [[gnu::always_inline]] SlotKeys(const Segment& seg, const GradPair& pair, int64_t slot) {
    const int64_t chunk = slot + (pair.q_chunks - 1 - slot) / pair.slots * pair.slots;
    const int64_t query = min64((chunk + 1) * pair.q_chunk, seg.q_len) - 1;
    first = seg.range.lo(slot * pair.q_chunk) / kKvBlockKeys * kKvBlockKeys;
    past = max64(first, round_up(seg.range.hi(query), kKvBlockKeys));
  }
};

struct GradWave {
  const GradPair* pairs;
  int64_t num_pairs;
  int64_t key_chunks;  // of all pairs
  int64_t slots;       // query chunks of a range of all pairs
  int64_t rounds;
};

// The work items that a chunk meets take its turns in the order of the list.
struct Ticket {
  int32_t given;
  int32_t done;
};

// A work item of a range.
struct WorkItem {
  int64_t pair, in_range, q_chunk, kv_chunk;  // in_range: of q_chunk
  int32_t query_ticket, key_ticket;
};

// Work items of the list that wait for others while later ones run: enough for as many threads.
constexpr int64_t kWaitingWorkItems = 128;

// The place in the list of a range's work items, of all threads.
struct WorkCursor {
  int32_t locked;
  int64_t round, pair, at;  // at: which of the pair's work items in the round
  int64_t waiting;          // work items before it that have not begun
  int64_t ended;            // work items that have been done
};

struct GradScratch {
  bool* finite;  // [KV blocks] the keys are all finite
  // Where dq is not accumulated in 16-row tiles.
  float* keys_t;    // [KV blocks, words(D), lanes]
  float* values_t;  // [KV blocks, words(Dv), lanes]
  float* keys;      // [KV blocks, words(lanes), D padded], of words of two
  // Where scores are as bf16x3.
  float* key_bf16x3;  // [KV blocks, 3 D / 2, kKvBlockKeys]
  bool* small;        // [KV blocks] bf16x3 terms stand for the keys
  // Where it is: keys and values as rows of words, and the words of `keys` transposed.
  float* key_rows;     // [KV blocks, lanes, words(D) padded]
  float* value_rows;   // [KV blocks, lanes, words(Dv) padded]
  float* key_words_t;  // [KV blocks, D, lanes / 2], or of two KV blocks [D, lanes]
  WorkCursor* cursor;
  Ticket* tickets;    // [key_chunks + slots] of a wave
  WorkItem* waiting;  // [kWaitingWorkItems]
  char* threads;
  int64_t thread_size;
};

namespace {

// The work items of a chunk of queries or of keys run in the order of the list; others need not.
// Whoever is free takes the first work item of the list that waits for none before it, out of those
// that are next.

template <class WaveType>
inline Ticket& query_ticket(const WaveType& wave, const GradScratch& s, const WorkItem& u) {
  return s.tickets[wave.key_chunks + wave.pairs[u.pair].first_slot + u.in_range];
}
template <class WaveType>
inline Ticket& key_ticket(const WaveType& wave, const GradScratch& s, const WorkItem& u) {
  return s.tickets[wave.pairs[u.pair].first_key_chunk + u.kv_chunk];
}

// Before the work items of a range, by one thread.
template <class WaveType>
inline void begin_work_items(const WaveType& wave, const GradScratch& s) {
  *s.cursor = {};
  for (int64_t n = 0; n < wave.key_chunks + wave.slots; ++n) s.tickets[n] = {};
}

// The chunks of the work item at the cursor, which goes on to the next place. False: the list is
// over.
template <class WaveType>
inline bool advance(const WaveType& wave, int64_t range, WorkCursor& c, WorkItem& u) {
  for (; c.round < wave.rounds; ++c.round, c.pair = 0) {
    for (; c.pair < wave.num_pairs; ++c.pair, c.at = 0) {
      const GradPair& pair = wave.pairs[c.pair];
      const int64_t rounds = pair.rounds(), chunks = min64(pair.range_chunks, pair.kv_chunks);
      if (c.round >= rounds || c.at >= chunks) continue;
      // The chunks of the kind of which there are fewer have a work item each.
      const int64_t at = (c.at + 1) % chunks, away = rounds - 1 - c.round;
      const int64_t other = at + (pair.range_chunks <= pair.kv_chunks ? away : rounds - away);
      u.pair = c.pair;
      u.in_range = pair.range_chunks <= pair.kv_chunks ? at : other % rounds;
      u.kv_chunk = pair.range_chunks <= pair.kv_chunks ? other % rounds : at;
      u.q_chunk = range * pair.range_chunks + u.in_range;
      ++c.at;
      return true;
    }
  }
  return false;
}

// The next work item of the list whose chunks meet(pair, query chunk, key chunk), with its turns.
// False: the list is over.
template <class WaveType, class Meet>
inline bool next_work_item(const WaveType& wave, const GradScratch& s, int64_t range,
                           const Meet& meet, WorkItem& u) {
  while (advance(wave, range, *s.cursor, u)) {
    const auto& pair = wave.pairs[u.pair];
    if (u.q_chunk >= pair.q_chunks || !meet(pair, u.q_chunk, u.kv_chunk)) continue;
    u.query_ticket = query_ticket(wave, s, u).given++;
    u.key_ticket = key_ticket(wave, s, u).given++;
    return true;
  }
  return false;
}

// Whether all work items before it that share its queries or its keys are done.
template <class WaveType>
inline bool ready(const WaveType& wave, const GradScratch& s, const WorkItem& u) {
  const auto done = [](const Ticket& t) { return __atomic_load_n(&t.done, __ATOMIC_ACQUIRE); };
  return done(query_ticket(wave, s, u)) == u.query_ticket &&
         done(key_ticket(wave, s, u)) == u.key_ticket;
}

enum class Taken { kWorkItem, kNothingYet, kOver };

// A work item that may run. The first of those that wait may, once the running ones are done.
template <class WaveType, class Meet>
inline Taken take_work_item(const WaveType& wave, const GradScratch& s, int64_t range,
                            const Meet& meet, WorkItem& u) {
  WorkCursor& cursor = *s.cursor;
  for (int64_t n = 0; n < cursor.waiting; ++n) {
    if (!ready(wave, s, s.waiting[n])) continue;
    u = s.waiting[n];
    --cursor.waiting;
    for (; n < cursor.waiting; ++n) s.waiting[n] = s.waiting[n + 1];
    return Taken::kWorkItem;
  }
  while (cursor.waiting < kWaitingWorkItems && next_work_item(wave, s, range, meet, u)) {
    if (ready(wave, s, u)) return Taken::kWorkItem;
    s.waiting[cursor.waiting++] = u;
  }
  return cursor.waiting > 0 ? Taken::kNothingYet : Taken::kOver;
}

// run(pair, query chunk, key chunk) for all work items of a range; called by all threads.
template <class WaveType, class Meet, class Run>
inline void run_work_items(const WaveType& wave, const GradScratch& s, int64_t range,
                           const Meet& meet, const Run& run) {
  WorkCursor& cursor = *s.cursor;
  for (int spins = 0;;) {
    if (__atomic_exchange_n(&cursor.locked, 1, __ATOMIC_ACQUIRE) != 0) {
      wait_turn(spins);
      continue;
    }
    // Before looking: what ends after it is looked for once more.
    const int64_t ended = __atomic_load_n(&cursor.ended, __ATOMIC_ACQUIRE);
    WorkItem u;
    const Taken taken = take_work_item(wave, s, range, meet, u);
    __atomic_store_n(&cursor.locked, 0, __ATOMIC_RELEASE);
    spins = 0;
    if (taken == Taken::kOver) return;
    if (taken == Taken::kNothingYet) {
      while (__atomic_load_n(&cursor.ended, __ATOMIC_ACQUIRE) == ended) wait_turn(spins);
      continue;
    }
    run(wave.pairs[u.pair], u.q_chunk, u.kv_chunk);
    __atomic_fetch_add(&query_ticket(wave, s, u).done, 1, __ATOMIC_RELEASE);
    __atomic_fetch_add(&key_ticket(wave, s, u).done, 1, __ATOMIC_RELEASE);
    __atomic_fetch_add(&cursor.ended, int64_t{1}, __ATOMIC_RELEASE);
  }
}

}  // namespace
}  // namespace nsa::cpu
