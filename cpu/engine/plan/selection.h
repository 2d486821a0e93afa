// Work division of NsaSelectedAttention: the selection turned round, from block to queries.
#pragma once

#include "cpu/engine/plan/grad_schedule.h"
#include "cpu/engine/plan/plan.h"

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

// heads_fit_pieces(), and a block is four tiles of keys.
inline bool blocks_fit_pieces(const AttentionPlan& plan, int64_t block) {
  return heads_fit_pieces(plan) && block > kBlockKeys - 32 && block <= kBlockKeys;
}

// A pair's selection turned round. Block t is selected by queries[begin[t] .. begin[t + 1]),
// ascending; a query that names a block twice is there once.
struct BlockIndex {
  int64_t blocks;     // of the segment
  int64_t first_row;  // of topk, the segment's first query
  int64_t* begin;     // [blocks + 1]
  int64_t* marks;     // [blocks] last query that named a block
  bool* repeats;      // some query names a block twice
  int32_t* queries;   // [q_len * min(count, blocks)]
};

struct SelectPair : ChunkedPair, BlockIndex {
  int64_t first_tile;  // sum of q_chunks before it in its wave
};

struct SelectGradPair : GradPair, BlockIndex {
  // The first block of chunk number `n` of keys, and the one past its last.
  int64_t first_block(int64_t n) const {
    return max64(chunk_of_keys(n) * kv_chunk, n < lead || lead == 0 ? 0 : 1);
  }
  int64_t past_block(int64_t n) const {
    return n < lead ? 1 : min64((chunk_of_keys(n) + 1) * kv_chunk, blocks);
  }
};

struct SelectWave {
  const SelectPair* pairs;
  int64_t num_pairs;
  int64_t num_tiles;  // query chunks
};

struct SelectGradWave {
  const SelectGradPair* pairs;
  int64_t num_pairs;
  int64_t key_chunks, slots, steps;
};

}  // namespace nsa::cpu
