// NsaSelectedAttention. A chunk of queries goes through the key blocks in ascending order; all
// (query, head) rows of the chunk that selected a block form the rows of its matmuls, so a block is
// read once per chunk, whatever the group size.
#pragma once

#include "cpu/engine/plan/selection.h"
#include "cpu/engine/plan/tuning.h"
#include "cpu/engine/step/forward.h"
#include "cpu/engine/step/online_softmax.h"

namespace nsa::cpu {
namespace {

// Keys of part number n of a pair: [j0, j0 + count).
struct PartKeys {
  int64_t j0, count;
};

inline PartKeys part_keys(const BlockShape& shape, const Segment& seg, int64_t n) {
  const int64_t start = n / shape.parts * shape.block, j0 = start + n % shape.parts * shape.part;
  const int64_t end = min64(min64(start + shape.block, j0 + shape.part), seg.kv_len);
  return {j0, max64(0, end - j0)};
}

// Called by all members, which meet later.
template <class Wave>
inline void index_pairs(const Member& member, const AttentionPlan& plan, const Selection& sel,
                        const Wave& wave) {
  member.dynamic_for(wave.num_pairs, [&](int64_t p) {
    index_selection(wave.pairs[p], plan.segments[wave.pairs[p].segment], sel, plan.N2);
  });
}

// Blocks of a range that a query selected.
struct RangeBlocks {
  int32_t count, block[kTuningOfTiles.select_range_blocks];
};
static_assert(kTuningOfBf16x3.select_range_blocks <= kTuningOfTiles.select_range_blocks);

struct SelectBuffers {
  TileBuffers tile;     // of the rows of a tile; o holds one part's P V
  float* o;             // [chunk rows, Dv padded]
  SoftmaxState* state;  // [chunk rows]
  // Used by AMX variants.
  GatheredStates states;  // [chunk rows]
  RangeBlocks* blocks;    // [queries of a chunk, where these are whole tiles]
  float* bf16x3;          // [chunk rows, ld_bf16x3] queries as bf16x3
  int64_t ld_bf16x3;
  float*
      keys;  // a part's keys and values as floats, [D, kKvBlockKeys] and [kKvBlockKeys, Dv padded]
  float* values;

