// Inputs and outputs of NsaCompress and its gradient.
#pragma once

#include "infer/op.h"

namespace nsa {

struct NsaCompressInputs : Inputs {
  size_t input = required("input", Elements::kFloat);
  size_t weight = required("weight", Elements::kSameFloat);
  size_t actual_seq_len = required("actual_seq_len", Elements::kList);
};
inline constexpr NsaCompressInputs kNsaCompressInputs;

struct NsaCompressOutputs : Outputs {
  size_t output = add("output");
};
inline constexpr NsaCompressOutputs kNsaCompressOutputs;

struct NsaCompressGradInputs : Inputs {
  size_t output_grad = required("output_grad", Elements::kSameFloat);
  size_t input = required("input", Elements::kFloat);
  size_t weight = required("weight", Elements::kSameFloat);
  size_t actual_seq_len = required("actual_seq_len", Elements::kList);
};
inline constexpr NsaCompressGradInputs kNsaCompressGradInputs;

struct NsaCompressGradOutputs : Outputs {
  size_t input_grad = add("input_grad");
  size_t weight_grad = add("weight_grad");
};
inline constexpr NsaCompressGradOutputs kNsaCompressGradOutputs;

}  // namespace nsa
