// Inputs, attributes and outputs of NsaSplitHeads and its gradient.
#pragma once

#include "infer/declare.h"

namespace nsa {

struct NsaSplitHeadsInputs : Inputs {
  size_t query = required("query", Elements::kFloat32, "T, head_num * head_dim");
  size_t key_value = required("key_value", Elements::kFloat32,
                              "T, branches * kv_head_num * (head_dim + value_head_dim)");
  size_t cos = required("cos", Elements::kFloat32, "T, 1, head_dim");
  size_t sin = required("sin", Elements::kFloat32, "T, 1, head_dim");
};
inline constexpr NsaSplitHeadsInputs kNsaSplitHeadsInputs;

struct NsaSplitHeadsGradAttrs {
  int64_t branches;  // sets of keys and values: 3, or 1 of dense attention
  int64_t head_num;
  int64_t kv_head_num;     // of one branch
  int64_t head_dim;        // even
  int64_t value_head_dim;  // may differ from head_dim

  template <class Visitor>
  static void each(Visitor& attr) {
    using Self = NsaSplitHeadsGradAttrs;
    attr.required("branches", &Self::branches, 1, 3);
    attr.required("head_num", &Self::head_num, 1);
    attr.required("kv_head_num", &Self::kv_head_num, 1);
    attr.required("head_dim", &Self::head_dim, 2);
    attr.required("value_head_dim", &Self::value_head_dim, 1);
  }
};

struct NsaSplitHeadsAttrs : NsaSplitHeadsGradAttrs {
  FloatName dtype = FloatName::kFloat32;  // of the outputs

  template <class Visitor>
  static void each(Visitor& attr) {
    NsaSplitHeadsGradAttrs::each(attr);
    attr.optional("dtype", &NsaSplitHeadsAttrs::dtype);
  }
};

// The queries come once for every branch, so that their gradients are added in float32. With one
// branch the outputs of the others are placeholders of one zero.
struct NsaSplitHeadsOutputs : Outputs {
  size_t query_cmp = add("query_cmp", Result::kByRules, "T, head_num, head_dim");
  size_t query_slc = add("query_slc", Result::kByRules, "T, head_num, head_dim");
  size_t query_win = add("query_win", Result::kByRules, "T, head_num, head_dim");
  size_t key_cmp = add("key_cmp", Result::kByRules, "T, kv_head_num, head_dim");
  size_t key_slc = add("key_slc", Result::kByRules, "T, kv_head_num, head_dim");
  size_t key_win = add("key_win", Result::kByRules, "T, kv_head_num, head_dim");
  size_t value_cmp = add("value_cmp", Result::kByRules, "T, kv_head_num, value_head_dim");
  size_t value_slc = add("value_slc", Result::kByRules, "T, kv_head_num, value_head_dim");
  size_t value_win = add("value_win", Result::kByRules, "T, kv_head_num, value_head_dim");
};
inline constexpr NsaSplitHeadsOutputs kNsaSplitHeadsOutputs;

// The first nine have the places of the outputs.
struct NsaSplitHeadsGradInputs : Inputs {
  size_t query_cmp_grad = required("query_cmp_grad", Elements::kFloat, "T, head_num, head_dim");
  size_t query_slc_grad = optional("query_slc_grad", Elements::kSameFloat, "T, head_num, head_dim");
  size_t query_win_grad = optional("query_win_grad", Elements::kSameFloat, "T, head_num, head_dim");
  size_t key_cmp_grad = required("key_cmp_grad", Elements::kSameFloat, "T, kv_head_num, head_dim");
  size_t key_slc_grad = optional("key_slc_grad", Elements::kSameFloat, "T, kv_head_num, head_dim");
  size_t key_win_grad = optional("key_win_grad", Elements::kSameFloat, "T, kv_head_num, head_dim");
  size_t value_cmp_grad =
      required("value_cmp_grad", Elements::kSameFloat, "T, kv_head_num, value_head_dim");
  size_t value_slc_grad =
      optional("value_slc_grad", Elements::kSameFloat, "T, kv_head_num, value_head_dim");
  size_t value_win_grad =
      optional("value_win_grad", Elements::kSameFloat, "T, kv_head_num, value_head_dim");
  size_t cos = required("cos", Elements::kFloat32, "T, 1, head_dim");
  size_t sin = required("sin", Elements::kFloat32, "T, 1, head_dim");
};
inline constexpr NsaSplitHeadsGradInputs kNsaSplitHeadsGradInputs;

struct NsaSplitHeadsGradOutputs : Outputs {
  size_t query_grad = add("query_grad", Result::kFloat32, "T, head_num * head_dim");
  size_t key_value_grad = add("key_value_grad", Result::kFloat32,
                              "T, branches * kv_head_num * (head_dim + value_head_dim)");
};
inline constexpr NsaSplitHeadsGradOutputs kNsaSplitHeadsGradOutputs;

}  // namespace nsa
