// Takes the parts of the scratch of an attention call. Host side only.
#pragma once

#include "cpu/engine/plan/grad_schedule.h"
#include "cpu/engine/plan/schedule.h"
#include "cpu/engine/plan/waves.h"

namespace nsa::cpu {

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
