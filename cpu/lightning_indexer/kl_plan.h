// What the KL losses of an indexer need: the attention that teaches it, the indexer, and where the
// gradients of the indexer go.
#pragma once

#include "cpu/engine/plan/tokens.h"
#include "cpu/lightning_indexer/plan.h"

namespace nsa::cpu {

// A group is what shares a key head of the indexer: its heads, and as many key heads of the
// attention as there are for each.
struct KLPlan {
  AttentionPlan attention;  // its values are its keys, softmax_max and softmax_sum are inputs
  SparsePlan tokens;        // of it: ropes, layout of statistics; indices, by group
  AttentionPlan index;      // N1 = H, N2: groups
  TokenGradPlan grad;       // of the indexer
  double* loss;             // [rows, groups]

  int64_t key_heads() const { return attention.N2 / index.N2; }  // of a group
};

}  // namespace nsa::cpu
