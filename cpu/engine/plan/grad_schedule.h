// Division of the gradient. A unit is one chunk of queries against one chunk of keys of a pair.
// Units are listed in rounds: in round s, key chunk k meets query chunk (k + 1 + s) mod L. No two
// units of a round share a chunk, and a unit waits for those before it in the list with which it
// does. So every dQ, dK and dV row is added to in an order fixed by shapes, and neither atomic sums
// nor a second pass over the scores are needed. Under a causal mask the round before the last is
// one unit, of the first key chunk and the last query chunk, with which the last round, the
// diagonal, therefore begins in its middle; its units are short and fill the end.
//
// Where a call has few chunks of keys, as with compressed ones, the queries have several shares,
// every n-th chunk of them, each with sums of its own for all keys, which are added up in the end.
// Chunks of keys count once per share then. A selection has block 0 in most rows, whose sums are
// those of more shares.
//
// Where queries see few keys, rows being lanes of tiles, a unit is a chunk of queries against all
// its keys: dQ of a tile of rows is then complete in cache, and written. dK and dV are summed in
// slots, of which a chunk has one, alone or with others; their units take turns as those of a key
// chunk.
//
// dQ of 16 bits is summed in scratch, which of long sequences would be twice as large as dQ itself:
// their queries come in ranges, one after the other, which use the same accumulators.
#pragma once

#include "cpu/engine/plan/plan.h"
#include "cpu/engine/threads/team.h"

namespace nsa::cpu {

// Accumulators of a range of queries, in floats, and its chunks, at least: as many units of a
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
  int64_t kv_chunk, kv_chunks;  // keys of a chunk, and how many; one counts once per share
  int64_t shares;               // of the queries, each with sums of its own for all keys
  int64_t lead;                 // more of them for the first keys: the first chunks, one each
  int64_t lead_keys;            // how many keys those are

  // Chunk of keys and share of number `kv_chunk`.
  int64_t chunk_of_keys(int64_t kv_chunk) const { return max64(0, kv_chunk - lead) / shares; }
  int64_t share(int64_t kv_chunk) const {
    return kv_chunk < lead ? kv_chunk : (kv_chunk - lead) % shares;
  }
  // Whether the queries of a chunk are of the share of a chunk of keys.
  bool shared(int64_t q_chunk, int64_t kv_chunk) const {
    return q_chunk % (kv_chunk < lead ? lead : shares) == share(kv_chunk);
  }
  // Keys of LeadSums.
  int64_t lead_rows() const { return lead > 0 ? (lead - shares) * lead_keys : 0; }
};

// The chunks of a pair in the list of units.
struct UnitChunks {
  int64_t range_chunks;     // chunks of queries of a range
  int64_t first_key_chunk;  // sum of kv_chunks before it in its wave
  int64_t first_slot;       // sum of range_chunks before it in its wave
};

// Accumulators: the outputs themselves in fp32, but for sums of several shares, otherwise scratch.
// Row 0, first head of the group. Those of a share follow the keys of the one before.
struct GradSums {
  float *dq, *dk, *dv;
  RowStrides dq_strides;  // between queries, between heads of the group
  int64_t dk_row, dv_row;
};

// What P and dS are computed with.
struct RowStatistics {
  float* delta;  // [q_len, G] row_delta()
  // In strips, of all rows next to each other: [q_len, G] the maximum, and 1 / sum.
  float *max, *inv;
};

// What shares of the first keys sum beyond those of all keys: [lead - shares, lead_keys, D], Dv.
struct LeadSums {
  float *lead_dk, *lead_dv;
};

// Where a unit has all keys: slots, of as many keys at most. dk is [slots, slot_keys, D], dv
// [slots, slot_keys, Dv].
struct KeySlots {
  int64_t slots, slot_keys;

  bool whole() const { return slots > 0; }
};