  static SelectBuffers carve(Arena& arena, int64_t D, int64_t Dv, int64_t chunk_rows,
                             bool as_bf16x3) {
    SelectBuffers b{};
    b.tile = TileBuffers::carve(arena, D, Dv, kTileRows);
    b.o = arena.take<float>(chunk_rows * padded_row(Dv));
    b.state = arena.take<SoftmaxState>(chunk_rows);
    if constexpr (kHasTiles) {
      b.states = GatheredStates::carve(arena, chunk_rows);
      b.blocks = arena.take<RangeBlocks>(ceil_div(chunk_rows, kAmxTile));
      if (as_bf16x3) {
        b.ld_bf16x3 = SplitFloatVariant::kForm.words(D) + kAmxTile;
        b.bf16x3 = arena.take<float>(chunk_rows * b.ld_bf16x3);
        b.keys = arena.take<float>(D * kKvBlockKeys);
        b.values = arena.take<float>(kKvBlockKeys * padded_row(Dv));
      }
    }
    return b;
  }
};

// Rows of a tile before `past` and the lanes of a part that they read.
struct CutRows {
  int64_t past, lanes;
};

// Rows from r0 on. Where that one does not see all keys of the part, only those whose visible keys
// end near its own: less work on masked scores along the diagonal.
template <class Variant>
inline CutRows cut_gathered(PartKeys keys, int64_t lanes, const GatheredRows& c, int64_t r0) {
  constexpr int64_t step = key_step<Variant>(), cut = cut_rows(Variant::kForm);
  const RowRange& range = c.seg.range;
  if (range.hi(c.query(r0)) >= keys.j0 + keys.count) return {c.rows(), lanes};
  const int64_t past = past_cut(range, c, r0, c.rows(), cut, step);
  const int64_t seen = min64(keys.count, range.hi(c.query(past - 1)) - keys.j0);
  return {past, max64(step, min64(lanes, round_up(seen, step)))};
}

// The softmax step of row r of a tile, whatever hides its keys or counts them twice.
template <class Variant>
inline void masked_select_row(const AttentionPlan& plan, const ScoreRow& scores, int64_t lanes,
                              float weight, int64_t r, TileBuffers& b) {
  float* row = b.s + r * kScoreRow;
  if (scores.n == lanes && scores.seg.range.hi(scores.i) >= scores.k0 + scores.n) {
    b.factor[r] = softmax_step<Variant>(row, lanes, plan.scale, b.state[r], weight);
    return;
  }
  bias_row(plan.bias, scores, plan.scale, row, b.tmp);
  fill(row + scores.n, lanes - scores.n, -kInfinity);
  b.factor[r] = online_softmax_row(row, lanes, 1.0f, b.state[r], weight);
  pack_probabilities<Variant>(row, lanes);
}

// Scores of gathered rows with keys [0, used) of a part of `lanes`. Rows are read where they are if
// they are words already, otherwise packed.
template <class Variant>
inline void select_scores(const AttentionPlan& plan, const GatheredRows& c, const float* kt,
                          int64_t lanes, int64_t used, TileBuffers& b) {
  const int64_t depth = words<Variant>(plan.D);
  const KvBlocks keys = {kt, depth, lanes};
  const Output scores{b.s, kScoreRow};
  if constexpr (!kRowsOnly<Variant>) {
    if (rows_are_words<Variant>(plan.dtype, plan.query, plan.D, plan.q)) {
      constexpr int64_t per_word = Variant::kForm.per_word;
      const float *query = static_cast<const float*>(plan.query), *rows[kTileRows];
      each_row(c, [&](int64_t r, int64_t i, int64_t head) {
        rows[r] = query + (c.seg.q + i * plan.q.row + head * plan.q.head) / per_word;
      });
      return key_products<Variant>(RowList{rows}, c.rows(), keys, 0, used, scores, &b.prefetch);
    }
  }
  each_row(c, [&](int64_t r, int64_t i, int64_t head) {
    pack_row<Variant>(plan.dtype, plan.query, c.seg.q + i * plan.q.row + head * plan.q.head, plan.D,
                      b.q + r * depth);
  });
  key_products<Variant>(Operand{b.q, depth, 1}, c.rows(), keys, 0, used, scores, &b.prefetch);
}

// Output row r of gathered rows, out(i, head), times its factor, plus P V.
template <class Variant, class Out>
inline void add_select_values(const AttentionPlan& plan, const GatheredRows& c, bool finite,
                              int64_t lanes, const float* v, TileBuffers& b, const Out& out) {
  const int64_t ld = padded_row(plan.Dv), out_lanes = round_up(plan.Dv, kLanePad);
  const Operand p = {b.s, kScoreRow, 1};
  const Sizes of = {c.rows(), out_lanes, words<Variant>(lanes)};
  float* rows[kTileRows];
  each_row(c, [&](int64_t r, int64_t i, int64_t head) { rows[r] = out(i, head); });
  if constexpr (!kRowsOnly<Variant>) {
    if (finite)
      return matmul_rows<typename Variant::Step>(of, p, Lanes{v, ld}, OutputList{rows, 0},
                                                 {Into::kAddScaled, b.factor, &b.prefetch});
  }
  multiply_values<Variant>(finite, of, p, {v, ld}, {b.o, ld});
  for (int64_t r = 0; r < c.rows(); ++r) {
    const V by = set1(b.factor[r]);
    for (int64_t d = 0; d < out_lanes; d += W)
      store(rows[r] + d, fma(load(rows[r] + d), by, load(b.o + r * ld + d)));
  }
}

// Queries [i0, i1) of a pair.
struct SelectChunk {
  const AttentionPlan& plan;
  const Selection& sel;
  const SelectPair& pair;
  int64_t i0, i1;

