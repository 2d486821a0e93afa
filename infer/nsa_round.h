// Input, attribute and output of NsaRound.
#pragma once

#include "infer/declare.h"

namespace nsa {

struct NsaRoundInputs : Inputs {
  size_t x = required("x", Elements::kFloat32);
};
inline constexpr NsaRoundInputs kNsaRoundInputs;

struct NsaRoundAttrs {
  HalfName dtype = HalfName::kBFloat16;  // whose numbers the output holds

  template <class Visitor>
  static void each(Visitor& attr) {
    attr.optional("dtype", &NsaRoundAttrs::dtype);
  }
};

struct NsaRoundOutputs : Outputs {
  size_t rounded = like("rounded", Result::kFloat32, "x");
};
inline constexpr NsaRoundOutputs kNsaRoundOutputs;

}  // namespace nsa
