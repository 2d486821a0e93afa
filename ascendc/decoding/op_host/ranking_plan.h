// How the blocks of the decode rows are ranked by what is left of their splits.
#pragma once

#include "ascendc/decoding/ranked_splits.h"

namespace nsa::ascend {

// Which blocks are ranked, and how.
struct RankingRule {
  int64_t window_tokens, stride, block_tokens, count, init, local;
  bool overlap;
  bool known;  // the rows' tokens
};

// The tiling data of decode rows of at most `keys` compressed tokens, which `splits` cuts up.
// `ub_bytes`: of the UB, that a kernel may use.
RankingTiling plan_ranking(const RankingRule& rule, int64_t keys, const SplitTiling& splits,
                           uint32_t ub_bytes);

}  // namespace nsa::ascend
