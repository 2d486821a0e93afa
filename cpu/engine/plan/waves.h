// Groups pairs, a key head of a segment each, into waves: what is packed for the pairs of a wave is
// in scratch at the same time. Takes the parts of that scratch. Host side only.
#pragma once

#include <vector>

#include "cpu/engine/plan/grad_schedule.h"
#include "cpu/engine/plan/schedule.h"

namespace nsa::cpu {

// Pairs [pair, pair + num_pairs) and what they need.
struct WaveSpan {
  int64_t pair, num_pairs;
  int64_t packed;          // blocks of keys, or parts of them
  int64_t tile, tiles;     // the first, how many
  int64_t key_chunks;      // of a gradient
  int64_t steps;           // of a gradient
  int64_t slots;           // of a gradient: chunks of queries of a range
  int64_t rows;            // queries of all heads
  int64_t accumulators;    // floats
  int64_t index, entries;  // of a selection turned round
};

class Waves {
 public:
  // The wave that pairs are added to.
  WaveSpan& open() { return open_; }

  void close() {
    if (open_.num_pairs > 0) spans_.push_back(open_);
    largest_.num_pairs = max64(largest_.num_pairs, open_.num_pairs);
    largest_.packed = max64(largest_.packed, open_.packed);
    largest_.key_chunks = max64(largest_.key_chunks, open_.key_chunks);
    largest_.slots = max64(largest_.slots, open_.slots);
    largest_.rows = max64(largest_.rows, open_.rows);
    largest_.accumulators = max64(largest_.accumulators, open_.accumulators);
    largest_.index = max64(largest_.index, open_.index);
    largest_.entries = max64(largest_.entries, open_.entries);
    WaveSpan next{};
    next.pair = open_.pair + open_.num_pairs;
    next.tile = open_.tile + open_.tiles;
    open_ = next;
  }

  const std::vector<WaveSpan>& spans() const { return spans_; }
  // The most of each kind that a wave needs.
  const WaveSpan& largest() const { return largest_; }

 private:
  std::vector<WaveSpan> spans_;
  WaveSpan open_{}, largest_{};
};

// `lanes`: keys of a packed block.
inline void carve_forward(Arena& arena, const AttentionPlan& plan, const WaveSpan& wave,
                          int64_t lanes, WordForm form, int threads, ForwardScratch& parts) {
  parts.keys = arena.take<float>(wave.packed * form.words(plan.D) * lanes);
  parts.values = arena.take<float>(wave.packed * form.words(lanes) * padded_row(plan.Dv));
  parts.finite = arena.take<bool>(wave.packed);
  parts.threads = arena.take_threads(threads, parts.thread_size);
}

struct GradParts : GradScratch {
  float* delta;
  float* accumulators;  // but those that the outputs are
};

inline void carve_grad(Arena& arena, const AttentionGradPlan& plan, const WaveSpan& wave,
                       int64_t lanes, WordForm form, int threads, GradParts& parts) {
  parts.finite = arena.take<bool>(wave.packed);
  if (plan.in_groups()) {
    parts.key_rows = arena.take<float>(wave.packed * lanes * padded_row(plan.D / 2));
    parts.value_rows = arena.take<float>(wave.packed * lanes * padded_row(plan.Dv / 2));
    parts.key_pairs = arena.take<float>(wave.packed * plan.D * lanes / 2);
  } else {
    parts.keys_t = arena.take<float>(wave.packed * form.words(plan.D) * lanes);
    parts.values_t = arena.take<float>(wave.packed * form.words(plan.Dv) * lanes);
    if (form.per_word > 1)
      parts.keys = arena.take<float>(wave.packed * form.words(lanes) * padded_row(plan.D));
  }
  if (plan.scores_in_pieces) {
    parts.key_pieces = arena.take<float>(wave.packed * 3 * plan.D / 2 * kBlockKeys);
    parts.small = arena.take<bool>(wave.packed);
  }
  parts.cursor = arena.take<UnitCursor>(1);
  parts.turns = arena.take<Turns>(wave.key_chunks + wave.slots);
  parts.waiting = arena.take<UnitPlace>(kWaitingUnits);
  parts.threads = arena.take_threads(threads, parts.thread_size);
  parts.delta = arena.take<float>(wave.rows * (plan.in_groups() ? 3 : 1));
  parts.accumulators = arena.take<float>(wave.accumulators);
}

}  // namespace nsa::cpu
