// Division of the gradient. A unit is one chunk of queries against one chunk of keys of a pair.
// Units run in steps with a barrier between them: in step s, key chunk k meets query chunk (k - s)
// mod L, so no two units of a step share a chunk, every dQ, dK and dV row is added to in an order
// fixed by shapes, and neither atomics nor a second pass over the scores are needed.
#pragma once

#include "cpu/attention/plan.h"
#include "cpu/attention/schedule.h"

namespace nsa::cpu {

struct GradPair {
  int64_t segment, kv_head;
  int64_t q_chunk, kv_chunk;    // queries, keys of a chunk
  int64_t q_chunks, kv_chunks;  // how many
  int64_t first_packed;         // of the packed blocks, or their parts, of its wave
  int64_t first_unit;           // sum of kv_chunks before it in its wave
  // Accumulators: the outputs themselves in fp32, otherwise scratch. Row 0, first head of the
  // group.
  float *dq, *dk, *dv;
  RowStrides dq_strides;  // between queries, between heads of the group
  int64_t dk_row, dv_row;
  float* delta;  // [q_len, G] rowsum(dO O)

  int64_t steps() const { return max64(q_chunks, kv_chunks); }
};

struct GradWave {
  const GradPair* pairs;
  int64_t num_pairs;
  int64_t units_per_step;
  int64_t steps;
};

struct GradScratch {
  float* keys_t;    // [blocks, words(D), lanes]
  float* values_t;  // [blocks, words(Dv), lanes]
  float* keys;      // [blocks, words(lanes), D padded]
  bool* finite;     // [blocks] the keys hold numbers only
  char* threads;
  int64_t thread_size;
};

}  // namespace nsa::cpu
