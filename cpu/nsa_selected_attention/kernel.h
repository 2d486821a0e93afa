// NsaSelectedAttention. A chunk of queries goes through the key blocks in ascending order; all
// (query, head) rows of the chunk that selected a block form the rows of its matmuls, so a block is
// read once per chunk, whatever the group size.
#pragma once

#include "cpu/engine/plan/selection_index.h"
#include "cpu/engine/step/forward_wave.h"
#include "cpu/engine/step/softmax_rows.h"

namespace nsa::cpu {
namespace {

// Keys of packed part number n of a pair: [j0, j0 + count).
struct PartKeys {
  int64_t j0, count;
};

inline PartKeys part_keys(const BlockShape& shape, const Segment& seg, int64_t n) {
  const int64_t start = n / shape.parts * shape.block, j0 = start + n % shape.parts * shape.part;
  const int64_t end = min64(min64(start + shape.block, j0 + shape.part), seg.kv_len);
  return {j0, max64(0, end - j0)};
}

// Called by all members, which meet later.
inline void index_pairs(const Member& member, const AttentionPlan& plan, const Selection& sel,
                        const SelectWave& wave) {
  member.take(wave.num_pairs, [&](int64_t p) {
    const SelectPair& pair = wave.pairs[p];
    index_selection(pair, plan.segments[pair.segment], sel, plan.N2);
  });
}

#ifdef NSA_ISA_AMX
// Blocks that queries pass in turn: what is packed of them stays in the second-level cache.
constexpr int64_t kRangeBlocks = 20;
// The same in pieces.
constexpr int64_t kRangeBlocksOfPieces = 8;

// Those of them that a query selected.
struct RangeBlocks {
  int32_t count, block[kRangeBlocks];
};
#endif

struct SelectBuffers {
  TileBuffers tile;     // of the rows of a tile; o holds one part's P V
  float* o;             // [chunk rows, Dv padded]
  SoftmaxState* state;  // [chunk rows]
#ifdef NSA_ISA_AMX
  GatheredStates states;  // [chunk rows]
  RangeBlocks* blocks;    // [queries of a chunk, where these are whole tiles]
  float* pieces;          // [chunk rows, ld_pieces] queries in pieces
  int64_t ld_pieces;
  float* keys;  // a part's keys and values as floats, [D, kBlockKeys] and [kBlockKeys, Dv padded]
  float* values;
#endif

  static SelectBuffers carve(Arena& arena, int64_t D, int64_t Dv, int64_t chunk_rows,
                             [[maybe_unused]] bool in_pieces) {
    SelectBuffers b{};
    b.tile = TileBuffers::carve(arena, D, Dv, kTileRows);
    b.o = arena.take<float>(chunk_rows * padded_row(Dv));
    b.state = arena.take<SoftmaxState>(chunk_rows);
#ifdef NSA_ISA_AMX
    b.states = GatheredStates::carve(arena, chunk_rows);
    b.blocks = arena.take<RangeBlocks>(ceil_div(chunk_rows, kAmxTile));
    if (in_pieces) {
      b.ld_pieces = PiecesPath::kForm.words(D) + kAmxTile;
      b.pieces = arena.take<float>(chunk_rows * b.ld_pieces);
      b.keys = arena.take<float>(D * kBlockKeys);
      b.values = arena.take<float>(kBlockKeys * padded_row(Dv));
    }
#endif
    return b;
  }
};

// Rows of a tile before `past` and the lanes of a part that they read.
struct CutRows {
  int64_t past, lanes;
};

// Rows from r0 on. Where that one does not see all keys of the part, only those whose visible keys
// end near its own: less work on masked pairs along the diagonal.
template <class Path>
inline CutRows cut_gathered(PartKeys keys, int64_t lanes, const GatheredRows& c, int64_t r0) {
  constexpr int64_t step = key_step<Path>(), cut = cut_rows(Path::kForm);
  const RowRange& range = c.seg.range;
  if (range.hi(c.query(r0)) >= keys.j0 + keys.count) return {c.rows(), lanes};
  const int64_t past = past_cut(range, c, r0, c.rows(), cut, step);
  const int64_t seen = min64(keys.count, range.hi(c.query(past - 1)) - keys.j0);
  return {past, max64(step, min64(lanes, round_up(seen, step)))};
}

// The softmax step of row r, whatever hides its keys or counts them twice.
template <class Path>
inline void masked_select_row(const AttentionPlan& plan, const Segment& seg, int64_t i,
                              int64_t head, PartKeys keys, int64_t lanes, float weight, int64_t r,
                              TileBuffers& b) {
  float* row = b.s + r * kScoreRow;
  if (keys.count == lanes && seg.range.hi(i) >= keys.j0 + keys.count) {
    b.factor[r] = softmax_step<Path>(row, lanes, plan.scale, b.state[r], weight);
    return;
  }
  bias_row(plan.bias, seg, head, i, keys.j0, keys.count, plan.scale, row, b.tmp);
  fill(row + keys.count, lanes - keys.count, -kInfinity);
  b.factor[r] = online_softmax_row(row, lanes, 1.0f, b.state[r], weight);
  pack_probabilities<Path>(row, lanes);
}

#ifdef NSA_ISA_AMX
// Tiles of the rows of a step, kAmxTile heads of a query each, where they lie in memory.
struct GatheredTiles {
  static constexpr int64_t kMost = kTileRows / kAmxTile;
  int64_t count = 0;
  const float* q[kMost];
  float* o[kMost];

