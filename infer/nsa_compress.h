// Inputs, attributes and outputs of NsaCompress and its gradient.
#pragma once

#include "infer/declare.h"

namespace nsa {

struct NsaCompressInputs : Inputs {
  size_t input = required("input", Elements::kFloat, "T, N > 0, D > 0");
  size_t weight = required("weight", Elements::kSameFloat, "compress_block_size, N");
  size_t actual_seq_len = required("actual_seq_len", Elements::kList);
};
inline constexpr NsaCompressInputs kNsaCompressInputs;

struct NsaCompressGradAttrs {
  int64_t compress_block_size;  // tokens of a window
  int64_t compress_stride;      // tokens between window starts

  template <class Visitor>
  static void each(Visitor& attr) {
    using Self = NsaCompressGradAttrs;
    attr.required("compress_block_size", &Self::compress_block_size);
    attr.required("compress_stride", &Self::compress_stride);
  }
};

struct NsaCompressAttrs : NsaCompressGradAttrs {
  int64_t num_windows = -1;  // rows of the output; -1: as many as always suffice

  template <class Visitor>
  static void each(Visitor& attr) {
    NsaCompressGradAttrs::each(attr);
    attr.rows("num_windows", &NsaCompressAttrs::num_windows, -1);
  }
};

struct NsaCompressOutputs : Outputs {
  size_t output = add("output", Result::kFloat, "num_windows, N, D");
};
inline constexpr NsaCompressOutputs kNsaCompressOutputs;

struct NsaCompressGradInputs : Inputs {
  size_t output_grad = required("output_grad", Elements::kSameFloat, "T'?, N, D");
  size_t input = required("input", Elements::kFloat, "T, N > 0, D > 0");
  size_t weight = required("weight", Elements::kSameFloat, "compress_block_size, N");
  size_t actual_seq_len = required("actual_seq_len", Elements::kList);
};
inline constexpr NsaCompressGradInputs kNsaCompressGradInputs;

struct NsaCompressGradOutputs : Outputs {
  size_t input_grad = add("input_grad", Result::kFloat, "T, N, D");
  size_t weight_grad = add("weight_grad", Result::kFloat, "compress_block_size, N");
};
inline constexpr NsaCompressGradOutputs kNsaCompressGradOutputs;

}  // namespace nsa
