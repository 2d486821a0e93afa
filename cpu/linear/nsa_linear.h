// Parameters of NsaLinear: y = x round(weight)^T for few rows of x.
#pragma once

#include "cpu/types.h"

namespace nsa::cpu {

struct NsaLinearParams {
  const float* x;        // [T, K]
  const void* weight;    // [N, K]
  float* y;              // [T, N]
  ElemType weight_type;  // of the weight in memory
  ElemType dtype;        // that it is rounded to
  int64_t T, K, N;
};

void nsa_linear(const NsaLinearParams& p);

// Weights whose products are summed at once.
constexpr int64_t kLinearRows = 4;

}  // namespace nsa::cpu
