// Inputs, attributes and outputs of the losses that train an indexer by the attention it picks for.
#pragma once

#include "infer/declare.h"

namespace nsa {

struct SparseLightningIndexerGradKLLossInputs : Inputs {
  size_t query = required("query", Elements::kFloat);
  size_t key = required("key", Elements::kSameFloat);
  size_t query_index = required("query_index", Elements::kSameFloat);
  size_t key_index = required("key_index", Elements::kSameFloat);
  size_t weights = required("weights", Elements::kFloat32);
  size_t sparse_indices = required("sparse_indices", Elements::kInt32);
  size_t softmax_max = required("softmax_max", Elements::kFloat32);
  size_t softmax_sum = required("softmax_sum", Elements::kFloat32);
  size_t query_rope = optional("query_rope", Elements::kSameFloat);
  size_t key_rope = optional("key_rope", Elements::kSameFloat);
  size_t actual_seq_qlen = optional("actual_seq_qlen", Elements::kList);
  size_t actual_seq_klen = optional("actual_seq_klen", Elements::kList);
};
inline constexpr SparseLightningIndexerGradKLLossInputs kSparseLightningIndexerGradKLLossInputs;

struct DenseLightningIndexerSoftmaxLseInputs : Inputs {
  size_t query_index = required("query_index", Elements::kFloat);
  size_t key_index = required("key_index", Elements::kSameFloat);
  size_t weights = required("weights", Elements::kFloat32);
  size_t actual_seq_qlen = optional("actual_seq_qlen", Elements::kList);
  size_t actual_seq_klen = optional("actual_seq_klen", Elements::kList);
};
inline constexpr DenseLightningIndexerSoftmaxLseInputs kDenseLightningIndexerSoftmaxLseInputs;

struct DenseLightningIndexerSoftmaxLseAttrs {
  int64_t sparse_mode = 3;
  TokenLayout layout = TokenLayout::kBSND;

  template <class Visitor>
  static void each(Visitor& attr) {
    using Self = DenseLightningIndexerSoftmaxLseAttrs;
    attr.optional("sparse_mode", &Self::sparse_mode);
    attr.optional("layout", &Self::layout);
  }
};

struct DenseLightningIndexerSoftmaxLseOutputs : Outputs {
  size_t softmax_max_index = add("softmax_max_index");
  size_t softmax_sum_index = add("softmax_sum_index");
};
inline constexpr DenseLightningIndexerSoftmaxLseOutputs kDenseLightningIndexerSoftmaxLseOutputs;

struct DenseLightningIndexerGradKLLossInputs : Inputs {
  size_t query = required("query", Elements::kFloat);
  size_t key = required("key", Elements::kSameFloat);
  size_t query_index = required("query_index", Elements::kSameFloat);
  size_t key_index = required("key_index", Elements::kSameFloat);
  size_t weights = required("weights", Elements::kFloat32);
  size_t softmax_max = required("softmax_max", Elements::kFloat32);
  size_t softmax_sum = required("softmax_sum", Elements::kFloat32);
  size_t softmax_max_index = required("softmax_max_index", Elements::kFloat32);
  size_t softmax_sum_index = required("softmax_sum_index", Elements::kFloat32);
  size_t query_rope = optional("query_rope", Elements::kSameFloat);
  size_t key_rope = optional("key_rope", Elements::kSameFloat);
  size_t actual_seq_qlen = optional("actual_seq_qlen", Elements::kList);
  size_t actual_seq_klen = optional("actual_seq_klen", Elements::kList);
};
inline constexpr DenseLightningIndexerGradKLLossInputs kDenseLightningIndexerGradKLLossInputs;

// Attributes of both losses.
struct IndexerKLLossAttrs : DenseLightningIndexerSoftmaxLseAttrs {
  float scale_value;

  template <class Visitor>
  static void each(Visitor& attr) {
    using Self = IndexerKLLossAttrs;
    attr.required("scale_value", &Self::scale_value);
    attr.optional("sparse_mode", &Self::sparse_mode);
    attr.optional("layout", &Self::layout);
  }
};

// Likewise.
struct IndexerKLLossOutputs : Outputs {
  size_t d_query_index = add("d_query_index");
  size_t d_key_index = add("d_key_index");
  size_t d_weights = add("d_weights");
  size_t loss = add("loss");
};
inline constexpr IndexerKLLossOutputs kIndexerKLLossOutputs;

}  // namespace nsa
