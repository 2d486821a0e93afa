#include <cstring>
#include <vector>

#include "cpu/dispatch/kernel_table.h"
#include "cpu/engine/plan/make_plan.h"
#include "cpu/engine/threads/team.h"
#include "cpu/flash_attention_score/flash_plan.h"

namespace nsa::cpu {
namespace {

// Chunks of a sequence: `count` of them, or more of `largest`. Long ones read their tiles' rows and
// write their sums less often.
int64_t chunk_of(int64_t length, int64_t count, int64_t multiple, int64_t largest) {
  return min64(largest, max64(multiple, round_up(ceil_div(length, count), multiple)));
}

// Whether a round has work items for many processors even in long chunks.
bool many_keys(const AttentionGradPlan& plan) {
  int64_t keys = 0;
  for (int64_t b = 0; b < plan.num_segments; ++b) keys += plan.N2 * plan.segments[b].kv_len;
  return keys >= 64 * 8 * kKvBlockKeys;
}

// Rows of a chunk of queries where these have many heads. A chunk meets its chunks of keys one
// after the other, the last queries of a causal call all of them: short ones are sooner through.
// With a window of few keys it takes longer ones to amortise what a work item costs.
constexpr int64_t kChunkRows = 1536;
constexpr int64_t kFewKeys = 1024;

// Slabs of a wave, at least, where there are more.
constexpr int64_t kWaveKvBlocks = 128;

// Most keys that work items of a whole row have of their tiles: dK and dV of them stay in the
// second-level cache. Slots where all queries see the same keys: as many work items at a time.
constexpr int64_t kWholeKeys = 1024;
constexpr int64_t kWholeSlots = 16;

class GradSchedule {
 public:
  GradSchedule(const AttentionGradPlan& plan, int threads) : long_chunks_(many_keys(plan)) {
    for (int64_t b = 0; b < plan.num_segments; ++b) {
      // One dpse for all batches is added to batch by batch.
      if (plan.dpse) waves.close();
      for (int64_t h = 0; h < plan.N2; ++h) add(plan, b, h, threads);
    }
    waves.close();
  }

  std::vector<GradPair> pairs;
  Waves waves;
  int64_t max_kv_chunk = kKvBlockKeys;

 private:
  void add(const AttentionGradPlan& plan, int64_t b, int64_t h, int threads) {
    const Segment& seg = plan.segments[b];
    if (seg.q_len == 0 && seg.kv_len == 0) return;
    WaveSpan& open = waves.open();
    if (open.packed >= kWaveKvBlocks && open.key_chunks >= 4 * threads) waves.close();
    GradPair pair{};
    pair.segment = b;
    pair.kv_head = h;
    const int64_t chunks = long_chunks_ ? 4 : 8;
    const int64_t first = seg.range.lo(seg.q_len - 1), past = seg.range.hi(seg.q_len - 1);
    const bool few = first > 0 && past - first <= kFewKeys;
    const int64_t tiles = ceil_div((few ? 2 : 1) * kChunkRows, plan.G * kTileRows);
    const int64_t largest = (long_chunks_ ? 8 : 4) * kTileRows;
    const int64_t most = min64(largest, tiles * kTileRows);
    pair.q_chunk =
        chunk_of(seg.q_len, chunks, kTileRows, range_chunk(plan, seg.q_len, kTileRows, most));
    pair.kv_chunk = chunk_of(seg.kv_len, chunks, kKvBlockKeys,
                             (long_chunks_ || plan.uses_tile16() ? 8 : 4) * kKvBlockKeys);
    pair.q_chunks = ceil_div(seg.q_len, pair.q_chunk);
    pair.kv_chunks = ceil_div(seg.kv_len, pair.kv_chunk);
    // Queries that have a row of dpse in common add to it in turn.
    const bool one_row = plan.dpse && seg.pse_strides.row == 0;
    pair.num_partials = one_row ? 1 : partials_of_queries(plan, pair);
    pair.kv_chunks *= pair.num_partials;
    pair.set_ranges(plan, seg.q_len);
    for (int64_t n = 2; n <= 8 && !pair.whole(); n *= 2)
      pair = whole(plan, pair, chunk_of(seg.q_len, kWholeSlots, kTileRows, n * kTileRows));
    pair.first_packed = open.packed;
    pair.first_key_chunk = open.key_chunks;
    pair.first_slot = open.slots;
    pairs.push_back(pair);
    ++open.num_pairs;
    open.packed += ceil_div(seg.kv_len, kKvBlockKeys);
    open.key_chunks += pair.kv_chunks;
    open.slots += pair.range_chunks;
    open.rounds = max64(open.rounds, pair.rounds());
    open.rows += seg.q_len * plan.G;
    open.accumulators += pair.accumulators(plan, seg);
    if (!pair.whole()) max_kv_chunk = max64(max_kv_chunk, pair.kv_chunk);
  }

