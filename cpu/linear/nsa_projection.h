// Parameters of NsaProjection and its gradients: one x times the transposes of up to three weights,
// all rounded to bfloat16 or as they are in float32, in sums of float32.
#pragma once

#include "cpu/types.h"

namespace nsa::cpu {

constexpr int64_t kMostWeights = 3;

struct NsaProjectionParams {
  const void* x;                      // [T, K]
  const void* weights[kMostWeights];  // [N, K] each
  void* y[kMostWeights];              // [T, N]
  int64_t N[kMostWeights];
  int64_t count;  // of the weights
  int64_t T, K;
  ElemType x_type, weight_type, y_type;
  ElemType operands;  // bfloat16 or float32
};

struct NsaProjectionInputGradParams {
  const void* dy[kMostWeights];       // [T, N]
  const void* weights[kMostWeights];  // [N, K]
  void* dx;                           // [T, K]
  int64_t N[kMostWeights];
  int64_t count, T, K;
  ElemType dy_type, weight_type, dx_type, operands;
};

struct NsaProjectionWeightGradParams {
  const void* dy[kMostWeights];  // [T, N]
  const void* x;                 // [T, K]
  void* dw[kMostWeights];        // [N, K]
  int64_t N[kMostWeights];
  int64_t count, T, K;
  ElemType dy_type, x_type, dw_type, operands;
};

void nsa_projection(const NsaProjectionParams& p);
void nsa_projection_input_grad(const NsaProjectionInputGradParams& p);
void nsa_projection_weight_grad(const NsaProjectionWeightGradParams& p);

}  // namespace nsa::cpu
