// Importance of selection blocks from the probabilities of compressed tokens (paper eq. 9).
#pragma once

#include "cpu/types.h"

namespace nsa::cpu {

struct ImportanceRule {
  int64_t m;     // l' / s, strides of a selection block
  int64_t n;     // l / s, strides of a compressed token
  bool overlap;  // every index of eq. (9) 1-based; otherwise CANN's: j 1-based and P 0-based

  // Selection blocks that a segment of kv_len compressed tokens has without causal: those that one
  // of them counts for.
  int64_t blocks(int64_t kv_len) const {
    return kv_len == 0 ? 0 : ceil_div(overlap ? kv_len + n - 1 : kv_len, m);
  }
};

namespace {

// score[j] = sum over p < m, q < n of prob[m (j + 1) - first - p - q], terms outside [0, len) being
// 0, where first is 1 with "overlap" and 0 with "cann". The terms with the same p + q = r are one
// term of weight min(r + 1, m, n, m + n - 1 - r).
inline void importance_scores(const ImportanceRule& rule, const float* prob, int64_t len,
                              int64_t blocks, float* score) {
  const int64_t taps = rule.m + rule.n - 1, first = rule.overlap ? 1 : 0;
  for (int64_t j = 0; j < blocks; ++j) score[j] = 0.0f;
  // Blocks may be far longer than all keys: those r only whose term of some block lies within them.
  const int64_t from = max64(0, rule.m - first - len + 1);
  const int64_t past = min64(taps, rule.m * blocks - first + 1);
  for (int64_t r = from; r < past; ++r) {
    const float weight = static_cast<float>(min64(min64(r + 1, taps - r), min64(rule.m, rule.n)));
    // The term of block j is at[m j]; j from begin to end lie within [0, len).
    const int64_t at = rule.m - first - r;
    const int64_t begin = max64(0, ceil_div(-at, rule.m));
    const int64_t end = min64(blocks, at < len ? ceil_div(len - at, rule.m) : 0);
    // Between two blocks' last terms there may be far more that no key has.
    const int64_t next = at + rule.m * begin;
    if (next >= len) r += next - len;
    for (int64_t j = begin; j < end; ++j) score[j] += weight * prob[at + rule.m * j];
  }
}

}  // namespace
}  // namespace nsa::cpu
