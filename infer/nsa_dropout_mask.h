// Input and output of NsaDropoutMask.
#pragma once

#include "infer/op.h"

namespace nsa {

struct NsaDropoutMaskInputs : Inputs {
  size_t seed = required("seed", Elements::kInt64);
};
inline constexpr NsaDropoutMaskInputs kNsaDropoutMaskInputs;

struct NsaDropoutMaskOutputs : Outputs {
  size_t mask = add("mask");
};
inline constexpr NsaDropoutMaskOutputs kNsaDropoutMaskOutputs;

}  // namespace nsa