  // The pair with work items of whole rows in chunks of so many queries, or, where those see many
  // keys or the slots would take more memory than they spare, as it is.
  static GradPair whole(const AttentionGradPlan& plan, const GradPair& pair, int64_t q_chunk) {
    const Segment& seg = plan.segments[pair.segment];
    if (!plan.uses_tile16() || seg.q_len == 0 || seg.kv_len == 0) return pair;
    GradPair to = pair;
    to.num_partials = 1;
    to.q_chunk = q_chunk;
    to.q_chunks = to.range_chunks = ceil_div(seg.q_len, q_chunk);
    const bool few = seg.kv_len <= kWholeKeys;
    to.slots = to.kv_chunks = few ? min64(kWholeSlots, to.q_chunks) : to.q_chunks;
    to.kv_chunk = seg.kv_len;
    for (int64_t n = 0; n < to.slots; ++n) {
      const SlotKeys keys(seg, to, n);
      to.slot_keys = max64(to.slot_keys, keys.past - keys.first);
    }
    if (!few && to.slot_keys > kWholeKeys + q_chunk) return pair;
    return to.accumulators(plan, seg) <= pair.accumulators(plan, seg) ? to : pair;
  }

  bool long_chunks_;
};

// Whether every tile is heads of queries, 16 at a time, that see so few keys that they go one after
// the other.
bool tiles_see_few_keys(const AttentionPlan& plan, const Schedule& schedule) {
  for (const Wave& wave : schedule.waves()) {
    for (int64_t n = 0; n < wave.num_tiles; ++n) {
      const RowTile& tile = wave.tiles[n];
      const RowRange& range = plan.segments[wave.pairs[tile.pair].segment].range;
      const int64_t keys = range.hi(tile.i0 + tile.queries - 1) - range.lo(tile.i0);
      if (tile.heads % 16 != 0 || keys > kSweepKeys) return false;
    }
  }
  return true;
}

// Whether the forward that this is the gradient of has its scores as bf16x3.
bool forward_as_bf16x3(const KernelTable& table, const AttentionPlan& plan, bool compressed,
                       int threads) {
  if (table.float_form.terms == 1) return false;
  const Schedule schedule(plan, TileRule{0, flash_tile_rows(plan)}, threads);
  const bool few_keys = !compressed && tiles_see_few_keys(plan, schedule);
  return table.forward_form(plan, few_keys).terms > 1;
}

// Rows no segment owns: packed keys past the last prefix sum.
void zero_tail(void* out, int64_t used, int64_t rows, int64_t row_bytes) {
  if (rows > used) {
    std::memset(static_cast<char*>(out) + used * row_bytes, 0,
                static_cast<size_t>((rows - used) * row_bytes));
  }
}

}  // namespace

void flash_attention_score(const FlashAttentionScoreParams& p) {
  const KernelTable& table = kernels();
  const int threads = num_threads();
  AttentionPlan plan{};
  std::vector<Segment> segments = make_plan(p, plan);
  ForwardScratch space{};
  space.tile_rows = flash_tile_rows(plan);
  Schedule schedule(plan, TileRule{0, space.tile_rows}, threads);
  const WordForm form = table.forward_form(plan, tiles_see_few_keys(plan, schedule));
  space.as_bf16x3 = form.terms > 1;
  space.thread_size =
      thread_space(table.flash_forward_thread_size(p.D, p.Dv, space.tile_rows, space.as_bf16x3));
  const Scratch scratch([&](Arena& arena) {
    carve_forward(arena, plan, schedule.largest(), kKvBlockKeys, form, threads, space);
  });
  for (const Wave& wave : schedule.waves()) table.flash_forward(plan, wave, space, threads);
}

void flash_attention_score_grad(const FlashAttentionScoreGradParams& p) {
  const KernelTable& table = kernels();
  const int threads = num_threads();
  const WordForm form = table.form(p.dtype);
  AttentionGradPlan plan{};
  std::vector<Segment> segments = make_plan(p, plan);
  plan.dy = p.dy;
  plan.sum_grad = p.softmax_sum_grad;
  plan.dq = p.dq;
  plan.dk = p.dk;
  plan.dv = p.dv;
  plan.dsink = p.dsink;
  const int64_t dpse_size = p.pse_shape[0] * p.pse_shape[1] * p.pse_shape[2] * p.pse_shape[3];
  bool dpse_in_float = p.dpse != nullptr && p.dtype != ElemType::kFloat32;
  plan.dpse = p.dpse;
  plan.dpse_elem = ElemType::kFloat32;
  plan.tile16s = grad_tile16s(plan, form);
  plan.scores_as_bf16x3 = forward_as_bf16x3(table, plan, p.compress_block_size > 0, threads);
  GradSchedule schedule(plan, threads);

  GradSpace space{};
  const int64_t sink_row = round_up(p.Dv, 16);
  float *dpse = nullptr, *sink_tmp = nullptr;
  space.thread_size =
      thread_space(table.grad_thread_size(p.dtype, p.D, p.Dv, schedule.max_kv_chunk));
  const Scratch scratch([&](Arena& arena) {
    carve_grad(arena, plan, schedule.waves.largest(), kKvBlockKeys, form, threads, space);
    if (dpse_in_float) dpse = arena.take<float>(dpse_size);
    if (p.dsink) sink_tmp = arena.take<float>(threads * 2 * sink_row);
  });

  if (dpse_in_float) plan.dpse = dpse;
  if (plan.dpse) std::memset(plan.dpse, 0, static_cast<size_t>(dpse_size) * sizeof(float));
  if (p.input_layout == Layout::kTND && p.B > 0) {
    const int64_t size_of = elem_size(p.dtype), q_end = p.seq_q[p.B - 1],
                  kv_end = p.seq_kv[p.B - 1];
    zero_tail(p.dq, q_end, p.S1, p.N1 * p.D * size_of);
    zero_tail(p.dk, kv_end, p.S2, p.N2 * p.D * size_of);
    zero_tail(p.dv, kv_end, p.S2, p.N2 * p.Dv * size_of);
  }
  for (const WaveSpan& span : schedule.waves.spans()) {
    place_accumulators(plan, schedule.pairs.data() + span.pair, span.num_pairs, space);
    GradWave wave{schedule.pairs.data() + span.pair, span.num_pairs, span.key_chunks, span.slots,
                  span.rounds};
    table.flash_backward(plan, wave, space, schedule.max_kv_chunk, threads);
  }
  if (dpse_in_float) table.round_rows(p.dtype, dpse, dpse_size, p.dpse);
  if (p.dsink) table.flash_dsink(plan, sink_tmp, sink_row, threads);
}

}  // namespace nsa::cpu
