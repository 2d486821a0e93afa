// Inputs, attribute and output of NsaLinear.
#pragma once

#include "infer/declare.h"

namespace nsa {

struct NsaLinearInputs : Inputs {
  size_t x = required("x", Elements::kFloat32, "T, K");
  size_t weight = required("weight", Elements::kFloat, "N?, K");
};
inline constexpr NsaLinearInputs kNsaLinearInputs;

struct NsaLinearAttrs {
  FloatName dtype = FloatName::kFloat32;  // that the weight is rounded to

  template <class Visitor>
  static void each(Visitor& attr) {
    attr.optional("dtype", &NsaLinearAttrs::dtype);
  }
};

struct NsaLinearOutputs : Outputs {
  size_t y = add("y", Result::kFloat32, "T, N");
};
inline constexpr NsaLinearOutputs kNsaLinearOutputs;

}  // namespace nsa
