// Plan of the KL losses of an indexer: the attention that teaches it, the indexer, and where the
// gradients of the indexer go.
#pragma once

#include "cpu/engine/plan/tokens.h"
#include "cpu/lightning_indexer/indexer_plan.h"

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

// Over all keys; softmax_max and softmax_sum of the indexer are inputs, too.
struct DenseKLPlan : KLPlan {
  StatisticRows statistics;  // of the indexer
  int64_t tile_queries;      // of the attention
  int64_t index_queries;     // of a tile of the indexer
  int64_t wave;              // queries that are in scratch at a time
  int64_t columns;           // of a row of `mass`, whole steps of keys
  float* mass;               // [wave, columns] mean attention, then gradients of scores
  float* masses;             // [wave] their sums
  float* index_rows;         // [wave, G, padded d] queries of a group
  float* attended;           // [kPackedKeys, depth] keys of a head of the attention, packed
  float* index_keys;         // [columns, d] keys of a group of a segment, packed
  float* key_rows;           // [columns, padded d] the same as rows
  bool* finite;              // [steps] these are finite
};

// Keys whose rows for one head of the attention are packed at a time, and those of a work item.
constexpr int64_t kPackedKeys = 2048;
constexpr int64_t kWorkItemKeys = 512;

}  // namespace nsa::cpu
