// Inputs and outputs of NsaMixBranches and its gradient.
#pragma once

#include "infer/declare.h"

namespace nsa {

struct NsaMixBranchesInputs : Inputs {
  size_t logits = required("logits", Elements::kFloat32, "T, 3 * N1");
  size_t compressed = required("compressed", Elements::kFloat, "T, N1, Dv");
  size_t selected = required("selected", Elements::kSameFloat, "T, N1, Dv");
  size_t window = required("window", Elements::kSameFloat, "T, N1, Dv");
};
inline constexpr NsaMixBranchesInputs kNsaMixBranchesInputs;

struct NsaMixBranchesGradAttrs {
  bool residual = false;  // the gates, see cpu/nsa_mix_branches.h

  template <class Visitor>
  static void each(Visitor& attr) {
    attr.optional("residual", &NsaMixBranchesGradAttrs::residual);
  }
};

struct NsaMixBranchesAttrs : NsaMixBranchesGradAttrs {
  // Dtype whose values `mixed` holds, which may be stored wider.
  FloatName dtype = FloatName::kFloat32;

  template <class Visitor>
  static void each(Visitor& attr) {
    NsaMixBranchesGradAttrs::each(attr);
    attr.optional("dtype", &NsaMixBranchesAttrs::dtype);
  }
};

struct NsaMixBranchesOutputs : Outputs {
  size_t mixed = add("mixed", Result::kByRules, "T, N1, Dv");
};
inline constexpr NsaMixBranchesOutputs kNsaMixBranchesOutputs;

struct NsaMixBranchesGradInputs : Inputs {
  size_t mixed_grad = required("mixed_grad", Elements::kByRules, "T, N1, Dv");  // any float
  size_t logits = required("logits", Elements::kFloat32, "T, 3 * N1");
  size_t compressed = required("compressed", Elements::kFloat, "T, N1, Dv");
  size_t selected = required("selected", Elements::kSameFloat, "T, N1, Dv");
  size_t window = required("window", Elements::kSameFloat, "T, N1, Dv");
};
inline constexpr NsaMixBranchesGradInputs kNsaMixBranchesGradInputs;

struct NsaMixBranchesGradOutputs : Outputs {
  size_t logits_grad = add("logits_grad", Result::kFloat32, "T, 3 * N1");
  size_t compressed_grad = add("compressed_grad", Result::kFloat, "T, N1, Dv");
  size_t selected_grad = add("selected_grad", Result::kFloat, "T, N1, Dv");
  size_t window_grad = add("window_grad", Result::kFloat, "T, N1, Dv");
};
inline constexpr NsaMixBranchesGradOutputs kNsaMixBranchesGradOutputs;

}  // namespace nsa
