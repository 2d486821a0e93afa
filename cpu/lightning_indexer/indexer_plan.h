// Plan members of LightningIndexer and its gradient besides the plan of their queries and keys.
#pragma once

#include "cpu/engine/plan/attention_plan.h"
#include "cpu/engine/plan/waiting_tokens.h"

namespace nsa::cpu {

// Keys in pages: a segment's token is a row of the page that its table names.
struct KeyPages {
  const int32_t* table;  // [segments, places] or nullptr: keys are where the segment says
  int64_t places, page;
};

// A group of G query heads shares a key head and selects for it. Where a segment's statistics would
// begin stands the row of its first query.
struct TokenPlan {
  const float* weights;  // [rows, N1] or nullptr: ones
  int32_t* indices;      // [rows, N2, count]
  void* values;          // the same, or nullptr: not asked for
  int64_t count;         // of a row
  int64_t most;          // that a row can have
  KeyPages pages;
  int64_t max_rows, max_queries;  // of a tile
};

// The gradient of the values; the indices are given.
struct TokenGradPlan {
  const float* weights;    // as above
  const int32_t* indices;  // [rows, N2, count]
  const void* dy;          // the same
  int64_t count;
  void* dq;               // [rows, N1, D]
  float* dweights;        // [rows, N1]
  float* dk;              // [keys, N2, D], zero at first
  WaitingTokens waiting;  // of a wave of queries
  float* dz;              // [wave, count, lanes] gradients of products
};

}  // namespace nsa::cpu
