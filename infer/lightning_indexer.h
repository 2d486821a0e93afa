// Inputs, attributes and outputs of LightningIndexer and its gradient.
#pragma once

#include "infer/declare.h"

namespace nsa {

struct LightningIndexerInputs : Inputs {
  size_t query = required("query", Elements::kFloat);
  size_t key = required("key", Elements::kSameFloat);
  size_t weights = optional("weights", Elements::kFloat32);
  size_t actual_seq_lengths_query = optional("actual_seq_lengths_query", Elements::kList);
  size_t actual_seq_lengths_key = optional("actual_seq_lengths_key", Elements::kList);
  size_t compress_residual = optional("compress_residual", Elements::kList);
  size_t block_table = optional("block_table", Elements::kInt32);
};
inline constexpr LightningIndexerInputs kLightningIndexerInputs;

struct LightningIndexerAttrs {
  int64_t sparse_count;  // picks of a query
  int64_t sparse_mode = 3;
  int64_t compress_ratio = 1;  // tokens of a key
  bool return_value = false;
  TokenLayout layout_query = TokenLayout::kBSND;
  KeyLayout layout_key = KeyLayout::kBSND;

  template <class Visitor>
  static void each(Visitor& attr) {
    using Self = LightningIndexerAttrs;
    attr.required("sparse_count", &Self::sparse_count, 1);
    attr.optional("sparse_mode", &Self::sparse_mode);
    attr.optional("compress_ratio", &Self::compress_ratio, 1);
    attr.optional("return_value", &Self::return_value);
    attr.optional("layout_query", &Self::layout_query);
    attr.optional("layout_key", &Self::layout_key);
  }
};

struct LightningIndexerOutputs : Outputs {
  size_t sparse_indices = add("sparse_indices");
  size_t sparse_values = add("sparse_values");
};
inline constexpr LightningIndexerOutputs kLightningIndexerOutputs;

struct LightningIndexerGradInputs : Inputs {
  size_t query = required("query", Elements::kFloat);
  size_t key = required("key", Elements::kSameFloat);
  size_t sparse_values_grad = required("sparse_values_grad", Elements::kSameFloat);
  size_t sparse_indices = required("sparse_indices", Elements::kInt32);
  size_t weights = optional("weights", Elements::kFloat32);
  size_t actual_seq_lengths_query = optional("actual_seq_lengths_query", Elements::kList);
  size_t actual_seq_lengths_key = optional("actual_seq_lengths_key", Elements::kList);
};
inline constexpr LightningIndexerGradInputs kLightningIndexerGradInputs;

struct LightningIndexerGradAttrs {
  TokenLayout layout_query = TokenLayout::kBSND, layout_key = TokenLayout::kBSND;

  template <class Visitor>
  static void each(Visitor& attr) {
    using Self = LightningIndexerGradAttrs;
    attr.optional("layout_query", &Self::layout_query);
    attr.optional("layout_key", &Self::layout_key);
  }
};

struct LightningIndexerGradOutputs : Outputs {
  size_t dq = add("dq");
  size_t dk = add("dk");
  size_t dweights = add("dweights");
};
inline constexpr LightningIndexerGradOutputs kLightningIndexerGradOutputs;

}  // namespace nsa
