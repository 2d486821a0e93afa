// Sizes of work that depend on the kernel variant, each chosen by measuring: a row for each
// variant. docs/cpu_measurements.md has the figures, under the operator's name. What all variants
// share stands where it is used, and what kernels are compiled with in attention_plan.h.
#pragma once

#include "cpu/types.h"

namespace nsa::cpu {

struct Tuning {
  // NsaSelectedAttention: rows of a chunk of queries, at least. Its queries and outputs stay in the
  // second-level cache, on tiles in the third, with the blocks of keys and values that pass between
  // two visits of a row.
  int64_t select_rows;
  // The most of them in long sequences, where few queries of a chunk select the same block, which
  // is then read from memory for a few rows. Rows as bf16x3 are half as long again as floats, and
  // fill the cache sooner.
  int64_t select_most_rows;
  // Target rows per (chunk, block) product, on average; 0: no target.
  int64_t select_meeting_rows;
  // Blocks that queries pass in turn on tiles: what is packed of them stays in the second-level
  // cache, and as bf16x3 a block is three times as large.
  int64_t select_range_blocks;
  // Keys of a chunk of its gradient, where a sequence has many: several blocks, to amortise what
  // taking a work item costs. On tiles a query selects two of them more often, and is then in the
  // second-level cache.
  int64_t select_grad_keys;
  // NsaCompressAttention: a tile has so many times the queries whose scores are kept at a time;
  // more than one where exponentials run beside products of other queries.
  int64_t compress_tile_times;
};

constexpr Tuning kTuningOfVectors = {512, 4096, 64, 0, 256, 1};
constexpr Tuning kTuningOfTiles = {1024, 2048, 0, 20, 512, 4};
constexpr Tuning kTuningOfBf16x3 = {1024, 1024, 0, 8, 256, 1};

constexpr const Tuning& tuning(WordForm form) {
  if (form.terms > 1) return kTuningOfBf16x3;
  return form.align > 1 ? kTuningOfTiles : kTuningOfVectors;
}

}  // namespace nsa::cpu
