// A forward: attention of one tile of rows over its visible keys, with the online softmax, and a
// wave of them, one region of a team, first packing, then tiles. The end includes the other
// variants that the translation unit being compiled has.
#pragma once

#include "cpu/engine/plan/attention_plan.h"
#include "cpu/engine/step/amx_buffers.h"
#include "cpu/engine/step/bias.h"
#include "cpu/engine/step/kernel_variant.h"
#include "cpu/engine/step/online_softmax.h"
#include "cpu/engine/threads/team.h"

namespace nsa::cpu {
namespace {

struct TileBuffers {
  float* q;                // [rows, words(D)]
  float* s;                // [kTileRows, kScoreRow] of the rows of one step
  float* o;                // [rows, Dv padded]
  SoftmaxState* state;     // [rows]
  float* factor;           // [rows] of the last step
  float* tmp;              // [max(kTileKeys, D, Dv) + padding]
  PrefetchQueue prefetch;  // keys and values of the next step or sweep
  // Used by AMX variants.
  AmxStepBuffers steps;
  GatheredBuffers gathered;
  GatheredStates states;  // [rows]

  static TileBuffers carve(Arena& arena, int64_t D, int64_t Dv, int64_t rows) {
    TileBuffers b{};
    b.q = arena.take<float>(rows * round_up(D, kLanePad));
    b.s = arena.take<float>(kTileRows * kScoreRow);
    b.o = arena.take<float>(rows * padded_row(Dv));
    b.state = arena.take<SoftmaxState>(rows);
    b.factor = arena.take<float>(rows);
    b.tmp = arena.take<float>(max64(kTileKeys, max64(D, Dv)) + kLanePad);
    b.prefetch = PrefetchQueue::carve(arena, 2);
    if constexpr (kHasTiles) {
      b.steps = AmxStepBuffers::carve(arena);
      b.gathered = GatheredBuffers::carve(arena);
      b.states = GatheredStates::carve(arena, rows);
    }
    return b;
  }
};

struct TileContext {
  const AttentionPlan& plan;
  const Segment& seg;
  const RowTile& tile;
  int64_t first_head;  // of the group

  int64_t query(int64_t r) const { return tile.i0 + r / tile.heads; }
  int64_t head(int64_t r) const { return first_head + tile.g0 + r % tile.heads; }
};

// The KV blocks of one pair.
struct PackedPair {
  const float* keys;
  const float* values;
  const bool* finite;

