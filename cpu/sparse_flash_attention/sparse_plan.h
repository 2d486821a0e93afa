// Plan members of the gradient of SparseFlashAttention.
#pragma once

#include "cpu/engine/plan/tokens.h"
#include "cpu/engine/plan/waiting_tokens.h"

namespace nsa::cpu {

struct SparseGradPlan : SparsePlan {
  const void* dout;       // as out
  const float* sum_grad;  // of softmax_sum, lying as it does; nullptr: zeros
  void* dq;               // [rows, N1, D]
  void* dq_rope;          // [rows, N1, R]
  float* dk;              // [keys, N2, D], zero at first
  float* dv;              // [keys, N2, Dv], zero at first
  float* dk_rope;         // [keys, N2, R], zero at first
  float* dsink;           // [rows, N1] of one query each, or nullptr
  WaitingTokens waiting;  // of a wave of queries
  float* p;               // [wave, most, lanes] probabilities
  float* ds;              // [wave, most, lanes] gradients of scores
};

}  // namespace nsa::cpu
