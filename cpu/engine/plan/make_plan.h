// From a call to its plan: the layouts of tensors and their sequence lists become segments; pairs,
// a key head of a segment each, are divided into waves, and what is packed for the pairs of a wave
// is in scratch at the same time. Takes that scratch, cuts the pairs of a forward into tiles, and
// says where those of a gradient are summed. Host side only.
#pragma once

#include <vector>

#include "cpu/engine/plan/attention_plan.h"
#include "cpu/engine/plan/grad_schedule.h"

namespace nsa::cpu {

// The tensors of a call and how they lie, which every attention has.
struct AttentionTensors {
  const void *query, *key, *value;
  void* out;
  float *softmax_max, *softmax_sum;
  const int64_t *seq_q, *seq_kv;  // [B] of packed tensors
  Layout layout;
  ElemType dtype;
  int64_t B, N1, N2, S1, S2, D, Dv;  // of packed tensors S1 and S2 are of all segments
  float scale;
};

// Fills plan with tensors and segments, every key being visible. The segments are in the vector
// given back, which must outlive the plan.
[[nodiscard]] std::vector<Segment> make_plan(const AttentionTensors& x, AttentionPlan& plan);

// make_plan() for packed inputs.
template <class Params>
[[nodiscard]] std::vector<Segment> make_packed_plan(const Params& p, const int64_t* seq_kv,
                                                    AttentionPlan& plan) {
  return make_plan({p.query, p.key, p.value, p.attention_out, p.softmax_max, p.softmax_sum, p.seq_q,
                    seq_kv, Layout::kTND, p.dtype, p.B, p.N1, p.N2, p.T1, p.T2, p.D, p.Dv,
                    static_cast<float>(p.scale_value)},
                   plan);
}

// A segment of packed tensors starts where the one before it ends.
inline int64_t start_of(const int64_t* list, int64_t b) { return b == 0 ? 0 : list[b - 1]; }

// Pairs [pair, pair + num_pairs) and what they need.
struct WaveSpan {
  int64_t pair, num_pairs;
  int64_t packed;          // KV blocks
  int64_t tile, tiles;     // the first, how many
  int64_t key_chunks;      // of a gradient
  int64_t rounds;          // of a gradient
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

// `lanes`: keys of a KV block.
inline void carve_forward(Arena& arena, const AttentionPlan& plan, const WaveSpan& wave,
                          int64_t lanes, WordForm form, int threads, ForwardScratch& space) {
  space.keys = arena.take<float>(wave.packed * form.words(plan.D) * lanes);
  space.values = arena.take<float>(wave.packed * form.words(lanes) * padded_row(plan.Dv));
  space.finite = arena.take<bool>(wave.packed);
  space.threads = arena.take_threads(threads, space.thread_size);
}

struct GradSpace : GradScratch {
  float* delta;
  float* accumulators;  // but those that the outputs are
};

inline void carve_grad(Arena& arena, const AttentionGradPlan& plan, const WaveSpan& wave,
                       int64_t lanes, WordForm form, int threads, GradSpace& space) {
  space.finite = arena.take<bool>(wave.packed);
  if (plan.uses_tile16()) {
    space.key_rows = arena.take<float>(wave.packed * lanes * padded_row(plan.D / 2));
    space.value_rows = arena.take<float>(wave.packed * lanes * padded_row(plan.Dv / 2));
    space.key_words_t = arena.take<float>(wave.packed * plan.D * lanes / 2);
  } else {
    space.keys_t = arena.take<float>(wave.packed * form.words(plan.D) * lanes);
    space.values_t = arena.take<float>(wave.packed * form.words(plan.Dv) * lanes);
    if (form.per_word > 1)
      space.keys = arena.take<float>(wave.packed * form.words(lanes) * padded_row(plan.D));
  }
  if (plan.scores_as_bf16x3) {
    space.key_bf16x3 = arena.take<float>(wave.packed * 3 * plan.D / 2 * kKvBlockKeys);
    space.small = arena.take<bool>(wave.packed);
  }
  space.cursor = arena.take<WorkCursor>(1);
  space.tickets = arena.take<Ticket>(wave.key_chunks + wave.slots);
  space.waiting = arena.take<WorkItem>(kWaitingWorkItems);
  space.threads = arena.take_threads(threads, space.thread_size);
  space.delta = arena.take<float>(wave.rows * (plan.uses_tile16() ? 3 : 1));
  space.accumulators = arena.take<float>(wave.accumulators);
}

// Rows of a tile: of few queries and all heads of their group, so that a tile has little of the
// edges of what its queries see. group_queries 0: at most `rows`, heads too where a group has more;
// otherwise that many queries with all heads, as importance scores need.
struct TileRule {
  int64_t group_queries, rows;
};

// Rows of tiles of FlashAttentionScore: many, so that packed keys are read seldom from beyond the
// first-level cache, unless tiles would be too few for the processors of a large machine.
int64_t flash_tile_rows(const AttentionPlan& plan);

// Queries of a whole-group tile whose scores over kv_len keys stay in the second-level cache.
int64_t whole_group_queries(int64_t G, int64_t kv_len);

class Schedule {
 public:
  Schedule(const AttentionPlan& plan, TileRule rule, int threads);

