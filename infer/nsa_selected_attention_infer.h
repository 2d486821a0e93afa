// Inputs and outputs of NsaSelectedAttentionInfer.
#pragma once

#include "infer/op.h"

namespace nsa {

struct NsaSelectedAttentionInferInputs : Inputs {
  size_t query = required("query", Elements::kFloat);
  size_t key = required("key", Elements::kSameFloat);
  size_t value = required("value", Elements::kSameFloat);
  size_t topk_indices = required("topk_indices", Elements::kInt32);
  size_t block_table = optional("block_table", Elements::kInt32);
  size_t actual_seq_qlen = optional("actual_seq_qlen", Elements::kList);
  size_t actual_seq_kvlen = required("actual_seq_kvlen", Elements::kList);
};
inline constexpr NsaSelectedAttentionInferInputs kNsaSelectedAttentionInferInputs;

struct NsaSelectedAttentionInferOutputs : Outputs {
  size_t attention_out = add("attention_out");
};
inline constexpr NsaSelectedAttentionInferOutputs kNsaSelectedAttentionInferOutputs;

}  // namespace nsa