  const Segment& seg() const { return plan.segments[pair.segment]; }
  int64_t first_head() const { return pair.kv_head * plan.G; }
  int64_t rows() const { return (i1 - i0) * plan.G; }
  int64_t row(int64_t i, int64_t head) const { return (i - i0) * plan.G + head - first_head(); }
};

// A part of a block as products read it.
struct PackedPart {
  const float *keys, *values;
  bool finite;
};

// One part of block t against one tile of gathered rows of a chunk. They see nothing past the
// part's first `used` keys.
template <class Variant>
inline void select_tile(const SelectChunk& chunk, int64_t t, const GatheredRows& c, PartKeys keys,
                        int64_t used, const PackedPart& part, SelectBuffers& b) {
  const AttentionPlan& plan = chunk.plan;
  const Selection& sel = chunk.sel;
  const SelectPair& pair = chunk.pair;
  const float *kt = part.keys, *v = part.values;
  const int64_t ld = padded_row(plan.Dv), rows = c.rows(), lanes = sel.shape.lanes;
  float *s = b.tile.s, *factor = b.tile.factor;
  SoftmaxState* states = b.tile.state;
  const auto output = [&](int64_t i, int64_t head) { return b.o + chunk.row(i, head) * ld; };
  const RowsInPlace<Variant> in_place(plan, c, output);
  if (in_place.there()) {
    in_place.scores(kt, lanes, s);
  } else {
    select_scores<Variant>(plan, c, kt, lanes, used, b.tile);
  }
  keys.count = min64(keys.count, used);
  const bool no_bias = !plan.bias.changes_scores() && plan.scale > 0.0f && !*pair.repeats;
  // hi does not decrease along the list: the rows that see all keys are the last ones.
  int64_t first_unmasked = 0;
  c.each_query([&](int64_t r, int64_t heads, int64_t i, int64_t head) {
    copy_states(b.state + chunk.row(i, head), heads, states + r);
    const bool fully_visible = keys.count == used && c.seg.range.hi(i) >= keys.j0 + keys.count;
    if (fully_visible && !*pair.repeats) return;
    if (no_bias) {
      for (int64_t n = r; n < r + heads; ++n)
        hide_unseen(c.seg.range, i, keys.j0, keys.count, used, s + n * kScoreRow);
      return;
    }
    const float weight = multiplicity(pair, sel, plan.N2, i, t);
    first_unmasked = r + heads;
    for (int64_t n = r; n < first_unmasked; ++n) {
      const ScoreRow scores = {c.seg, head + n - r, i, keys.j0, keys.count};
      masked_select_row<Variant>(plan, scores, used, weight, n, b.tile);
    }
  });
  softmax_rows<Variant>(s + first_unmasked * kScoreRow, rows - first_unmasked, used, plan.scale,
                        states + first_unmasked, factor + first_unmasked);
  c.each_query([&](int64_t r, int64_t heads, int64_t i, int64_t head) {
    copy_states(states + r, heads, b.state + chunk.row(i, head));
  });
  if (in_place.there() && part.finite) return in_place.add_values(s, lanes, v, factor);
  add_select_values<Variant>(plan, c, part.finite, used, v, b.tile, output);
}

// Packs `keys` of a pair as pack_keys() does.
template <class Variant>
inline bool pack_part(const AttentionPlan& plan, const SelectPair& pair, PartKeys keys,
                      int64_t lanes, float* packed_keys, float* values, float* tmp) {
  const Segment& seg = plan.segments[pair.segment];
  return pack_keys<Variant>(plan, key_rows(plan, seg, pair.kv_head, keys.j0, keys.count), lanes,
                            packed_keys, values, tmp);
}

// All blocks against the queries of a chunk that selected them. packed(at, keys): part number `at`
// of all packed ones. False: a value that some row met is NaN or infinite.
template <class Variant, class Packed>
inline bool select_blocks(const SelectChunk& chunk, const Packed& packed, SelectBuffers& b) {
  using Step = typename Variant::Step;
  const auto& [plan, sel, pair, i0, i1] = chunk;
  const Segment& seg = chunk.seg();
  const BlockShape& shape = sel.shape;
  bool finite = true;
  fill(b.o, chunk.rows() * padded_row(plan.Dv), 0.0f);
  for (int64_t t = 0; t < pair.blocks; ++t) {
    const int32_t* end = pair.queries + pair.begin[t + 1];
    const int32_t* list = first_query(pair.queries + pair.begin[t], end, i0);
    const int64_t rows = (first_query(list, end, i1) - list) * plan.G;
    for (int64_t part = t * shape.parts; part < (t + 1) * shape.parts; ++part) {
      const PartKeys keys = part_keys(shape, seg, part);
      if (keys.count == 0) break;
      if (rows == 0) break;
      const PackedPart of = packed(pair.first_packed + part, keys);
      b.tile.prefetch.over(matmul_steps<Step>(rows, shape.lanes) +
                           matmul_steps<Step>(rows, plan.Dv));
      finite = finite && of.finite;
      for (int64_t r = 0, count; r < rows; r += count) {
        GatheredRows c{seg, chunk.first_head(), plan.G, list, r, min64(kTileRows, rows - r)};
        int64_t used = shape.lanes;
        if (!kRowsOnly<Variant>) {
          const CutRows cut = cut_gathered<Variant>(keys, shape.lanes, c, 0);
          c.count = cut.past;
          used = cut.lanes;
        }
        count = c.count;
        select_tile<Variant>(chunk, t, c, keys, used, of, b);
      }
    }
  }
  return finite;
}

// On tiles ranges of blocks stand outside, queries inside, the heads of a query being the rows of a
// tile.

// The queries of a chunk that selected a block.
struct BlockQueries {
  const int32_t *first, *past;

