// Inputs, attributes and outputs of NsaSelectedAttention and its gradient.
#pragma once

#include "infer/declare.h"

namespace nsa {

struct NsaSelectedAttentionInputs : Inputs {
  size_t query = required("query", Elements::kFloat, "T1, N1 = head_num > 0, D > 0");
  size_t key = required("key", Elements::kSameFloat, "T2?, N2 > 0, D > 0");
  size_t value = required("value", Elements::kSameFloat, "T2, N2 > 0, Dv? > 0");
  size_t topk_indices = required("topk_indices", Elements::kInt32, "T1, N2, select_block_count");
  size_t actual_seq_qlen = required("actual_seq_qlen", Elements::kList);
  size_t actual_seq_kvlen = required("actual_seq_kvlen", Elements::kList);
  size_t q_offset = optional("q_offset", Elements::kList);
};
inline constexpr NsaSelectedAttentionInputs kNsaSelectedAttentionInputs;

// Attributes of the forward and of the gradient.
struct NsaSelectedAttentionAttrs {
  float scale_value;
  int64_t head_num;
  int64_t select_block_size;  // tokens of a block
  int64_t select_block_count;
  bool causal = false;

  template <class Visitor>
  static void each(Visitor& attr) {
    using Self = NsaSelectedAttentionAttrs;
    attr.required("scale_value", &Self::scale_value);
    attr.required("head_num", &Self::head_num, 1);
    attr.required("select_block_size", &Self::select_block_size, 1);
    attr.required("select_block_count", &Self::select_block_count, 1);
    attr.optional("causal", &Self::causal);
  }
};

struct NsaSelectedAttentionOutputs : Outputs {
  size_t attention_out = add("attention_out", Result::kFloat, "T1, N1, Dv");
  size_t softmax_max = add("softmax_max", Result::kFloat32, "T1, N1, 8");
  size_t softmax_sum = add("softmax_sum", Result::kFloat32, "T1, N1, 8");
};
inline constexpr NsaSelectedAttentionOutputs kNsaSelectedAttentionOutputs;

struct NsaSelectedAttentionGradInputs : Inputs {
  size_t query = required("query", Elements::kFloat, "T1, N1 = head_num > 0, D > 0");
  size_t key = required("key", Elements::kSameFloat, "T2?, N2 > 0, D > 0");
  size_t value = required("value", Elements::kSameFloat, "T2, N2 > 0, Dv? > 0");
  size_t attention_out = required("attention_out", Elements::kSameFloat, "T1, N1, Dv");
  size_t attention_out_grad = required("attention_out_grad", Elements::kSameFloat, "T1, N1, Dv");
  size_t softmax_max = required("softmax_max", Elements::kFloat32, "T1, N1, 8");
  size_t softmax_sum = required("softmax_sum", Elements::kFloat32, "T1, N1, 8");
  size_t topk_indices = required("topk_indices", Elements::kInt32, "T1, N2, select_block_count");
  size_t actual_seq_qlen = required("actual_seq_qlen", Elements::kList);
  size_t actual_seq_kvlen = required("actual_seq_kvlen", Elements::kList);
  size_t q_offset = optional("q_offset", Elements::kList);
  size_t softmax_sum_grad = optional("softmax_sum_grad", Elements::kFloat32, "T1, N1, 8");
};
inline constexpr NsaSelectedAttentionGradInputs kNsaSelectedAttentionGradInputs;

struct NsaSelectedAttentionGradOutputs : Outputs {
  size_t dq = add("dq", Result::kFloat, "T1, N1, D");
  size_t dk = add("dk", Result::kFloat, "T2, N2, D");
  size_t dv = add("dv", Result::kFloat, "T2, N2, Dv");
};
inline constexpr NsaSelectedAttentionGradOutputs kNsaSelectedAttentionGradOutputs;

}  // namespace nsa
