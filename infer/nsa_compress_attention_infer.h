// Inputs, attributes and outputs of NsaCompressAttentionInfer.
#pragma once

#include "infer/declare.h"

namespace nsa {

struct NsaCompressAttentionInferInputs : Inputs {
  size_t query = required("query", Elements::kFloat,
                          "T, N1 = head_num > 0, D > 0 with layout 'TND' | "
                          "B, S, N1 = head_num > 0, D > 0 with layout 'BSND'");
  size_t key = required("key", Elements::kSameFloat);
  size_t value = required("value", Elements::kSameFloat);
  size_t block_table = optional("block_table", Elements::kInt32);
  size_t actual_seq_qlen = optional("actual_seq_qlen", Elements::kRowList);
  size_t actual_cmp_seq_kvlen = required("actual_cmp_seq_kvlen", Elements::kRowList);
  size_t actual_sel_seq_kvlen = optional("actual_sel_seq_kvlen", Elements::kRowList);
};
inline constexpr NsaCompressAttentionInferInputs kNsaCompressAttentionInferInputs;

struct NsaCompressAttentionInferAttrs : SelectionAttrs {
  float scale_value;
  int64_t head_num;
  int64_t key_value_head_num;
  int64_t page_block_size;
  RowLayout layout = RowLayout::kTND;

  template <class Visitor>
  static void each(Visitor& attr) {
    using Self = NsaCompressAttentionInferAttrs;
    attr.required("scale_value", &Self::scale_value);
    attr.required("head_num", &Self::head_num, 1);
    attr.required("key_value_head_num", &Self::key_value_head_num, 1);
    attr.required("select_block_size", &Self::select_block_size, 1);
    attr.required("select_block_count", &Self::select_block_count, 1);
    attr.required("page_block_size", &Self::page_block_size);
    attr.required("compress_block_size", &Self::compress_block_size, 1);
    attr.required("compress_stride", &Self::compress_stride, 1);
    attr.optional("layout", &Self::layout);
    attr.optional("init_blocks", &Self::init_blocks, 0);
    attr.optional("local_blocks", &Self::local_blocks, 0);
    attr.optional("importance", &Self::importance);
  }
};

struct NsaCompressAttentionInferOutputs : Outputs {
  size_t attention_out = add("attention_out", Result::kFloat, "T, N1, Dv | B, S, N1, Dv");
  size_t topk_indices = add(
      "topk_indices", Result::kInt32,
      "T, key_value_head_num, select_block_count | B, S, key_value_head_num, select_block_count");
};
inline constexpr NsaCompressAttentionInferOutputs kNsaCompressAttentionInferOutputs;

}  // namespace nsa
