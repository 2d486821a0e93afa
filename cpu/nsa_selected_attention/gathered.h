// NsaSelectedAttention on tiles: ranges of blocks outside, queries inside, the heads of a query
// being the rows of a tile. Included by units that have GatheredSteps.
#pragma once

#include "cpu/nsa_selected_attention/kernel.h"

namespace nsa::cpu {
namespace {

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
  if (!heads_are_tiles(plan) || chunk.sel.shape.lanes != kBlockKeys) return false;
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

// select_blocks() on tiles: ranges of `range` blocks outside, queries inside. Rows of the queries
// are ldq words apart, head h of query i at query(i, h).
template <class Form, class Query>
inline void gathered_blocks(const SelectChunk& chunk, const ForwardScratch& scratch, int64_t range,
                            int64_t ldq, const Query& query, SelectBuffers& b) {
  const auto& [plan, sel, pair, i0, i1] = chunk;
  const Segment& seg = chunk.seg();
  const int64_t ld = padded_row(plan.Dv), first_head = chunk.first_head();
  const int64_t chunk_rows = chunk.rows();
  const int64_t key_size = Form::kForm.words(plan.D) * kBlockKeys;
  const int64_t value_size = words_of_values<Form>(plan.Dv);
  fill(b.o, chunk_rows * ld, 0.0f);
  b.states.clear(chunk_rows);
  b.tile.ahead.clear();
  GatheredSteps<Form> steps(plan, ldq, b.states, b.tile.gathered, &b.tile.ahead);
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

// The queries of a chunk in pieces. False: one of their numbers is too large, or none.
inline bool pack_chunk_in_pieces(const SelectChunk& chunk, SelectBuffers& b) {
  const AttentionPlan& plan = chunk.plan;
  const Segment& seg = chunk.seg();
  float* row = b.pieces;
  V top = zero();
  for (int64_t i = chunk.i0; i < chunk.i1; ++i) {
    for (int64_t g = 0; g < plan.G; ++g, row += b.ld_pieces) {
      const int64_t head = chunk.first_head() + g;
      top = pack_pieces(plan.dtype, plan.query, seg.q + i * plan.q.row + head * plan.q.head, plan.D,
                        row, top);
    }
  }
  return all_below(top, kLargestPacked);
}

template <class Path>
inline bool select_gathered(const SelectChunk& chunk, const ForwardScratch& scratch,
                            SelectBuffers& b) {
  if constexpr (Path::kForm.pieces > 1) {
    if (!blocks_are_plain(chunk, scratch) || !pack_chunk_in_pieces(chunk, b)) return false;
    const auto query = [&](int64_t i, int64_t head) {
      return b.pieces + chunk.row(i, head) * b.ld_pieces;
    };
    gathered_blocks<PiecesGathered>(chunk, scratch, kRangeBlocksOfPieces, b.ld_pieces, query, b);
  } else {
    if (!gathered_steps_fit(chunk, scratch)) return false;
    const AttentionPlan& plan = chunk.plan;
    const float* words = static_cast<const float*>(plan.query) + chunk.seg().q / 2;
    const auto query = [&](int64_t i, int64_t head) {
      return words + (i * plan.q.row + head * plan.q.head) / 2;
    };
    gathered_blocks<BFloat16Gathered>(chunk, scratch, kRangeBlocks, plan.q.head / 2, query, b);
  }
  return true;
}

}  // namespace
}  // namespace nsa::cpu
