// Inputs, attributes and outputs of NsaSelectedAttentionInfer.
#pragma once

#include "infer/declare.h"

namespace nsa {

struct NsaSelectedAttentionInferInputs : Inputs {
  size_t query = required("query", Elements::kFloat,
                          "T, N1 = head_num > 0, D > 0 with layout 'TND' | "
                          "B, S, N1 = head_num > 0, D > 0 with layout 'BSND'");
  size_t key = required("key", Elements::kSameFloat);
  size_t value = required("value", Elements::kSameFloat);
  size_t topk_indices = required("topk_indices", Elements::kInt32,
                                 "T, N2, select_block_count | B, S, N2, select_block_count");
  size_t block_table = optional("block_table", Elements::kInt32);
  size_t actual_seq_qlen = optional("actual_seq_qlen", Elements::kRowList);
  size_t actual_seq_kvlen = required("actual_seq_kvlen", Elements::kRowList);
};
inline constexpr NsaSelectedAttentionInferInputs kNsaSelectedAttentionInferInputs;

struct NsaSelectedAttentionInferAttrs {
  float scale_value;
  int64_t head_num;
  int64_t key_value_head_num;
  int64_t select_block_size;  // tokens of a block
  int64_t select_block_count;
  int64_t page_block_size;
  RowLayout layout = RowLayout::kBSND;

  template <class Visitor>
  static void each(Visitor& attr) {
    using Self = NsaSelectedAttentionInferAttrs;
    attr.required("scale_value", &Self::scale_value);
    attr.required("head_num", &Self::head_num, 1);
    attr.required("key_value_head_num", &Self::key_value_head_num, 1);
    attr.required("select_block_size", &Self::select_block_size, 1);
    attr.required("select_block_count", &Self::select_block_count, 1);
    attr.required("page_block_size", &Self::page_block_size);
    attr.optional("layout", &Self::layout);
  }
};

struct NsaSelectedAttentionInferOutputs : Outputs {
  size_t attention_out = add("attention_out", Result::kFloat, "T, N1, Dv | B, S, N1, Dv");
};
inline constexpr NsaSelectedAttentionInferOutputs kNsaSelectedAttentionInferOutputs;

}  // namespace nsa