  const std::vector<Wave>& waves() const { return waves_; }
  const WaveSpan& largest() const { return spans_.largest(); }

 private:
  void add_pair(const AttentionPlan& plan, TileRule rule, int64_t b, int64_t h, int threads);

  std::vector<KvPair> pairs_;
  std::vector<RowTile> tiles_;
  std::vector<Wave> waves_;
  Waves spans_;
};

// How dq is accumulated, where the kernel has tiles and nothing but visibility changes scores.
inline GradTile16 grad_tile16s(const AttentionGradPlan& plan, WordForm form) {
  constexpr int64_t step = 2 * kGradTile16;
  // Counted as floats.
  constexpr int64_t kMostKeys = 1 << 24;
  if (plan.dtype != ElemType::kBFloat16 || form.align != kGradTile16) return GradTile16::kNone;
  if (plan.D % step != 0 || plan.Dv % step != 0) return GradTile16::kNone;
  if (plan.bias.changes_scores() || plan.bias.drop || plan.dpse) return GradTile16::kNone;
  for (int64_t b = 0; b < plan.num_segments; ++b)
    if (plan.segments[b].kv_len > kMostKeys) return GradTile16::kNone;
  // Rows that are next to each other in memory: those a power of two apart compete for few sets of
  // the caches.
  const bool heads = plan.G % kGradTile16 == 0 && plan.q.head <= plan.q.row;
  return heads ? GradTile16::kHeads : GradTile16::kQueries;
}

// Shares of a chunk of keys: so many chunks of them in a call, half of which a causal mask leaves
// on the mean, as many work items at once. A share has two chunks of queries at least.
constexpr int64_t kKeyChunks = 64;

inline int64_t partials_of_queries(const AttentionPlan& plan, const GradPair& pair) {
  const int64_t chunks = plan.num_segments * plan.N2 * max64(1, pair.kv_chunks);
  return max64(1, min64(kKeyChunks / chunks, pair.q_chunks / 2));
}

// Points the accumulators into the outputs (fp32) or into scratch, and delta into its own.
template <class Pair>
void place_accumulators(const AttentionGradPlan& plan, Pair* pairs, int64_t count,
                        const GradSpace& space) {
  const int64_t G = plan.G;
  float *delta = space.delta, *accumulators = space.accumulators;
  for (int64_t n = 0; n < count; ++n) {
    Pair& pair = pairs[n];
    const Segment& seg = plan.segments[pair.segment];
    pair.delta = delta;
    delta += seg.q_len * G;
    if (plan.uses_tile16()) {
      pair.max = delta;
      pair.inv = pair.max + seg.q_len * G;
      delta = pair.inv + seg.q_len * G;
    }
    pair.first_block_dk = accumulators;
    pair.first_block_dv = pair.first_block_dk + pair.first_block_rows() * plan.D;
    accumulators = pair.first_block_dv + pair.first_block_rows() * plan.Dv;
    if (plan.dtype == ElemType::kFloat32) {
      pair.dq = static_cast<float*>(plan.dq) + seg.q + pair.kv_head * G * plan.q.head;
      pair.dk = static_cast<float*>(plan.dk) + seg.k + pair.kv_head * plan.k.head;
      pair.dv = static_cast<float*>(plan.dv) + seg.v + pair.kv_head * plan.v.head;
      pair.dq_strides = plan.q;
      pair.dk_row = plan.k.row;
      pair.dv_row = plan.v.row;
      if (pair.num_partials == 1) continue;
    } else {
      pair.dq_strides = {G * plan.D, plan.D};
      pair.dq = accumulators;
      if (!pair.whole()) accumulators += pair.dq_queries(seg) * G * plan.D;
    }
    pair.dk_row = plan.D;
    pair.dv_row = plan.Dv;
    if (pair.whole()) {
      pair.dq = nullptr;
      pair.dk = accumulators;
      pair.dv = pair.dk + pair.slots * pair.slot_keys * plan.D;
      accumulators = pair.dv + pair.slots * pair.slot_keys * plan.Dv;
      continue;
    }
    pair.dk = accumulators;
    pair.dv = pair.dk + pair.num_partials * seg.kv_len * plan.D;
    accumulators = pair.dv + pair.num_partials * seg.kv_len * plan.Dv;
  }
}

}  // namespace nsa::cpu