  static BlockQueries of(const SelectChunk& chunk, int64_t t) {
    const SelectPair& pair = chunk.pair;
    const int32_t* end = pair.queries + pair.begin[t + 1];
    const int32_t* first = first_query(pair.queries + pair.begin[t], end, chunk.i0);
    return {first, first_query(first, end, chunk.i1)};
  }
};

// Whether no query of a chunk names a block twice, nor one that is not finite.
inline bool blocks_are_plain(const SelectChunk& chunk, const ForwardScratch& scratch) {
  const SelectPair& pair = chunk.pair;
  if (*pair.repeats) return false;
  for (int64_t t = 0; t < pair.blocks; ++t) {
    if (scratch.finite[pair.first_packed + t]) continue;
    const BlockQueries queries = BlockQueries::of(chunk, t);
    if (queries.first < queries.past) return false;
  }
  return true;
}

// Whether GatheredSteps can do a chunk with words of bf16.
inline bool gathered_steps_fit(const SelectChunk& chunk, const ForwardScratch& scratch) {
  const AttentionPlan& plan = chunk.plan;
  if (!heads_are_tiles(plan) || chunk.sel.shape.lanes != kKvBlockKeys) return false;
  if (plan.bias.changes_scores() || plan.bias.drop || !(plan.scale > 0.0f)) return false;
  return blocks_are_plain(chunk, scratch);
}

// The blocks [t0, t1) that each query of a chunk selected, in order.
inline void list_blocks(const SelectChunk& chunk, int64_t t0, int64_t t1, RangeBlocks* of) {
  for (int64_t i = chunk.i0; i < chunk.i1; ++i) of[i - chunk.i0].count = 0;
  for (int64_t t = t0; t < t1; ++t) {
    const BlockQueries queries = BlockQueries::of(chunk, t);
    for (const int32_t* i = queries.first; i < queries.past; ++i) {
      RangeBlocks& blocks = of[*i - chunk.i0];
      blocks.block[blocks.count++] = static_cast<int32_t>(t);
    }
  }
}

// select_blocks() on tiles: ranges of blocks outside, queries inside. Rows of the queries are ldq
// words apart, head h of query i at query(i, h).
template <class Form, class Query>
inline void gathered_blocks(const SelectChunk& chunk, const ForwardScratch& scratch, int64_t ldq,
                            const Query& query, SelectBuffers& b) {
  const auto& [plan, sel, pair, i0, i1] = chunk;
  const Segment& seg = chunk.seg();
  const int64_t ld = padded_row(plan.Dv), first_head = chunk.first_head();
  const int64_t chunk_rows = chunk.rows();
  const int64_t range = tuning(Form::kForm).select_range_blocks;
  const int64_t key_size = Form::kForm.words(plan.D) * kKvBlockKeys;
  const int64_t value_size = words_of_values<Form>(plan.Dv);
  fill(b.o, chunk_rows * ld, 0.0f);
  b.states.clear(chunk_rows);
  b.tile.prefetch.clear();
  GatheredSteps<Form> steps(plan, ldq, b.states, b.tile.gathered, &b.tile.prefetch);
  for (int64_t t0 = 0; t0 < pair.blocks; t0 += range) {
    list_blocks(chunk, t0, min64(t0 + range, pair.blocks), b.blocks);
    for (int64_t r = 0; r < chunk_rows; r += kAmxTile) {
      const int64_t i = i0 + r / plan.G;
      const RangeBlocks& blocks = b.blocks[i - i0];
      if (blocks.count == 0) continue;
      steps.rows(query(i, first_head + r % plan.G), b.o + r * ld, r);
      for (int64_t n = 0; n < blocks.count; ++n) {
        const PartKeys keys = part_keys(sel.shape, seg, blocks.block[n]);
        const int64_t at = pair.first_packed + blocks.block[n];
        steps.meet({scratch.keys + at * key_size, scratch.values + at * value_size, 0,
                    min64(keys.count, seg.range.hi(i) - keys.j0)});
      }
    }
  }
  steps.finish();
  take_gathered<Form>(plan, b.states, chunk_rows, b.o, b.state);
}

// The queries of a chunk as bf16x3. False: one of their numbers is too large, or none.
template <class Variant>
inline bool pack_chunk_as_bf16x3(const SelectChunk& chunk, SelectBuffers& b) {
  const AttentionPlan& plan = chunk.plan;
  const Segment& seg = chunk.seg();
  float* row = b.bf16x3;
  V top = zero();
  for (int64_t i = chunk.i0; i < chunk.i1; ++i) {
    for (int64_t g = 0; g < plan.G; ++g, row += b.ld_bf16x3) {
      const int64_t head = chunk.first_head() + g;
      top = Variant::split_row(plan.dtype, plan.query, seg.q + i * plan.q.row + head * plan.q.head,
                               plan.D, row, top);
    }
  }
  return Variant::small(top);
}

// A chunk over all its blocks on tiles. False: they cannot do it.
template <class Variant>
inline bool select_gathered(const SelectChunk& chunk, const ForwardScratch& scratch,
                            SelectBuffers& b) {
  if constexpr (Variant::kForm.terms > 1) {
    if (!blocks_are_plain(chunk, scratch) || !pack_chunk_as_bf16x3<Variant>(chunk, b)) return false;
    const auto query = [&](int64_t i, int64_t head) {
      return b.bf16x3 + chunk.row(i, head) * b.ld_bf16x3;
    };
    gathered_blocks<Bf16x3Gathered>(chunk, scratch, b.ld_bf16x3, query, b);
  } else {
    if (!gathered_steps_fit(chunk, scratch)) return false;
    const AttentionPlan& plan = chunk.plan;
    const float* words = static_cast<const float*>(plan.query) + chunk.seg().q / 2;
    const auto query = [&](int64_t i, int64_t head) {
      return words + (i * plan.q.row + head * plan.q.head) / 2;
    };
    gathered_blocks<BFloat16Gathered>(chunk, scratch, plan.q.head / 2, query, b);
  }
  return true;
}

// Outputs and states of a chunk over all its blocks.
template <class Variant>
inline void select_all_blocks(const SelectChunk& chunk, const ForwardScratch& scratch,
                              SelectBuffers& b) {
  const AttentionPlan& plan = chunk.plan;
  const SelectPair& pair = chunk.pair;
  const BlockShape& shape = chunk.sel.shape;
  const int64_t rows = chunk.rows();
  const auto all = [&](auto path, const auto& packed) {
    using Of = decltype(path);
    for (int64_t r = 0; r < rows; ++r) b.state[r] = SoftmaxState::empty();
    if (!select_blocks<Of>(chunk, packed, b)) {
      // Restarts from the maximum like forward_tile().
      for (int64_t r = 0; r < rows; ++r) b.state[r] = b.state[r].restart_from_max();
      select_blocks<Of>(chunk, packed, b);
    }
  };
  if constexpr (kRowsOnly<Variant>) {
    if (select_gathered<Variant>(chunk, scratch, b)) return;
  }
  if constexpr (Variant::kForm.terms > 1) {
    return all(FloatVariant{}, [&](int64_t, PartKeys keys) {
      const bool finite =
          pack_part<FloatVariant>(plan, pair, keys, shape.lanes, b.keys, b.values, b.tile.tmp);
      return PackedPart{b.keys, b.values, finite};
    });
  } else {
    const int64_t key_size = words<Variant>(plan.D) * shape.lanes;
    const int64_t value_size = words<Variant>(shape.lanes) * padded_row(plan.Dv);
    const int64_t past = pair.first_packed + pair.blocks * shape.parts;
    PrefetchQueue& prefetch = b.tile.prefetch;
    all(Variant{}, [&](int64_t at, PartKeys) {
      // Most likely the next one that the chunk meets; of a long sequence it comes from memory.
      prefetch.clear();
      if (at + 1 < past) {
        prefetch.add(scratch.keys + (at + 1) * key_size, key_size);
        prefetch.add(scratch.values + (at + 1) * value_size, value_size);
      }
      return PackedPart{scratch.keys + at * key_size, scratch.values + at * value_size,
                        scratch.finite[at]};
    });
  }
}

template <class Variant>
inline void select_chunk(const AttentionPlan& plan, const Selection& sel, const SelectPair& pair,
                         int64_t number, const ForwardScratch& scratch, SelectBuffers& b) {
  const Segment& seg = plan.segments[pair.segment];
  const int64_t i0 = number * pair.q_chunk, i1 = min64(i0 + pair.q_chunk, seg.q_len);
  const SelectChunk chunk = {plan, sel, pair, i0, i1};
  const int64_t ld = padded_row(plan.Dv), first_head = chunk.first_head();
  select_all_blocks<Variant>(chunk, scratch, b);
  for (int64_t r = 0; r < chunk.rows(); ++r) {
    const int64_t i = i0 + r / plan.G;
    const int32_t* blocks = selection_row(pair, sel, plan.N2, i);
    finish_row(plan, seg, i, first_head + r % plan.G, b.o + r * ld, b.state[r],
               [&](const auto& visit) {
                 for (int64_t c = 0; c < sel.count; ++c) {
                   if (blocks[c] < 0 || blocks[c] >= pair.blocks) continue;
                   const int64_t first = blocks[c] * sel.shape.block;
                   visit(first, min64(first + sel.shape.block, seg.kv_len));
                 }
               });
  }
}

// Packs all blocks of a wave's pairs; called by all members, which meet later.
template <class Variant>
inline void pack_parts(const Member& member, const AttentionPlan& plan, const BlockShape& shape,
                       const SelectWave& wave, const ForwardScratch& scratch,
                       const SelectBuffers& b) {
  const int64_t key_size = words<Variant>(plan.D) * shape.lanes;
  const int64_t value_size = words<Variant>(shape.lanes) * padded_row(plan.Dv);
  for (int64_t p = 0; p < wave.num_pairs; ++p) {
    const SelectPair& pair = wave.pairs[p];
    const Segment& seg = plan.segments[pair.segment];
    member.static_for(pair.blocks * shape.parts, [&](int64_t part) {
      const PartKeys keys = part_keys(shape, seg, part);
      const int64_t at = pair.first_packed + part;
      float *packed = scratch.keys + at * key_size, *values = scratch.values + at * value_size;
      float* tmp = Variant::kForm.terms > 1 ? b.bf16x3 : b.tile.tmp;
      scratch.finite[at] = pack_part<Variant>(plan, pair, keys, shape.lanes, packed, values, tmp);
    });
  }
}

template <class Variant>
void select_forward_wave(const AttentionPlan& plan, const Selection& sel, const SelectWave& wave,
                         const ForwardScratch& scratch, int64_t chunk_rows, int threads) {
  run_forward<Variant>(
      scratch, wave.num_chunks, threads,
      [&](Arena& arena) {
        return SelectBuffers::carve(arena, plan.D, plan.Dv, chunk_rows, Variant::kForm.terms > 1);
      },
      [&](const Member& member, SelectBuffers& b) {
        index_pairs(member, plan, sel, wave);
        pack_parts<Variant>(member, plan, sel.shape, wave, scratch, b);
      },
      [&](int64_t n, SelectBuffers& b) {
        // Later queries select more blocks under a causal mask: as in Schedule, they go first.
        const int64_t chunk = wave.num_chunks - 1 - n;
        int64_t p = 0;
        while (p + 1 < wave.num_pairs && wave.pairs[p + 1].first_chunk <= chunk) ++p;
        select_chunk<Variant>(plan, sel, wave.pairs[p], chunk - wave.pairs[p].first_chunk, scratch,
                              b);
      });
}

void select_forward_by_dtype(const AttentionPlan& plan, const Selection& sel,
                             const SelectWave& wave, const ForwardScratch& scratch,
                             int64_t chunk_rows, int threads) {
  if (plan.dtype == ElemType::kBFloat16)
    return select_forward_wave<VariantOfBFloat16>(plan, sel, wave, scratch, chunk_rows, threads);
  if (SplitFloatVariant::kForm.terms > 1 && blocks_fit_bf16x3(plan, sel.shape.block))
    return select_forward_wave<SplitFloatVariant>(plan, sel, wave, scratch, chunk_rows, threads);
  select_forward_wave<FloatVariant>(plan, sel, wave, scratch, chunk_rows, threads);
}

int64_t select_forward_thread_size(int64_t D, int64_t Dv, int64_t chunk_rows, bool as_bf16x3) {
  return measured([&](Arena& arena) { SelectBuffers::carve(arena, D, Dv, chunk_rows, as_bf16x3); });
}

}  // namespace
}  // namespace nsa::cpu
