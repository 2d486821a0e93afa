// Parameters of NsaMixBranches, its gradient, and NsaRound.
#pragma once

#include "cpu/types.h"

namespace nsa::cpu {

constexpr int kGates = 3;  // one of each branch

struct NsaMixBranchesParams {
  const float* logits;           // [T, 3, N1]
  const void* branches[kGates];  // [T, N1, Dv]
  void* mixed;                   // [T, N1, Dv] numbers of dtype
  ElemType dtype;                // of the branches
  ElemType mixed_type;           // of mixed in memory, dtype or float32, or of its gradient
  int64_t T, N1, Dv;
  // The gates are s = sigmoid(logits); residual ones are 2 s for the selected branch, 2 s - 1 for
  // the others.
  bool residual;
};

struct NsaMixBranchesGradParams : NsaMixBranchesParams {  // mixed is unused
  const void* mixed_grad;                                 // [T, N1, Dv]
  float* logits_grad;                                     // [T, 3, N1]
  void* branch_grads[kGates];                             // [T, N1, Dv]
};

struct NsaRoundParams {
  const float* x;  // [n]
  float* rounded;  // [n] numbers of dtype
  ElemType dtype;
  int64_t n;
};

void nsa_mix_branches(const NsaMixBranchesParams& p);
void nsa_mix_branches_grad(const NsaMixBranchesGradParams& p);
void nsa_round(const NsaRoundParams& p);

}  // namespace nsa::cpu