struct GradPair : ChunkedPair, KeyChunks, UnitChunks, GradSums, RowStatistics, LeadSums, KeySlots {
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
    const int64_t keys = (floats && shares == 1 ? 0 : sum_rows(seg)) + lead_rows();
    return dq + keys * (plan.D + plan.Dv);
  }
  // Keys of dk.
  int64_t sum_rows(const Segment& seg) const {
    return whole() ? slots * slot_keys : shares * seg.kv_len;
  }
  // Points dk and dv to where the share of a chunk of keys sums them. Not inlined, it would be a
  // weak symbol, of which the linker takes that of any instruction set for all.
  [[gnu::always_inline]] void to_share(const AttentionPlan& plan, int64_t kv_chunk) {
    const int64_t at = share(kv_chunk), more = at - shares, keys = plan.segments[segment].kv_len;
    if (more < 0) {
      dk += at * keys * dk_row;
      dv += at * keys * dv_row;
      return;
    }
    dk_row = plan.D;
    dv_row = plan.Dv;
    dk = lead_dk + more * lead_keys * dk_row;
    dv = lead_dv + more * lead_keys * dv_row;
  }
  // Queries whose dq is accumulated at a time, whole strips of them.
  int64_t dq_queries(const Segment& seg) const {
    return min64(round_up(seg.q_len, kGradStrip), range_queries());
  }
};

// The keys of a slot, whole slabs of them: those that its chunks of queries see.
struct SlotKeys {
  int64_t first, past;

  // Always inlined: a copy that an instruction set's translation unit shares could be linked in for
  // others.
  [[gnu::always_inline]] SlotKeys(const Segment& seg, const GradPair& pair, int64_t slot) {
    const int64_t chunk = slot + (pair.q_chunks - 1 - slot) / pair.slots * pair.slots;
    const int64_t query = min64((chunk + 1) * pair.q_chunk, seg.q_len) - 1;
    first = seg.range.lo(slot * pair.q_chunk) / kSlabKeys * kSlabKeys;
    past = max64(first, round_up(seg.range.hi(query), kSlabKeys));
  }
};

struct GradWave {
  const GradPair* pairs;
  int64_t num_pairs;
  int64_t key_chunks;  // of all pairs
  int64_t slots;       // query chunks of a range of all pairs
  int64_t rounds;
};

// The units that a chunk meets take its turns in the order of the list.
struct Turns {
  int32_t given;
  int32_t done;
};

// A unit of a range.
struct UnitPlace {
  int64_t pair, in_range, q_chunk, kv_chunk;  // in_range: of q_chunk
  int32_t query_turn, key_turn;
};

// Units of the list that wait for others while later ones run: enough for as many threads.
constexpr int64_t kWaitingUnits = 128;

// The place in the list of a range's units, of all threads.
struct UnitCursor {
  int32_t locked;
  int64_t round, pair, at;  // at: which of the pair's units in the round
  int64_t waiting;          // units before it that have not begun
  int64_t ended;            // units that have been done
};

struct GradScratch {
  bool* finite;  // [slabs] the keys hold numbers only
  // Where dq is not accumulated in strips.
  float* keys_t;    // [slabs, words(D), lanes]
  float* values_t;  // [slabs, words(Dv), lanes]
  float* keys;      // [slabs, words(lanes), D padded], of words of two
  // Where scores are in pieces.
  float* key_pieces;  // [slabs, 3 D / 2, kSlabKeys]
  bool* small;        // [slabs] pieces stand for the keys
  // Where it is: keys and values as rows of words, and the words of `keys` transposed.
  float* key_rows;     // [slabs, lanes, words(D) padded]
  float* value_rows;   // [slabs, lanes, words(Dv) padded]
  float* key_words_t;  // [slabs, D, lanes / 2], or of two slabs [D, lanes]
  UnitCursor* cursor;
  Turns* turns;        // [key_chunks + slots] of a wave
  UnitPlace* waiting;  // [kWaitingUnits]
  char* threads;
  int64_t thread_size;
};

