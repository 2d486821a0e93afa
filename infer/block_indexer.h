// Inputs, attributes and output of BlockIndexer.
#pragma once

#include "infer/declare.h"

namespace nsa {

struct BlockIndexerInputs : Inputs {
  size_t query = required("query", Elements::kFloat, "T1, H > 0, d > 0");
  size_t key = required("key", Elements::kSameFloat, "T2?, Nk? > 0, d > 0");
  size_t weights = optional("weights", Elements::kFloat32, "T1, H");
  size_t actual_seq_qlen = required("actual_seq_qlen", Elements::kList);
  size_t actual_seq_kvlen = required("actual_seq_kvlen", Elements::kList);
  size_t q_offset = optional("q_offset", Elements::kList);
};
inline constexpr BlockIndexerInputs kBlockIndexerInputs;

struct BlockIndexerAttrs {
  int64_t block_size;  // tokens of a block
  int64_t block_count;
  int64_t head_groups = 0;  // 0: as many as key heads
  float scale = 1.0f;
  BlockScore score = BlockScore::kMax;
  int64_t init_blocks = 0, local_blocks = 0;
  int64_t compress_block_size = 0, compress_stride = 0;  // in tokens; 0: keys are tokens

  template <class Visitor>
  static void each(Visitor& attr) {
    using Self = BlockIndexerAttrs;
    attr.optional("score", &Self::score);
    attr.required("block_size", &Self::block_size, 1);
    attr.required("block_count", &Self::block_count, 1);
    attr.optional("head_groups", &Self::head_groups, 0);
    attr.optional("scale", &Self::scale);
    attr.optional("init_blocks", &Self::init_blocks, 0);
    attr.optional("local_blocks", &Self::local_blocks, 0);
    attr.optional("compress_block_size", &Self::compress_block_size, 0);
    attr.optional("compress_stride", &Self::compress_stride, 0);
  }
};

struct BlockIndexerOutputs : Outputs {
  size_t topk_indices = add("topk_indices", Result::kInt32, "T1, groups, block_count");
};
inline constexpr BlockIndexerOutputs kBlockIndexerOutputs;

}  // namespace nsa
