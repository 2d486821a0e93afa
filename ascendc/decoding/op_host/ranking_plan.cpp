#include "ascendc/decoding/op_host/ranking_plan.h"

#include <algorithm>

namespace nsa::ascend {

RankingTiling plan_ranking(const RankingRule& rule, int64_t keys, const SplitTiling& splits,
                           uint32_t ub_bytes) {
  constexpr int64_t kMultiple = kRepeatFloats;
  const int64_t block_keys = rule.block_tokens / rule.stride;
  const int64_t overlap_keys = rule.window_tokens / rule.stride;
  RankingTiling t{block_keys,
                  overlap_keys,
                  rule.overlap ? 1 : 0,
                  rule.known ? 1 : 0,
                  rule.block_tokens,
                  rule.count,
                  rule.init,
                  rule.local,
                  0,
                  1,
                  0};
  // A full cache's last query is not beyond the block behind all keys.
  const int64_t blocks = (keys + overlap_keys - 1) / block_keys + 1;
  const int64_t needed = (blocks + kMultiple - 1) / kMultiple * kMultiple;
  const int64_t held = kWindowFloats / block_keys / kMultiple * kMultiple;
  t.window =
      std::clamp<int64_t>(needed, kMultiple, std::clamp<int64_t>(held, kMultiple, kRankFloats));
  while (t.window > kMultiple && RankedSplitBytes(t, splits.group, splits.rows, splits.split_keys,
                                                  splits.value_dim) > ub_bytes) {
    t.window -= kMultiple;
  }
  return t;
}

}  // namespace nsa::ascend