namespace {

// The units of a chunk of queries or of keys run in the order of the list; others need not. Whoever
// is free takes the first unit of the list that waits for none before it, out of those that are
// next.

template <class WaveType>
inline Turns& query_turns(const WaveType& wave, const GradScratch& s, const UnitPlace& u) {
  return s.turns[wave.key_chunks + wave.pairs[u.pair].first_slot + u.in_range];
}
template <class WaveType>
inline Turns& key_turns(const WaveType& wave, const GradScratch& s, const UnitPlace& u) {
  return s.turns[wave.pairs[u.pair].first_key_chunk + u.kv_chunk];
}

// Before the units of a range, by one thread.
template <class WaveType>
inline void begin_units(const WaveType& wave, const GradScratch& s) {
  *s.cursor = {};
  for (int64_t n = 0; n < wave.key_chunks + wave.slots; ++n) s.turns[n] = {};
}

// The chunks of the unit at the cursor, which goes on to the next place. False: the list is over.
template <class WaveType>
inline bool advance(const WaveType& wave, int64_t range, UnitCursor& c, UnitPlace& u) {
  for (; c.round < wave.rounds; ++c.round, c.pair = 0) {
    for (; c.pair < wave.num_pairs; ++c.pair, c.at = 0) {
      const GradPair& pair = wave.pairs[c.pair];
      const int64_t rounds = pair.rounds(), chunks = min64(pair.range_chunks, pair.kv_chunks);
      if (c.round >= rounds || c.at >= chunks) continue;
      // The chunks of the kind of which there are fewer have a unit each.
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

// The next unit of the list whose chunks meet(pair, query chunk, key chunk), with its turns. False:
// the list is over.
template <class WaveType, class Meet>
inline bool next_unit(const WaveType& wave, const GradScratch& s, int64_t range, const Meet& meet,
                      UnitPlace& u) {
  while (advance(wave, range, *s.cursor, u)) {
    const auto& pair = wave.pairs[u.pair];
    if (u.q_chunk >= pair.q_chunks || !meet(pair, u.q_chunk, u.kv_chunk)) continue;
    u.query_turn = query_turns(wave, s, u).given++;
    u.key_turn = key_turns(wave, s, u).given++;
    return true;
  }
  return false;
}

// Whether all units before it that share its queries or its keys are done.
template <class WaveType>
inline bool may_run(const WaveType& wave, const GradScratch& s, const UnitPlace& u) {
  const auto done = [](const Turns& t) { return __atomic_load_n(&t.done, __ATOMIC_ACQUIRE); };
  return done(query_turns(wave, s, u)) == u.query_turn && done(key_turns(wave, s, u)) == u.key_turn;
}

enum class Taken { kUnit, kNothingYet, kOver };

// A unit that may run. The first of those that wait may, once the running ones are done.
template <class WaveType, class Meet>
inline Taken take_unit(const WaveType& wave, const GradScratch& s, int64_t range, const Meet& meet,
                       UnitPlace& u) {
  UnitCursor& cursor = *s.cursor;
  for (int64_t n = 0; n < cursor.waiting; ++n) {
    if (!may_run(wave, s, s.waiting[n])) continue;
    u = s.waiting[n];
    --cursor.waiting;
    for (; n < cursor.waiting; ++n) s.waiting[n] = s.waiting[n + 1];
    return Taken::kUnit;
  }
  while (cursor.waiting < kWaitingUnits && next_unit(wave, s, range, meet, u)) {
    if (may_run(wave, s, u)) return Taken::kUnit;
    s.waiting[cursor.waiting++] = u;
  }
  return cursor.waiting > 0 ? Taken::kNothingYet : Taken::kOver;
}

// unit(pair, query chunk, key chunk) for all units of a range; called by all threads.
template <class WaveType, class Meet, class Unit>
inline void run_units(const WaveType& wave, const GradScratch& s, int64_t range, const Meet& meet,
                      const Unit& unit) {
  UnitCursor& cursor = *s.cursor;
  for (int spins = 0;;) {
    if (__atomic_exchange_n(&cursor.locked, 1, __ATOMIC_ACQUIRE) != 0) {
      wait_turn(spins);
      continue;
    }
    // Before looking: what ends after it is looked for once more.
    const int64_t ended = __atomic_load_n(&cursor.ended, __ATOMIC_ACQUIRE);
    UnitPlace u;
    const Taken taken = take_unit(wave, s, range, meet, u);
    __atomic_store_n(&cursor.locked, 0, __ATOMIC_RELEASE);
    spins = 0;
    if (taken == Taken::kOver) return;
    if (taken == Taken::kNothingYet) {
      while (__atomic_load_n(&cursor.ended, __ATOMIC_ACQUIRE) == ended) wait_turn(spins);
      continue;
    }
    unit(wave.pairs[u.pair], u.q_chunk, u.kv_chunk);
    __atomic_fetch_add(&query_turns(wave, s, u).done, 1, __ATOMIC_RELEASE);
    __atomic_fetch_add(&key_turns(wave, s, u).done, 1, __ATOMIC_RELEASE);
    __atomic_fetch_add(&cursor.ended, int64_t{1}, __ATOMIC_RELEASE);
  }
}

}  // namespace
}  // namespace nsa::cpu
