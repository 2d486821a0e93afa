// Inputs, attributes and outputs of SparseFlashAttention and its gradient.
#pragma once

#include "infer/declare.h"

namespace nsa {

struct SparseFlashAttentionInputs : Inputs {
  size_t query = required("query", Elements::kFloat);
  size_t key = required("key", Elements::kSameFloat);
  size_t value = required("value", Elements::kSameFloat);
  size_t sparse_indices = required("sparse_indices", Elements::kInt32);
  size_t query_rope = optional("query_rope", Elements::kSameFloat);
  size_t key_rope = optional("key_rope", Elements::kSameFloat);
  size_t sinks = optional("sinks", Elements::kFloat32);
  size_t actual_seq_lengths_query = optional("actual_seq_lengths_query", Elements::kList);
  size_t actual_seq_lengths_kv = optional("actual_seq_lengths_kv", Elements::kList);
  size_t block_table = optional("block_table", Elements::kInt32);
};
inline constexpr SparseFlashAttentionInputs kSparseFlashAttentionInputs;

// Attributes of the forward and of the gradient.
struct SparseFlashAttentionAttrs {
  float scale_value;
  int64_t sparse_block_size = 1;  // tokens that an index stands for
  int64_t sparse_mode = 3;
  int64_t attention_mode = 0;
  bool return_softmax_lse = false;
  TokenLayout layout_query = TokenLayout::kBSND;
  KeyLayout layout_kv = KeyLayout::kBSND;  // of the gradient in no pages

  template <class Visitor>
  static void each(Visitor& attr) {
    using Self = SparseFlashAttentionAttrs;
    attr.required("scale_value", &Self::scale_value);
    attr.optional("sparse_block_size", &Self::sparse_block_size, 1);
    attr.optional("sparse_mode", &Self::sparse_mode);
    attr.optional("attention_mode", &Self::attention_mode);
    attr.optional("return_softmax_lse", &Self::return_softmax_lse);
    attr.optional("layout_query", &Self::layout_query);
    attr.optional("layout_kv", &Self::layout_kv);
  }
};

struct SparseFlashAttentionOutputs : Outputs {
  size_t attention_out = add("attention_out");
  size_t softmax_max = add("softmax_max");
  size_t softmax_sum = add("softmax_sum");
};
inline constexpr SparseFlashAttentionOutputs kSparseFlashAttentionOutputs;

struct SparseFlashAttentionGradInputs : Inputs {
  size_t query = required("query", Elements::kFloat);
  size_t key = required("key", Elements::kSameFloat);
  size_t value = required("value", Elements::kSameFloat);
  size_t sparse_indices = required("sparse_indices", Elements::kInt32);
  size_t attention_out = required("attention_out", Elements::kSameFloat);
  size_t attention_out_grad = required("attention_out_grad", Elements::kSameFloat);
  size_t query_rope = optional("query_rope", Elements::kSameFloat);
  size_t key_rope = optional("key_rope", Elements::kSameFloat);
  size_t sinks = optional("sinks", Elements::kFloat32);
  size_t actual_seq_lengths_query = optional("actual_seq_lengths_query", Elements::kList);
  size_t actual_seq_lengths_kv = optional("actual_seq_lengths_kv", Elements::kList);
  size_t softmax_sum_grad = optional("softmax_sum_grad", Elements::kFloat32);
};
inline constexpr SparseFlashAttentionGradInputs kSparseFlashAttentionGradInputs;

struct SparseFlashAttentionGradOutputs : Outputs {
  size_t dq = add("dq");
  size_t dk = add("dk");
  size_t dv = add("dv");
  size_t dq_rope = add("dq_rope");  // of one element where there are no ropes
  size_t dk_rope = add("dk_rope");
  size_t dsinks = add("dsinks");  // of one element where there are none
};
inline constexpr SparseFlashAttentionGradOutputs kSparseFlashAttentionGradOutputs;

}  // namespace nsa
