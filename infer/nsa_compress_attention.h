// Inputs, attributes and outputs of NsaCompressAttention.
#pragma once

#include "infer/declare.h"

namespace nsa {

struct NsaCompressAttentionInputs : Inputs {
  size_t query = required("query", Elements::kFloat, "T1, N1 = head_num > 0, D > 0");
  size_t key = required("key", Elements::kSameFloat, "T2?, N2 > 0, D > 0");
  size_t value = required("value", Elements::kSameFloat, "T2, N2 > 0, Dv? > 0");
  size_t topk_mask = optional("topk_mask", Elements::kMask, "max Sq?, max blocks?");
  size_t atten_mask = optional("atten_mask", Elements::kMask, "max Sq?, max CmpSkv?");
  size_t actual_seq_qlen = required("actual_seq_qlen", Elements::kList);
  size_t actual_cmp_seq_kvlen = optional("actual_cmp_seq_kvlen", Elements::kList);
  size_t actual_sel_seq_kvlen = optional("actual_sel_seq_kvlen", Elements::kList);
  size_t q_offset = optional("q_offset", Elements::kList);
};
inline constexpr NsaCompressAttentionInputs kNsaCompressAttentionInputs;

struct NsaCompressAttentionAttrs : SelectionAttrs {
  float scale_value;
  int64_t head_num;
  bool causal = false;

  template <class Visitor>
  static void each(Visitor& attr) {
    using Self = NsaCompressAttentionAttrs;
    attr.required("scale_value", &Self::scale_value);
    attr.required("head_num", &Self::head_num, 1);
    attr.required("compress_block_size", &Self::compress_block_size, 1);
    attr.required("compress_stride", &Self::compress_stride, 1);
    attr.required("select_block_size", &Self::select_block_size, 1);
    attr.required("select_block_count", &Self::select_block_count, 1);
    attr.optional("causal", &Self::causal);
    attr.optional("init_blocks", &Self::init_blocks, 0);
    attr.optional("local_blocks", &Self::local_blocks, 0);
    attr.optional("importance", &Self::importance);
  }
};

struct NsaCompressAttentionOutputs : Outputs {
  size_t attention_out = add("attention_out", Result::kFloat, "T1, N1, Dv");
  size_t topk_indices = add("topk_indices", Result::kInt32, "T1, N2, select_block_count");
  size_t softmax_max = add("softmax_max", Result::kFloat32, "T1, N1, 8");
  size_t softmax_sum = add("softmax_sum", Result::kFloat32, "T1, N1, 8");
};
inline constexpr NsaCompressAttentionOutputs kNsaCompressAttentionOutputs;

}  // namespace nsa
