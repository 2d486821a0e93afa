// Inputs and outputs of NsaCompressAttentionInfer.
#pragma once

#include "infer/op.h"

namespace nsa {

struct NsaCompressAttentionInferInputs : Inputs {
  size_t query = required("query", Elements::kFloat);
  size_t key = required("key", Elements::kSameFloat);
  size_t value = required("value", Elements::kSameFloat);
  size_t block_table = optional("block_table", Elements::kInt32);
  size_t actual_seq_qlen = optional("actual_seq_qlen", Elements::kList);
  size_t actual_cmp_seq_kvlen = required("actual_cmp_seq_kvlen", Elements::kList);
  size_t actual_sel_seq_kvlen = optional("actual_sel_seq_kvlen", Elements::kList);
};
inline constexpr NsaCompressAttentionInferInputs kNsaCompressAttentionInferInputs;

struct NsaCompressAttentionInferOutputs : Outputs {
  size_t attention_out = add("attention_out");
  size_t topk_indices = add("topk_indices");
};
inline constexpr NsaCompressAttentionInferOutputs kNsaCompressAttentionInferOutputs;

}  // namespace nsa
