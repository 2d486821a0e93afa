// Plan members of BlockIndexer besides the plan of its queries and keys.
#pragma once

#include "cpu/block_indexer/params.h"
#include "cpu/engine/plan/attention_plan.h"

namespace nsa::cpu {

// The key heads of the attention plan are those of the indexer; a group of G query heads, which
// share a key head, is one or several groups that choose blocks. The visible interval of a segment
// counts tokens, or compressed tokens with kSoftmaxMax. With kMean the packed keys of a segment,
// kv_len of them, are the means of its blocks.
struct IndexerPlan {
  BlockScore score;
  const float* weights;   // [T1, N1] or nullptr: ones
  int32_t* topk_indices;  // [T1, groups, count]
  int64_t groups;         // of all heads
  int64_t heads;          // of a group
  int64_t block_size, count;
  int64_t init_blocks, local_blocks;
  int64_t compress_block_size, compress_stride;
  int64_t max_lanes, max_blocks;  // packed keys and blocks of a segment
  int64_t max_queries, max_rows;  // of a tile

  // Blocks that query i may choose among; the last one is its own.
  int64_t candidates(const Segment& seg, int64_t i) const {
    return (seg.range.position + i) / block_size + 1;
  }
};

}  // namespace nsa::cpu