  // Whether the values of keys [j0, j1) are finite, and those of their KV blocks.
  bool all_finite(int64_t j0, int64_t j1) const {
    for (int64_t kv_block = j0 / kKvBlockKeys; kv_block * kKvBlockKeys < j1; ++kv_block)
      if (!finite[kv_block]) return false;
    return true;
  }
};

// The softmax step of a row over keys [n0, n0 + n), whatever hides them or changes its scores,
// which nothing does where they are unmasked. Gives the factor for the output row so far.
template <class Variant>
inline float biased_row(const TileContext& c, int64_t r, int64_t n0, int64_t n, bool unmasked,
                        float* row, TileBuffers& b) {
  const AttentionPlan& plan = c.plan;
  const ScoreRow scores = {c.seg, c.head(r), c.query(r), n0, n};
  float scale = plan.scale;
  if (!unmasked) {
    bias_row(plan.bias, scores, scale, row, b.tmp);
    scale = 1.0f;
  }
  const float factor = online_softmax_row(row, n, scale, b.state[r]);
  if (plan.bias.drop) dropout_row(plan.bias, scores, row);
  pack_probabilities<Variant>(row, n);
  return factor;
}

// One softmax step of rows [r0, r1) over keys [n0, n1): scores, probabilities, output. The rows see
// nothing else of the step.
template <class Variant>
inline void forward_step(const TileContext& c, int64_t r0, int64_t r1, int64_t n0, int64_t n1,
                         bool unmasked, const PackedPair& packed, TileBuffers& b) {
  NSA_EXPECT(n0 % key_step<Variant>() == 0 && n1 % key_step<Variant>() == 0);
  const AttentionPlan& plan = c.plan;
  const int64_t depth = words<Variant>(plan.D), ld = padded_row(plan.Dv), rows = r1 - r0;
  const int64_t origin = n0 / kTileKeys * kTileKeys;
  float* s = b.s;
  key_products<Variant>(Operand{b.q + r0 * depth, depth, 1}, rows,
                        {packed.keys, depth, kKvBlockKeys}, n0, n1, {s + (n0 - origin), kScoreRow},
                        &b.prefetch);
  const bool masked = !unmasked && !plan.bias.changes_scores() && plan.scale > 0.0f;
  if ((unmasked || masked) && plan.bias.drop == nullptr) {
    for (int64_t r = r0; r < r1 && masked; ++r) {
      hide_unseen(c.seg.range, c.query(r), n0, n1 - n0, n1 - n0,
                  s + (r - r0) * kScoreRow + (n0 - origin));
    }
    softmax_rows<Variant>(s + (n0 - origin), rows, n1 - n0, plan.scale, b.state + r0,
                          b.factor + r0);
  } else {
    for (int64_t r = r0; r < r1; ++r)
      b.factor[r] = biased_row<Variant>(c, r, n0, n1 - n0, unmasked,
                                        s + (r - r0) * kScoreRow + (n0 - origin), b);
  }
  const Operand p = {s + (n0 - origin), kScoreRow, 1};
  const float* values = packed.values + n0 / Variant::kForm.per_word * ld;
  const Sizes of = {rows, round_up(plan.Dv, kLanePad), words<Variant>(n1 - n0)};
  multiply_values<Variant>(packed.all_finite(n0, n1), of, p, {values, ld}, {b.o + r0 * ld, ld},
                           {Into::kAddScaled, b.factor + r0, &b.prefetch});
}

// Queues the packed keys [k0, k1) to be prefetched over `steps` calls of step(), because several
// steps of packed keys do not fit a core's own caches.
template <class Variant>
inline void prefetch_keys(const AttentionPlan& plan, const PackedPair& packed, int64_t k0,
                          int64_t k1, int64_t steps, PrefetchQueue& prefetch) {
  prefetch.clear();
  if (k0 < k1) {
    const int64_t depth = words<Variant>(plan.D), ld = padded_row(plan.Dv);
    prefetch.add(packed.keys + k0 * depth, (k1 - k0) * depth);
    prefetch.add(packed.values + k0 / Variant::kForm.per_word * ld, words<Variant>(k1 - k0) * ld);
  }
  prefetch.over(steps);
}

// Step [k0, k0 + kTileKeys) of rows [first, past), which the visible interval may cut.
template <class Variant>
inline void forward_rows(const TileContext& c, int64_t first, int64_t past, int64_t k0,
                         const PackedPair& packed, TileBuffers& b) {
  const RowRange& range = c.seg.range;
  constexpr int64_t step = key_step<Variant>(), cut = cut_rows(Variant::kForm);
  const int64_t k1 = k0 + kTileKeys;
  if (range.lo(c.query(past - 1)) <= k0 && range.hi(c.query(first)) >= k1)
    return forward_step<Variant>(c, first, past, k0, k1, !c.plan.bias.changes_scores(), packed, b);
  for (int64_t r0 = first, r1; r0 < past; r0 = r1) {
    r1 = past_cut(range, c, r0, past, cut, step);
    const int64_t n0 = max64(k0, range.lo(c.query(r0)) / step * step);
    const int64_t n1 = min64(k1, round_up(range.hi(c.query(r1 - 1)), step));
    if (n0 < n1) forward_step<Variant>(c, r0, r1, n0, n1, false, packed, b);
  }
}

// forward_keys() of a variant whose products read rows only, in the file of that variant.
template <class Variant>
inline void forward_row_keys(const TileContext& c, const PackedPair& packed, TileBuffers& b);

// Keys outside, rows inside: what is packed of a step's keys is in the core's own caches for all
// rows of the tile but the first kTileRows.
template <class Variant>
inline void forward_keys(const TileContext& c, const PackedPair& packed, TileBuffers& b) {
  if constexpr (kRowsOnly<Variant>) {
    forward_row_keys<Variant>(c, packed, b);
  } else {
    using Step = typename Variant::Step;
    const RowRange& range = c.seg.range;
    const int64_t rows = c.tile.rows(), begin = range.lo(c.tile.i0) / kTileKeys * kTileKeys;
    const int64_t past = range.hi(c.query(rows - 1)), end = round_up(past, kKvBlockKeys);
    const int64_t products =
        2 * matmul_steps<Step>(rows, kKvBlockKeys) + matmul_steps<Step>(rows, c.plan.Dv);
    for (int64_t k0 = begin; k0 < past; k0 += kTileKeys) {
      const int64_t k1 = k0 + kTileKeys;
      prefetch_keys<Variant>(c.plan, packed, k1, min64(k1 + kTileKeys, end), products, b.prefetch);
      for (int64_t first = 0; first < rows; first += kTileRows)
        forward_rows<Variant>(c, first, min64(first + kTileRows, rows), k0, packed, b);
    }
  }
}

// o[0..n) *= factor; whether they are finite then.
inline bool scale_checked(float* o, int64_t n, float factor) {
  const V by = set1(factor);
  V first = zero(), second = zero();
  int64_t d = 0;
  for (; d + 2 * W <= n; d += 2 * W) {
    const V x = mul(load(o + d), by), y = mul(load(o + d + W), by);
    store(o + d, x);
    store(o + d + W, y);
    first = fma(x, zero(), first);
    second = fma(y, zero(), second);
  }
  float sum = hsum(add(first, second));
  for (; d < n; ++d) {
    o[d] *= factor;
    sum += o[d] * 0.0f;
  }
  return sum == 0.0f;
}

// The raw product of a query and a key, rows of n elements. tmp: [2, kTileKeys].
inline float raw_product(ElemType t, const void* a, int64_t at_a, const void* b, int64_t at_b,
                         int64_t n, float* tmp) {
  float sum = 0.0f;
  for (int64_t d = 0; d < n; d += kTileKeys) {
    const int64_t count = min64(kTileKeys, n - d);
    to_float(t, a, at_a + d, count, tmp);
    to_float(t, b, at_b + d, count, tmp + kTileKeys);
    for (int64_t k = 0; k < count; ++k) sum += tmp[k] * tmp[kTileKeys + k];
  }
  return sum;
}

// A row of a call and its softmax.
struct OutputRow {
  const AttentionPlan& plan;
  const Segment& seg;
  int64_t i, head;
  SoftmaxState state;
};

// Outputs [d0, d0 + n), at most kTileKeys of them, of a row whose sums of exp(score - max) times
// values have left the range of float32, as values near its largest number let them: recomputes NaN
// and infinite outputs with normalised probabilities, scaled by 0.5 to leave headroom for rounding.
// spans(visit) calls visit(first, past) for the keys that the row may see.
template <class Spans>
[[gnu::noinline]] inline void normalised_outputs(const OutputRow& row, const Spans& spans,
                                                 int64_t d0, int64_t n, float* o) {
  constexpr int64_t kKeys = kTileKeys;
  alignas(64) float p[kKeys], tmp[2 * kKeys], sums[kTileKeys];
  const AttentionPlan& plan = row.plan;
  const Segment& seg = row.seg;
  const SoftmaxState& state = row.state;
  const int64_t i = row.i, head = row.head;
  const int64_t kv_head = head / plan.G, q = seg.q + i * plan.q.row + head * plan.q.head;
  const float half = 0.5f / state.divisor(), base = state.base();
  fill(sums, n, 0.0f);
  spans([&](int64_t first, int64_t past) {
    for (int64_t j0 = first; j0 < past; j0 += kKeys) {
      const int64_t keys = min64(kKeys, past - j0);
      const int64_t k = seg.k + kv_head * plan.k.head + j0 * plan.k.row;
      const int64_t v = seg.v + kv_head * plan.v.head + j0 * plan.v.row + d0;
      for (int64_t j = 0; j < keys; ++j)
        p[j] = raw_product(plan.dtype, plan.query, q, plan.key, k + j * plan.k.row, plan.D, tmp);
      bias_row(plan.bias, {seg, head, i, j0, keys}, plan.scale, p, tmp);
      for (int64_t j = 0; j < keys; ++j) {
        const float e = exp1(p[j] - base);
        p[j] = e < kFloatMin ? 0.0f : e * half;
      }
      if (plan.bias.drop) dropout_row(plan.bias, {seg, head, i, j0, keys}, p);
      for (int64_t j = 0; j < keys; ++j) {
        if (p[j] == 0.0f) continue;
        to_float(plan.dtype, plan.value, v + j * plan.v.row, n, tmp);
        for (int64_t d = 0; d < n; ++d) sums[d] += p[j] * tmp[d];
      }
    }
  });
  for (int64_t d = 0; d < n; ++d)
    if (!(o[d0 + d] * 0.0f == 0.0f)) o[d0 + d] = 2.0f * sums[d];
}

// Divides by the sum and writes the output and the two statistics.
template <class Spans>
inline void finish_row(const AttentionPlan& plan, const Segment& seg, int64_t i, int64_t head,
                       float* o, SoftmaxState state, const Spans& spans) {
  if (plan.sink) {
    const float factor = state.add_sink(plan.sink[head]);
    for (int64_t d = 0; d < plan.Dv; ++d) o[d] *= factor;
  }
  const bool finite_out = scale_checked(o, plan.Dv, 1.0f / state.divisor());
  if (!finite_out && in_exp_range(state.max) && state.sum == state.sum) {
    for (int64_t d = 0; d < plan.Dv; d += kTileKeys) {
      const int64_t n = min64(kTileKeys, plan.Dv - d);
      if (!all_finite(o + d, n))
        normalised_outputs(OutputRow{plan, seg, i, head, state}, spans, d, n, o);
    }
  }
  from_float(plan.dtype, o, plan.Dv, plan.out, seg.o + i * plan.o.row + head * plan.o.head);
  int64_t stat = seg.stat + i * plan.stat.row + head * plan.stat.head;
  for (int64_t lane = 0; lane < kSoftmaxLanes; ++lane) {
    store1(ElemType::kFloat32, plan.softmax_max, stat + lane, state.max_out());
    store1(ElemType::kFloat32, plan.softmax_sum, stat + lane, state.sum_out());
  }
}

// finish_row() for a row that sees an interval of keys.
inline void finish_row(const AttentionPlan& plan, const Segment& seg, int64_t i, int64_t head,
                       float* o, const SoftmaxState& state) {
  finish_row(plan, seg, i, head, o, state,
             [&](const auto& visit) { visit(seg.range.lo(i), seg.range.hi(i)); });
}

// pack(r, offset) for all rows of a tile, with the offset of their queries.
template <class Pack>
inline void each_query_row(const TileContext& c, const Pack& pack) {
  const AttentionPlan& plan = c.plan;
  const int64_t rows = c.tile.rows();
  const auto query = [&](int64_t r) {
    return c.seg.q + c.query(r) * plan.q.row + c.head(r) * plan.q.head;
  };
  for (int64_t r = 0; r < rows; ++r) {
    prefetch_row(plan.dtype, plan.query, query(min64(r + kPrefetchDistance, rows - 1)), plan.D);
    pack(r, query(r));
  }
}

// Writes the outputs and statistics of a tile's rows.
inline void finish_rows(const TileContext& c, TileBuffers& b) {
  const int64_t ld = padded_row(c.plan.Dv);
  for (int64_t r = 0; r < c.tile.rows(); ++r)
    finish_row(c.plan, c.seg, c.query(r), c.head(r), b.o + r * ld, b.state[r]);
}

// A call, as several callers lead here: less code, and nothing beside a tile's time.
template <class Variant>
[[gnu::noinline]] inline void forward_tile(const TileContext& c, const PackedPair& packed,
                                           TileBuffers& b) {
  const AttentionPlan& plan = c.plan;
  const int64_t rows = c.tile.rows(), depth = words<Variant>(plan.D), ld = padded_row(plan.Dv);
  each_query_row(c, [&](int64_t r, int64_t offset) {
    pack_row<Variant>(plan.dtype, plan.query, offset, plan.D, b.q + r * depth);
    b.state[r] = SoftmaxState::empty();
  });
  fill(b.o, rows * ld, 0.0f);
  forward_keys<Variant>(c, packed, b);
  if (!packed.all_finite(c.seg.range.lo(c.tile.i0), c.seg.range.hi(c.query(rows - 1)))) {
    // An infinite value whose probability becomes 0 by a later maximum would stay, as 0 times it.
    for (int64_t r = 0; r < rows; ++r) {
      b.state[r] = plan.sink ? b.state[r].restart_from_max(plan.sink[c.head(r)])
                             : b.state[r].restart_from_max();
    }
    fill(b.o, rows * ld, 0.0f);
    forward_keys<Variant>(c, packed, b);
  }
  finish_rows(c, b);
}

// Packs keys and their values as columns and rows of a KV block of `lanes` keys. Gives whether the
// values are finite and within the range of the steps; as bf16x3, the keys as well.
template <class Variant>
inline bool pack_keys(const AttentionPlan& plan, KeyRows from, int64_t lanes, float* keys,
                      float* values, float* tmp) {
  if constexpr (Variant::kForm.terms > 1) {
    return Variant::pack_keys(plan, from, keys, values, tmp);
  } else {
    pack_transposed<Variant>(keys_of(plan, from), plan.D, lanes, keys, tmp);
    pack_rows<Variant>(values_of(plan, from), plan.Dv, lanes, values);
    return packed_finite<Variant>(values, words<Variant>(lanes) * padded_row(plan.Dv),
                                  Variant::kLargeExponent);
  }
}

// Keys [j0, j0 + n) of a head of a segment.
inline KeyRows key_rows(const AttentionPlan& plan, const Segment& seg, int64_t kv_head, int64_t j0,
                        int64_t n) {
  return {seg.k + kv_head * plan.k.head + j0 * plan.k.row,
          seg.v + kv_head * plan.v.head + j0 * plan.v.row, n};
}

// The keys of KV block number `kv_block` of a pair.
template <class Variant>
inline bool pack_kv_block(const AttentionPlan& plan, const Segment& seg, int64_t kv_head,
                          int64_t kv_block, float* keys, float* values, float* tmp) {
  const int64_t j0 = kv_block * kKvBlockKeys, n = min64(kKvBlockKeys, seg.kv_len - j0);
  return pack_keys<Variant>(plan, key_rows(plan, seg, kv_head, j0, n), kKvBlockKeys, keys, values,
                            tmp);
}

// Packs keys and values of all pairs of a wave; called by all members, which meet later.
template <class Variant>
inline void pack_pairs(const Member& member, const AttentionPlan& plan, const Wave& wave,
                       const ForwardScratch& scratch, float* tmp) {
  const int64_t key_size = words<Variant>(plan.D) * kKvBlockKeys;
  const int64_t value_size = words<Variant>(kKvBlockKeys) * padded_row(plan.Dv);
  for (int64_t p = 0; p < wave.num_pairs; ++p) {
    const KvPair& pair = wave.pairs[p];
    const Segment& seg = plan.segments[pair.segment];
    member.static_for(ceil_div(seg.kv_len, kKvBlockKeys), [&](int64_t kv_block) {
      const int64_t at = pair.first_kv_block + kv_block;
      scratch.finite[at] =
          pack_kv_block<Variant>(plan, seg, pair.kv_head, kv_block, scratch.keys + at * key_size,
                                 scratch.values + at * value_size, tmp);
    });
  }
}

// All members call pack(member, buffers) and meet; then each(n, buffers) for `count` tiles or
// chunks, one at a time. carve(arena) gives a thread's buffers.
template <class Variant, class Carve, class Pack, class Each>
void run_forward(const ForwardScratch& scratch, int64_t count, int threads, const Carve& carve,
                 const Pack& pack, const Each& each) {
  parallel_region(threads, [&](const Member& member) {
    Arena arena{scratch.threads + member.number * scratch.thread_size};
    Variant::begin();
    auto buffers = carve(arena);
    pack(member, buffers);
    member.barrier();
    member.dynamic_for(count, [&](int64_t n) { each(n, buffers); });
    Variant::end();
  });
}

// tile(context, packed, buffers) for all tiles of a wave that read KV blocks.
template <class Variant, class Carve, class Tile>
void run_forward_wave(const AttentionPlan& plan, const Wave& wave, const ForwardScratch& scratch,
                      int threads, const Carve& carve, const Tile& tile) {
  const int64_t key_size = words<Variant>(plan.D) * kKvBlockKeys;
  const int64_t value_size = words<Variant>(kKvBlockKeys) * padded_row(plan.Dv);
  run_forward<Variant>(
      scratch, wave.num_tiles, threads, carve,
      [&](const Member& member, auto& buffers) {
        pack_pairs<Variant>(member, plan, wave, scratch, buffers.tmp);
      },
      [&](int64_t n, auto& buffers) {
        const RowTile& rows = wave.tiles[n];
        const KvPair& pair = wave.pairs[rows.pair];
        const TileContext context{plan, plan.segments[pair.segment], rows, pair.kv_head * plan.G};
        const PackedPair packed{scratch.keys + pair.first_kv_block * key_size,
                                scratch.values + pair.first_kv_block * value_size,
                                scratch.finite + pair.first_kv_block};
        tile(context, packed, buffers);
      });
}

// A tile of rows over all its keys, and what it needs of a thread's scratch.
template <class Variant>
struct ForwardTile {
  using Buffers = TileBuffers;
  static void run(const TileContext& c, const PackedPair& packed, Buffers& b) {
    forward_tile<Variant>(c, packed, b);
  }
};

// Rows that meet a few KV blocks at a time, wherever they are, in words of a form:
// amx_forward.h and forward_bf16x3.h have them.
template <class Form>
class GatheredSteps;
struct BFloat16Gathered;
struct Bf16x3Gathered;
// Outputs and states of rows that have met all their keys.
template <class Form>
inline void take_gathered(const AttentionPlan& plan, const GatheredStates& states, int64_t rows,
                          float* o, SoftmaxState* state);

// Rows of a tile that the products of a step read and write where they are, and that need no copy
// then: not in this variant, only in that of AMX, see amx_forward.h.
template <class Variant>
struct RowsInPlace {
  template <class Rows, class Out>
  RowsInPlace(const AttentionPlan&, const Rows&, const Out&) {}
  static constexpr bool there() { return false; }
  void scores(const float*, int64_t, float*) const {}
  void add_values(const float*, int64_t, const float*, const float*) const {}
};

}  // namespace
}  // namespace nsa::cpu

#ifdef NSA_ISA_AMX
#include "cpu/engine/step/amx_forward.h"
#include "cpu/engine/step/forward_bf16x3.h"
#endif
