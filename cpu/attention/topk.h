// The best blocks of one query: forced ones first, by index, then by score, ties to the smaller
// index.
#pragma once

#include "cpu/types.h"

namespace nsa::cpu {
namespace {

struct TopkRule {
  const uint8_t* forced;     // [blocks] or nullptr: 1 forces the block
  int64_t init, own, local;  // blocks below init and own - local + 1 .. own are forced
};

// indices[0..count) = chosen blocks, -1 where there are fewer candidates. values holds count
// floats.
inline void choose_blocks(const TopkRule& rule, const float* score, int64_t candidates,
                          int64_t count, int32_t* indices, float* values) {
  int64_t chosen = 0;
  for (int64_t j = 0; j < candidates; ++j) {
    const bool forced = (rule.forced && rule.forced[j] != 0) || j < rule.init ||
                        (j > rule.own - rule.local && j <= rule.own);
    // A NaN score ranks below every number.
    const float x =
        forced ? __builtin_inff() : (score[j] == score[j] ? score[j] : -__builtin_inff());
    if (chosen == count && !(x > values[count - 1])) continue;
    int64_t at = chosen < count ? chosen++ : count - 1;
    // Equal values stay in front: they have smaller indices.
    for (; at > 0 && values[at - 1] < x; --at) {
      values[at] = values[at - 1];
      indices[at] = indices[at - 1];
    }
    values[at] = x;
    indices[at] = static_cast<int32_t>(j);
  }
  for (; chosen < count; ++chosen) indices[chosen] = -1;
}

}  // namespace
}  // namespace nsa::cpu
