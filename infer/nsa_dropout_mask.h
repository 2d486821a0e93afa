// Input, attributes and output of NsaDropoutMask.
#pragma once

#include "infer/declare.h"

namespace nsa {

struct NsaDropoutMaskInputs : Inputs {
  size_t seed = required("seed", Elements::kInt64, "1");
};
inline constexpr NsaDropoutMaskInputs kNsaDropoutMaskInputs;

struct NsaDropoutMaskAttrs {
  double keep_prob;
  int64_t numel;

  template <class Visitor>
  static void each(Visitor& attr) {
    attr.probability("keep_prob", &NsaDropoutMaskAttrs::keep_prob);
    attr.required("numel", &NsaDropoutMaskAttrs::numel, 0);
  }
};

struct NsaDropoutMaskOutputs : Outputs {
  size_t mask = add("mask", Result::kUint8, "bytes");
};
inline constexpr NsaDropoutMaskOutputs kNsaDropoutMaskOutputs;

}  // namespace nsa
