// Hands the units of a gradient to threads. They begin in the order of the list in grad_schedule.h,
// and a unit waits until those before it that share its queries or its keys are done: on units that
// were begun earlier, so some thread always goes on.
#pragma once

#include "cpu/attention/grad_schedule.h"
#include "cpu/simd/pause.h"

namespace nsa::cpu {
namespace {

struct UnitPlace {
  int64_t pair, in_range, q_chunk, kv_chunk;  // in_range: of q_chunk
  int32_t query_turn, key_turn;
};

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
  for (; c.step < wave.steps; ++c.step, c.pair = 0) {
    for (; c.pair < wave.num_pairs; ++c.pair, c.at = 0) {
      const GradPair& pair = wave.pairs[c.pair];
      const int64_t steps = pair.steps(), chunks = min64(pair.range_chunks, pair.kv_chunks);
      if (c.step >= steps || c.at >= chunks) continue;
      // The chunks of the kind of which there are fewer have a unit each.
      const int64_t at = (c.at + 1) % chunks, away = steps - 1 - c.step;
      const int64_t other = at + (pair.range_chunks <= pair.kv_chunks ? away : steps - away);
      u.pair = c.pair;
      u.in_range = pair.range_chunks <= pair.kv_chunks ? at : other % steps;
      u.kv_chunk = pair.range_chunks <= pair.kv_chunks ? other % steps : at;
      u.q_chunk = range * pair.range_chunks + u.in_range;
      ++c.at;
      return true;
    }
  }
  return false;
}

// The next unit whose chunks meet(pair, query chunk, key chunk), with its turns.
template <class WaveType, class Meet>
inline bool next_unit(const WaveType& wave, const GradScratch& s, int64_t range, const Meet& meet,
                      UnitPlace& u) {
  UnitCursor& cursor = *s.cursor;
  int spins = 0;
  while (__atomic_exchange_n(&cursor.locked, 1, __ATOMIC_ACQUIRE) != 0) wait_turn(spins);
  bool found = false;
  while (!found && advance(wave, range, cursor, u)) {
    const auto& pair = wave.pairs[u.pair];
    found = u.q_chunk < pair.q_chunks && meet(pair, u.q_chunk, u.kv_chunk);
  }
  if (found) {
    u.query_turn = query_turns(wave, s, u).given++;
    u.key_turn = key_turns(wave, s, u).given++;
  }
  __atomic_store_n(&cursor.locked, 0, __ATOMIC_RELEASE);
  return found;
}

inline void await(const int32_t* done, int32_t turn) {
  int spins = 0;
  while (__atomic_load_n(done, __ATOMIC_ACQUIRE) != turn) wait_turn(spins);
}

// unit(pair, query chunk, key chunk) for all units of a range; called by all threads.
template <class WaveType, class Meet, class Unit>
inline void run_units(const WaveType& wave, const GradScratch& s, int64_t range, const Meet& meet,
                      const Unit& unit) {
  UnitPlace u;
  while (next_unit(wave, s, range, meet, u)) {
    Turns &queries = query_turns(wave, s, u), &keys = key_turns(wave, s, u);
    await(&queries.done, u.query_turn);
    await(&keys.done, u.key_turn);
    unit(wave.pairs[u.pair], u.q_chunk, u.kv_chunk);
    __atomic_fetch_add(&queries.done, 1, __ATOMIC_RELEASE);
    __atomic_fetch_add(&keys.done, 1, __ATOMIC_RELEASE);
  }
}

}  // namespace
}  // namespace nsa::cpu