  // out(i, head): where the output of a head of a query is summed.
  template <class Out>
  static GatheredTiles of(const AttentionPlan& plan, const GatheredRows& c, const Out& out) {
    GatheredTiles tiles;
    const float* words = static_cast<const float*>(plan.query);
    c.each_query([&](int64_t, int64_t heads, int64_t i, int64_t head) {
      for (int64_t n = head; n < head + heads; n += kAmxTile) {
        tiles.q[tiles.count] = words + (c.seg.q + i * plan.q.row + n * plan.q.head) / 2;
        tiles.o[tiles.count++] = out(i, n);
      }
    });
    return tiles;
  }

  // block(number of tiles, rows) for all tiles, two at a time, the last one perhaps alone: a(n) and
  // c(n) give where the rows of A and C of tile n begin, lda and ldc apart.
  template <class A, class C, class Block>
  void each_two(int64_t lda, int64_t ldc, const A& a, const C& c, const Block& block) const {
    int64_t n = 0;
    for (; n + 2 <= count; n += 2)
      block(std::integral_constant<int, 2>{}, AmxRows{a(n), a(n + 1), lda, c(n), c(n + 1), ldc});
    if (n < count)
      block(std::integral_constant<int, 1>{}, AmxRows{a(n), a(n), lda, c(n), c(n), ldc});
  }
};

// s = Q K^T of the tiles.
inline void tile_scores(const AttentionPlan& plan, const GatheredTiles& tiles, const float* kt,
                        int64_t lanes, float* s) {
  tiles.each_two(
      plan.q.head / 2, kScoreRow, [&](int64_t n) { return tiles.q[n]; },
      [&](int64_t n) { return s + n * kAmxTile * kScoreRow; },
      [&](auto count, AmxRows rows) {
        for (int64_t n = 0; n < lanes; n += 2 * kAmxTile) {
          amx_block<decltype(count)::value, 2>(plan.D / 2, rows, kt + n, lanes, false);
          rows.c += 2 * kAmxTile;
          rows.lower_c += 2 * kAmxTile;
        }
      });
}

// O += P V of the tiles, after their rows have been multiplied by factors.
inline void add_tile_values(const AttentionPlan& plan, const GatheredTiles& tiles, const float* p,
                            int64_t lanes, const float* v, const float* factor) {
  const int64_t ld = padded_row(plan.Dv), out_lanes = round_up(plan.Dv, kLanePad);
  for (int64_t r = 0; r < tiles.count * kAmxTile; ++r) {
    if (factor[r] != 1.0f)
      scale_row(tiles.o[r / kAmxTile] + r % kAmxTile * ld, out_lanes, factor[r]);
  }
  tiles.each_two(
      kScoreRow, ld, [&](int64_t n) { return p + n * kAmxTile * kScoreRow; },
      [&](int64_t n) { return tiles.o[n]; },
      [&](auto count, AmxRows rows) {
        constexpr int kCount = decltype(count)::value;
        int64_t d = 0;
        for (; d + 2 * kAmxTile <= out_lanes; d += 2 * kAmxTile) {
          amx_block<kCount, 2>(lanes / 2, rows, v + d, ld, true);
          rows.c += 2 * kAmxTile;
          rows.lower_c += 2 * kAmxTile;
        }
        if (d < out_lanes) amx_block<kCount, 1>(lanes / 2, rows, v + d, ld, true);
      });
}
#endif

// Scores of gathered rows with keys [0, used) of a part of `lanes`. Rows are read where they are if
// they are words already, otherwise packed.
template <class Path>
inline void select_scores(const AttentionPlan& plan, const GatheredRows& c, const float* kt,
                          int64_t lanes, int64_t used, TileBuffers& b) {
  const int64_t depth = words<Path>(plan.D);
  const Output scores{b.s, kScoreRow};
  if constexpr (!kRowsOnly<Path>) {
    if (rows_are_words<Path>(plan.dtype, plan.query, plan.D, plan.q)) {
      constexpr int64_t per_word = Path::kForm.per_word;
      const float *query = static_cast<const float*>(plan.query), *rows[kTileRows];
      each_row(c, [&](int64_t r, int64_t i, int64_t head) {
        rows[r] = query + (c.seg.q + i * plan.q.row + head * plan.q.head) / per_word;
      });
      return key_products<Path>(RowList{rows}, c.rows(), depth, kt, lanes, 0, used, scores,
                                &b.ahead);
    }
  }
  each_row(c, [&](int64_t r, int64_t i, int64_t head) {
    pack_row<Path>(plan.dtype, plan.query, c.seg.q + i * plan.q.row + head * plan.q.head, plan.D,
                   b.q + r * depth);
  });
  key_products<Path>(Operand{b.q, depth, 1}, c.rows(), depth, kt, lanes, 0, used, scores, &b.ahead);
}

// Output row r of gathered rows, out(i, head), times its factor, plus P V.
template <class Path, class Out>
inline void add_select_values(const AttentionPlan& plan, const GatheredRows& c, bool finite,
                              int64_t lanes, const float* v, TileBuffers& b, const Out& out) {
  const int64_t ld = padded_row(plan.Dv), out_lanes = round_up(plan.Dv, kLanePad);
  const Operand p = {b.s, kScoreRow, 1};
  float* rows[kTileRows];
  each_row(c, [&](int64_t r, int64_t i, int64_t head) { rows[r] = out(i, head); });
  if constexpr (!kRowsOnly<Path>) {
    if (finite)
      return matmul_rows<typename Path::Step>(c.rows(), out_lanes, words<Path>(lanes), p,
                                              Lanes{v, ld}, OutputList{rows, 0}, Into::kAddScaled,
                                              b.factor, &b.ahead);
  }
  multiply_values<Path>(finite, c.rows(), out_lanes, words<Path>(lanes), p, v, ld, b.o, ld,
                        Into::kReplace);
  for (int64_t r = 0; r < c.rows(); ++r) {
    const V by = set1(b.factor[r]);
    for (int64_t d = 0; d < out_lanes; d += W)
      store(rows[r] + d, fma(load(rows[r] + d), by, load(b.o + r * ld + d)));
  }
}

// One part of block t against one tile of gathered rows, of the chunk that starts at query i0. They
// see nothing past the part's first `used` keys.
template <class Path>
inline void select_tile(const AttentionPlan& plan, const Selection& sel, const SelectPair& pair,
                        int64_t t, const GatheredRows& c, int64_t i0, PartKeys keys, int64_t used,
                        const float* kt, const float* v, bool finite, SelectBuffers& b) {
  const int64_t ld = padded_row(plan.Dv), rows = c.rows(), lanes = sel.shape.lanes;
  float *s = b.tile.s, *factor = b.tile.factor;
  SoftmaxState* states = b.tile.state;
  auto of_chunk = [&](int64_t i, int64_t head) { return (i - i0) * plan.G + head - c.first_head; };
#ifdef NSA_ISA_AMX
  const bool in_place = kRowsOnly<Path> && heads_are_tiles(plan);
  GatheredTiles tiles;
  if (in_place) {
    tiles =
        GatheredTiles::of(plan, c, [&](int64_t i, int64_t n) { return b.o + of_chunk(i, n) * ld; });
    tile_scores(plan, tiles, kt, lanes, s);
  } else {
    select_scores<Path>(plan, c, kt, lanes, used, b.tile);
  }
#else
  select_scores<Path>(plan, c, kt, lanes, used, b.tile);
#endif
  keys.count = min64(keys.count, used);
  const bool bare = !plan.bias.changes_scores() && plan.scale > 0.0f && !*pair.repeats;
  // hi does not decrease along the list: the rows that see all keys are the last ones.
  int64_t plain = 0;
  c.each_query([&](int64_t r, int64_t heads, int64_t i, int64_t head) {
    copy_states(b.state + of_chunk(i, head), heads, states + r);
    const bool whole = keys.count == used && c.seg.range.hi(i) >= keys.j0 + keys.count;
    if (whole && !*pair.repeats) return;
    if (bare) {
      for (int64_t n = r; n < r + heads; ++n)
        hide_unseen(c.seg.range, i, keys.j0, keys.count, used, s + n * kScoreRow);
      return;
    }
    const float weight = multiplicity(pair, sel, plan.N2, i, t);
    plain = r + heads;
    for (int64_t n = r; n < plain; ++n) {
      masked_select_row<Path>(plan, c.seg, i, head + n - r, keys, used, weight, n, b.tile);
    }
  });
  softmax_rows<Path>(s + plain * kScoreRow, rows - plain, used, plan.scale, states + plain,
                     factor + plain);
  c.each_query([&](int64_t r, int64_t heads, int64_t i, int64_t head) {
    copy_states(states + r, heads, b.state + of_chunk(i, head));
  });
#ifdef NSA_ISA_AMX
  if (in_place && finite) return add_tile_values(plan, tiles, s, lanes, v, factor);
#endif
  add_select_values<Path>(plan, c, finite, used, v, b.tile,
                          [&](int64_t i, int64_t head) { return b.o + of_chunk(i, head) * ld; });
}

// A part of a block as products read it.
struct PackedPart {
  const float *keys, *values;
  bool finite;
};

// Packs `keys` of a pair. Gives whether the values are numbers of an exponent below kLargeExponent.
template <class Path>
inline bool pack_part(const AttentionPlan& plan, const SelectPair& pair, PartKeys keys,
                      int64_t lanes, float* packed_keys, float* values, float* tmp) {
  const Segment& seg = plan.segments[pair.segment];
  const int64_t ld = padded_row(plan.Dv);
  const int64_t k = seg.k + pair.kv_head * plan.k.head + keys.j0 * plan.k.row;
  const int64_t v = seg.v + pair.kv_head * plan.v.head + keys.j0 * plan.v.row;
  pack_transposed<Path>(plan.dtype, plan.key, k, plan.k.row, keys.count, plan.D, lanes, packed_keys,
                        tmp);
  pack_rows<Path>(plan.dtype, plan.value, v, plan.v.row, keys.count, plan.Dv, lanes, ld, values);
  return packed_finite<Path>(values, words<Path>(lanes) * ld, kLargeExponent);
}

// All blocks against the queries [i0, i1) that selected them. packed(at, keys): part number `at` of
// all packed ones. False: a value that some row met is no number.
template <class Path, class Packed>
inline bool select_blocks(const AttentionPlan& plan, const Selection& sel, const SelectPair& pair,
                          int64_t i0, int64_t i1, const Packed& packed, SelectBuffers& b) {
  using Step = typename Path::Step;
  const Segment& seg = plan.segments[pair.segment];
  const BlockShape& shape = sel.shape;
  const int64_t first_head = pair.kv_head * plan.G;
  bool numbers = true;
  fill(b.o, (i1 - i0) * plan.G * padded_row(plan.Dv), 0.0f);
  for (int64_t t = 0; t < pair.blocks; ++t) {
    const int32_t* end = pair.queries + pair.begin[t + 1];
    const int32_t* list = first_query(pair.queries + pair.begin[t], end, i0);
    const int64_t rows = (first_query(list, end, i1) - list) * plan.G;
    for (int64_t part = t * shape.parts; part < (t + 1) * shape.parts; ++part) {
      const PartKeys keys = part_keys(shape, seg, part);
      if (keys.count == 0) break;
      if (rows == 0) break;
      const PackedPart of = packed(pair.first_packed + part, keys);
      b.tile.ahead.over(matmul_steps<Step>(rows, shape.lanes) + matmul_steps<Step>(rows, plan.Dv));
      numbers = numbers && of.finite;
      for (int64_t r = 0, count; r < rows; r += count) {
        GatheredRows c{seg, first_head, plan.G, list, r, min64(kTileRows, rows - r)};
        int64_t used = shape.lanes;
        if (!kRowsOnly<Path>) {
          const CutRows cut = cut_gathered<Path>(keys, shape.lanes, c, 0);
          c.count = cut.past;
          used = cut.lanes;
        }
        count = c.count;
        select_tile<Path>(plan, sel, pair, t, c, i0, keys, used, of.keys, of.values, of.finite, b);
      }
    }
  }
  return numbers;
}

#ifdef NSA_ISA_AMX
// The queries [i0, i1) that selected a block.
struct BlockQueries {
  const int32_t *first, *past;

