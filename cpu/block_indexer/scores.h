// From products of queries and keys to scores of blocks.
#pragma once

#include "cpu/block_indexer/block_indexer_plan.h"
#include "cpu/engine/step/head_sums.h"
#include "cpu/engine/step/online_softmax.h"

namespace nsa::cpu {
namespace {

// The larger one, or NaN where one of them is.
inline float larger(float a, float b) { return b > a || b != b ? b : a; }

// The largest of n scores, NaN where one of them is.
inline float largest(const float* x, int64_t n) {
  float most = -kInfinity;
  int64_t i = 0;
  if (n >= W) {
    V m = set1(-kInfinity), strange = zero();
    for (; i + W <= n; i += W) {
      const V score = load(x + i);
      m = max(score, m);
      strange = fma(score, zero(), strange);
    }
    if (hsum(strange) == 0.0f) {
      most = hmax(m);
    } else {
      i = 0;
    }
  }
  for (; i < n; ++i) most = larger(most, x[i]);
  return most;
}

// Scores of keys [k0, k0 + n) raise those of their blocks.
inline void raise_blocks(const float* score, int64_t k0, int64_t n, int64_t block_size,
                         float* blocks) {
  const int64_t past = k0 + n;
  int64_t j = k0 / block_size;
  for (int64_t k = k0; k < past; ++j) {
    const int64_t end = min64((j + 1) * block_size, past);
    blocks[j] = larger(blocks[j], largest(score + k - k0, end - k));
    k = end;
  }
}

// Scores of blocks [0, candidates) from the probabilities of compressed tokens, of which the query
// sees the first n: the largest of those whose window touches the block.
inline void window_maxima(const IndexerPlan& plan, const float* prob, int64_t n, int64_t candidates,
                          float* blocks) {
  const int64_t l = plan.compress_block_size, s = plan.compress_stride;
  for (int64_t j = 0; j < candidates; ++j) {
    const int64_t begin = j * plan.block_size, past = begin + plan.block_size;
    const int64_t first = ceil_div(max64(0, begin - l + 1), s);
    float most = 0.0f;
    for (int64_t c = first; c < min64(n, (past - 1) / s + 1); ++c) most = larger(most, prob[c]);
    blocks[j] = most;
  }
}

}  // namespace
}  // namespace nsa::cpu
