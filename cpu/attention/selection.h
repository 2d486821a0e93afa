// Work division of NsaSelectedAttention: the selection turned round, from block to queries.
#pragma once

#include "cpu/attention/grad_schedule.h"
#include "cpu/attention/plan.h"

namespace nsa::cpu {

// Selection blocks longer than a softmax tile are packed in several parts of equal length.
struct BlockShape {
  int64_t block;  // l', keys of a selection block
  int64_t parts;  // packed parts of a block
  int64_t part;   // keys of a part, at most kTileKeys
  int64_t lanes;  // padded part

  static BlockShape of(int64_t block, int64_t key_step) {
    const int64_t parts = ceil_div(block, kTileKeys), part = ceil_div(block, parts);
    return {block, parts, part, round_up(part, key_step)};
  }
};

struct Selection {
  const int32_t* topk;  // [T1, N2, count]
  int64_t count;
  BlockShape shape;
};

// Whether the forward can go through blocks with numbers in pieces, where there are tiles for them:
// float32 or float16, which are both exact in three; tiles of rows are heads of a query, and a
// block is four tiles of keys.
inline bool pieces_fit(const AttentionPlan& plan, int64_t block) {
  if (plan.dtype == ElemType::kBFloat16 || plan.G % 16 != 0 || plan.D % 32 != 0) return false;
  if (plan.bias.changes_scores() || plan.bias.drop) return false;
  // The scale is multiplied by a small power of two.
  return block > kBlockKeys - 32 && block <= kBlockKeys && plan.scale > 1e-15f &&
         plan.scale < 1e15f;
}

// One kv head of one segment. Block t is selected by queries[begin[t] .. begin[t + 1]), ascending;
// a query that names a block twice is there twice.
struct SelectPair : GradPair {
  int64_t blocks;      // of the segment
  int64_t first_row;   // of topk, the segment's first query
  int64_t first_tile;  // forward: sum of q_chunks before it in its wave
  int64_t* begin;      // [blocks + 1]
  int64_t* marks;      // [blocks] last query that named a block
  bool* repeats;       // some query names a block twice
  int32_t* queries;    // [q_len * count]
};

struct SelectWave {
  const SelectPair* pairs;
  int64_t num_pairs;
  int64_t num_tiles;  // forward: query chunks
  int64_t key_chunks, slots, steps;
};

}  // namespace nsa::cpu