  static BlockQueries of(const SelectPair& pair, int64_t t, int64_t i0, int64_t i1) {
    const int32_t* end = pair.queries + pair.begin[t + 1];
    const int32_t* first = first_query(pair.queries + pair.begin[t], end, i0);
    return {first, first_query(first, end, i1)};
  }
};

// Whether no query of a chunk names a block twice, nor one that is not finite.
inline bool blocks_are_plain(const SelectPair& pair, int64_t i0, int64_t i1,
                             const ForwardScratch& scratch) {
  if (*pair.repeats) return false;
  for (int64_t t = 0; t < pair.blocks; ++t) {
    if (scratch.finite[pair.first_packed + t]) continue;
    const BlockQueries queries = BlockQueries::of(pair, t, i0, i1);
    if (queries.first < queries.past) return false;
  }
  return true;
}

// Whether GatheredSteps can do a chunk with words of bf16.
inline bool gathered_steps_fit(const AttentionPlan& plan, const Selection& sel,
                               const SelectPair& pair, int64_t i0, int64_t i1,
                               const ForwardScratch& scratch) {
  if (!heads_are_tiles(plan) || sel.shape.lanes != kBlockKeys) return false;
  if (plan.bias.changes_scores() || plan.bias.drop || !(plan.scale > 0.0f)) return false;
  return blocks_are_plain(pair, i0, i1, scratch);
}

// The blocks [t0, t1) that each query of a chunk selected, in order.
inline void list_blocks(const SelectPair& pair, int64_t t0, int64_t t1, int64_t i0, int64_t i1,
                        RangeBlocks* of) {
  for (int64_t i = i0; i < i1; ++i) of[i - i0].count = 0;
  for (int64_t t = t0; t < t1; ++t) {
    const BlockQueries queries = BlockQueries::of(pair, t, i0, i1);
    for (const int32_t* i = queries.first; i < queries.past; ++i) {
      RangeBlocks& blocks = of[*i - i0];
      blocks.block[blocks.count++] = static_cast<int32_t>(t);
    }
  }
}

// select_blocks() on tiles: ranges of `range` blocks outside, queries inside. Rows of the queries
// are ldq words apart, head h of query i at query(i, h).
template <class Form, class Query>
inline void gathered_blocks(const AttentionPlan& plan, const Selection& sel, const SelectPair& pair,
                            int64_t i0, int64_t i1, const ForwardScratch& scratch, int64_t range,
                            int64_t ldq, const Query& query, SelectBuffers& b) {
  const Segment& seg = plan.segments[pair.segment];
  const int64_t ld = padded_row(plan.Dv), first_head = pair.kv_head * plan.G;
  const int64_t chunk_rows = (i1 - i0) * plan.G;
  const int64_t key_size = Form::kForm.words(plan.D) * kBlockKeys;
  const int64_t value_size = words_of_values<Form>(plan.Dv);
  fill(b.o, chunk_rows * ld, 0.0f);
  b.states.clear(chunk_rows);
  b.tile.ahead.clear();
  GatheredSteps<Form> steps(plan, ldq, b.states, b.tile.gathered, &b.tile.ahead);
  for (int64_t t0 = 0; t0 < pair.blocks; t0 += range) {
    list_blocks(pair, t0, min64(t0 + range, pair.blocks), i0, i1, b.blocks);
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

// Queries [i0, i1) of a pair in pieces. False: one of their numbers is too large, or none.
inline bool pack_chunk_in_pieces(const AttentionPlan& plan, const SelectPair& pair, int64_t i0,
                                 int64_t i1, SelectBuffers& b) {
  const Segment& seg = plan.segments[pair.segment];
  float* row = b.pieces;
  V top = zero();
  for (int64_t i = i0; i < i1; ++i) {
    for (int64_t g = 0; g < plan.G; ++g, row += b.ld_pieces) {
      const int64_t head = pair.kv_head * plan.G + g;
      top = pack_pieces(plan.dtype, plan.query, seg.q + i * plan.q.row + head * plan.q.head, plan.D,
                        row, top);
    }
  }
  return all_below(top, kLargestPacked);
}

// A part in the form of PiecesGathered, as pack_block_in_pieces().
inline bool pack_part_in_pieces(const AttentionPlan& plan, const SelectPair& pair, PartKeys keys,
                                float* packed_keys, float* values, float* rows) {
  const Segment& seg = plan.segments[pair.segment];
  return pack_block_in_pieces(plan, seg.k + pair.kv_head * plan.k.head + keys.j0 * plan.k.row,
                              seg.v + pair.kv_head * plan.v.head + keys.j0 * plan.v.row, keys.count,
                              packed_keys, values, rows);
}
#endif

// Outputs and states of a chunk, queries [i0, i1), over all their blocks.
template <class Path>
inline void select_all_blocks(const AttentionPlan& plan, const Selection& sel,
                              const SelectPair& pair, int64_t i0, int64_t i1,
                              const ForwardScratch& scratch, SelectBuffers& b) {
  const int64_t rows = (i1 - i0) * plan.G;
  const auto all = [&](auto path, const auto& packed) {
    using Of = decltype(path);
    for (int64_t r = 0; r < rows; ++r) b.state[r] = SoftmaxState::empty();
    if (!select_blocks<Of>(plan, sel, pair, i0, i1, packed, b)) {
      // As in forward_tile().
      for (int64_t r = 0; r < rows; ++r) b.state[r] = b.state[r].again();
      select_blocks<Of>(plan, sel, pair, i0, i1, packed, b);
    }
  };
#ifdef NSA_ISA_AMX
  if constexpr (Path::kForm.pieces > 1) {
    if (blocks_are_plain(pair, i0, i1, scratch) && pack_chunk_in_pieces(plan, pair, i0, i1, b)) {
      const auto query = [&](int64_t i, int64_t head) {
        return b.pieces + ((i - i0) * plan.G + head - pair.kv_head * plan.G) * b.ld_pieces;
      };
      return gathered_blocks<PiecesGathered>(plan, sel, pair, i0, i1, scratch, kRangeBlocksOfPieces,
                                             b.ld_pieces, query, b);
    }
    return all(FloatPath{}, [&](int64_t, PartKeys keys) {
      const bool finite =
          pack_part<FloatPath>(plan, pair, keys, sel.shape.lanes, b.keys, b.values, b.tile.tmp);
      return PackedPart{b.keys, b.values, finite};
    });
  } else {
    if (kRowsOnly<Path> && gathered_steps_fit(plan, sel, pair, i0, i1, scratch)) {
      const float* words =
          static_cast<const float*>(plan.query) + plan.segments[pair.segment].q / 2;
      const auto query = [&](int64_t i, int64_t head) {
        return words + (i * plan.q.row + head * plan.q.head) / 2;
      };
      return gathered_blocks<BFloat16Gathered>(plan, sel, pair, i0, i1, scratch, kRangeBlocks,
                                               plan.q.head / 2, query, b);
    }
#else
  {
#endif
    const int64_t key_size = words<Path>(plan.D) * sel.shape.lanes;
    const int64_t value_size = words<Path>(sel.shape.lanes) * padded_row(plan.Dv);
    const int64_t past = pair.first_packed + pair.blocks * sel.shape.parts;
    Ahead& ahead = b.tile.ahead;
    all(Path{}, [&](int64_t at, PartKeys) {
      // Most likely the next one that the chunk meets; of a long sequence it comes from memory.
      ahead.clear();
      if (at + 1 < past) {
        ahead.add(scratch.keys + (at + 1) * key_size, key_size);
        ahead.add(scratch.values + (at + 1) * value_size, value_size);
      }
      return PackedPart{scratch.keys + at * key_size, scratch.values + at * value_size,
                        scratch.finite[at]};
    });
  }
}

template <class Path>
inline void select_chunk(const AttentionPlan& plan, const Selection& sel, const SelectPair& pair,
                         int64_t chunk, const ForwardScratch& scratch, SelectBuffers& b) {
  const Segment& seg = plan.segments[pair.segment];
  const int64_t i0 = chunk * pair.q_chunk, i1 = min64(i0 + pair.q_chunk, seg.q_len);
  const int64_t chunk_rows = (i1 - i0) * plan.G, first_head = pair.kv_head * plan.G;
  const int64_t ld = padded_row(plan.Dv);
  select_all_blocks<Path>(plan, sel, pair, i0, i1, scratch, b);
  for (int64_t r = 0; r < chunk_rows; ++r) {
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
template <class Path>
inline void pack_parts(const Member& member, const AttentionPlan& plan, const BlockShape& shape,
                       const SelectWave& wave, const ForwardScratch& scratch,
                       const SelectBuffers& b) {
  const int64_t key_size = words<Path>(plan.D) * shape.lanes;
  const int64_t value_size = words<Path>(shape.lanes) * padded_row(plan.Dv);
  for (int64_t p = 0; p < wave.num_pairs; ++p) {
    const SelectPair& pair = wave.pairs[p];
    const Segment& seg = plan.segments[pair.segment];
    member.share(pair.blocks * shape.parts, [&](int64_t part) {
      const PartKeys keys = part_keys(shape, seg, part);
      const int64_t at = pair.first_packed + part;
      float *packed = scratch.keys + at * key_size, *values = scratch.values + at * value_size;
#ifdef NSA_ISA_AMX
      if constexpr (Path::kForm.pieces > 1) {
        scratch.finite[at] = pack_part_in_pieces(plan, pair, keys, packed, values, b.pieces);
        return;
      } else
#endif
        scratch.finite[at] =
            pack_part<Path>(plan, pair, keys, shape.lanes, packed, values, b.tile.tmp);
    });
  }
}

template <class Path>
void select_forward_wave(const AttentionPlan& plan, const Selection& sel, const SelectWave& wave,
                         const ForwardScratch& scratch, int64_t chunk_rows, int threads) {
  run_forward<Path>(
      scratch, wave.num_tiles, threads,
      [&](Arena& arena) {
        return SelectBuffers::carve(arena, plan.D, plan.Dv, chunk_rows, Path::kForm.pieces > 1);
      },
      [&](const Member& member, SelectBuffers& b) {
        index_pairs(member, plan, sel, wave);
        pack_parts<Path>(member, plan, sel.shape, wave, scratch, b);
      },
      [&](int64_t n, SelectBuffers& b) {
        // Later queries select more blocks under a causal mask: as in Schedule, they go first.
        const int64_t tile = wave.num_tiles - 1 - n;
        int64_t p = 0;
        while (p + 1 < wave.num_pairs && wave.pairs[p + 1].first_tile <= tile) ++p;
        select_chunk<Path>(plan, sel, wave.pairs[p], tile - wave.pairs[p].first_tile, scratch, b);
      });
}

void select_forward(const AttentionPlan& plan, const Selection& sel, const SelectWave& wave,
                    const ForwardScratch& scratch, int64_t chunk_rows, int threads) {
  if (plan.dtype == ElemType::kBFloat16)
    return select_forward_wave<PathOfBFloat16>(plan, sel, wave, scratch, chunk_rows, threads);
#ifdef NSA_ISA_AMX
  if (blocks_fit_pieces(plan, sel.shape.block))
    return select_forward_wave<PiecesPath>(plan, sel, wave, scratch, chunk_rows, threads);
#endif
  select_forward_wave<FloatPath>(plan, sel, wave, scratch, chunk_rows, threads);
}

int64_t select_forward_thread_size(int64_t D, int64_t Dv, int64_t chunk_rows, bool in_pieces) {
  return measured([&](Arena& arena) { SelectBuffers::carve(arena, D, Dv, chunk_rows, in_pieces); });
}

}  // namespace
}  // namespace nsa::cpu
