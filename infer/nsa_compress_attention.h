// Inputs and outputs of NsaCompressAttention.
#pragma once

#include "infer/op.h"

namespace nsa {

struct NsaCompressAttentionInputs : Inputs {
  size_t query = required("query", Elements::kFloat);
  size_t key = required("key", Elements::kSameFloat);
  size_t value = required("value", Elements::kSameFloat);
  size_t topk_mask = optional("topk_mask", Elements::kMask);
  size_t atten_mask = optional("atten_mask", Elements::kMask);
  size_t actual_seq_qlen = required("actual_seq_qlen", Elements::kList);
  size_t actual_cmp_seq_kvlen = optional("actual_cmp_seq_kvlen", Elements::kList);
  size_t actual_sel_seq_kvlen = optional("actual_sel_seq_kvlen", Elements::kList);
  size_t q_offset = optional("q_offset", Elements::kList);
};
inline constexpr NsaCompressAttentionInputs kNsaCompressAttentionInputs;

struct NsaCompressAttentionOutputs : Outputs {
  size_t attention_out = add("attention_out");
  size_t topk_indices = add("topk_indices");
  size_t softmax_max = add("softmax_max");
  size_t softmax_sum = add("softmax_sum");
};
inline constexpr NsaCompressAttentionOutputs kNsaCompressAttentionOutputs;

}  // namespace nsa
