// Inputs, attributes and outputs of NsaProjection and its gradients.
#pragma once

#include "infer/declare.h"

namespace nsa {

// x [T, K] may be of more dimensions: the last ones together are K, the others T.
struct NsaProjectionInputs : Inputs {
  size_t x = required("x", Elements::kByRules);  // of any floating dtype
  size_t weight = required("weight", Elements::kFloat);
  size_t weight_1 = optional("weight_1", Elements::kSameFloat);
  size_t weight_2 = optional("weight_2", Elements::kSameFloat);
};
inline constexpr NsaProjectionInputs kNsaProjectionInputs;

struct NsaProjectionAttrs {
  int64_t batch = 0;                      // the outputs are [batch, T / batch, N]; 0: [T, N]
  FloatName dtype = FloatName::kFloat32;  // of the outputs, each of a weight
  OperandName operands = OperandName::kBFloat16;  // rounded to, or float32: as they are

  template <class Visitor>
  static void each(Visitor& attr) {
    using Self = NsaProjectionAttrs;
    attr.optional("batch", &Self::batch, 0);
    attr.optional("dtype", &Self::dtype);
    attr.optional("operands", &Self::operands);
  }
};

// Outputs of absent weights are placeholders of one zero.
struct NsaProjectionOutputs : Outputs {
  size_t y = add("y");
  size_t y_1 = add("y_1");
  size_t y_2 = add("y_2");
};
inline constexpr NsaProjectionOutputs kNsaProjectionOutputs;

// Inputs of both gradients. An input that a gradient does not multiply with gives the shape and
// dtype of its outputs.
struct NsaProjectionGradInputs : Inputs {
  size_t y_grad = required("y_grad", Elements::kFloat);
  size_t y_1_grad = optional("y_1_grad", Elements::kSameFloat);
  size_t y_2_grad = optional("y_2_grad", Elements::kSameFloat);
  size_t weight = required("weight", Elements::kByRules);  // of any floating dtype
  size_t weight_1 = optional("weight_1", Elements::kByRules);
  size_t weight_2 = optional("weight_2", Elements::kByRules);
  size_t x = required("x", Elements::kByRules);  // of any floating dtype
};
inline constexpr NsaProjectionGradInputs kNsaProjectionGradInputs;

struct NsaProjectionGradAttrs {
  OperandName operands = OperandName::kBFloat16;

  template <class Visitor>
  static void each(Visitor& attr) {
    attr.optional("operands", &NsaProjectionGradAttrs::operands);
  }
};

struct NsaProjectionInputGradOutputs : Outputs {
  size_t x_grad = add("x_grad");
};
inline constexpr NsaProjectionInputGradOutputs kNsaProjectionInputGradOutputs;

struct NsaProjectionWeightGradOutputs : Outputs {
  size_t weight_grad = add("weight_grad");
  size_t weight_1_grad = add("weight_1_grad");
  size_t weight_2_grad = add("weight_2_grad");
};
inline constexpr NsaProjectionWeightGradOutputs kNsaProjectionWeightGradOutputs;

}  // namespace nsa
