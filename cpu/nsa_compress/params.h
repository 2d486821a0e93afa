// Parameters of NsaCompress: raw pointers, which need element alignment only, sizes and the
// operator's attributes. Sequence lists are inclusive prefix sums, already checked.
#pragma once

#include <cstdint>

#include "cpu/types.h"
#include "infer/nsa_compress.h"

namespace nsa::cpu {

struct NsaCompressParams : NsaCompressGradAttrs {
  const void* input;       // [T, N, D]
  const void* weight;      // [l, N]
  void* output;            // [rows, N, D]; rows past the real windows become zero
  const int64_t* seq_len;  // [B]
  ElemType dtype;
  int64_t T, N, D, B;
  int64_t rows;  // rows of output (output_grad), at least the number of windows
};

struct NsaCompressGradParams : NsaCompressParams {  // output is unused
  const void* output_grad;                          // [rows, N, D]
  void* input_grad;                                 // [T, N, D]
  void* weight_grad;                                // [l, N]
};

// Throw std::bad_alloc when scratch cannot be had, before any output is touched.
void nsa_compress(const NsaCompressParams& p);
void nsa_compress_grad(const NsaCompressGradParams& p);

}  // namespace nsa::cpu
