// Hands the units of a gradient to threads. The units of a chunk of queries or of keys run in the
// order of the list in grad_schedule.h; others need not. Whoever is free takes the first unit of
// the list that waits for none before it, out of those that are next.
#pragma once

#include "cpu/engine/plan/grad_schedule.h"
#include "cpu/engine/simd/pause.h"

namespace nsa::cpu {
namespace {

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
