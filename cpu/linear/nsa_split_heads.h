// Parameters of NsaSplitHeads and its gradient: the linear maps of a layer become the heads of its
// branches, rotated and rounded, in one pass.
#pragma once

#include "cpu/types.h"
#include "infer/nsa_split_heads.h"

namespace nsa::cpu {

constexpr int kMostBranches = 3;

struct NsaSplitHeadsParams : NsaSplitHeadsGradAttrs {
  const float* query;            // [T, N1 D]
  const float* key_value;        // [T, branches N2 D + branches N2 Dv]
  const float* cos;              // [T, D]
  const float* sin;              // [T, D], negative in the first half
  void* queries[kMostBranches];  // [T, N1, D] each the same
  void* keys[kMostBranches];     // [T, N2, D]
  void* values[kMostBranches];   // [T, N2, Dv]
  ElemType dtype;                // of the heads
  int64_t T;
};

struct NsaSplitHeadsGradParams : NsaSplitHeadsGradAttrs {
  const void* queries[kMostBranches];  // gradients of the forward's outputs
  const void* keys[kMostBranches];
  const void* values[kMostBranches];
  const float* cos;
  const float* sin;
  float* query_grad;      // [T, N1 D]
  float* key_value_grad;  // [T, branches N2 (D + Dv)]
  ElemType dtype;
  int64_t T;
};

void nsa_split_heads(const NsaSplitHeadsParams& p);
void nsa_split_heads_grad(const NsaSplitHeadsGradParams& p);

}  // namespace nsa::cpu
