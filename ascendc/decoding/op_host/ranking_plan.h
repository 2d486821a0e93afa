// How the blocks of the cells are ranked by what is left of their parts.
#pragma once

#include "ascendc/decoding/ranked_parts.h"

namespace nsa::ascend {

// Which blocks are ranked, and how.
struct RankingRule {
  int64_t window_tokens, stride, block_tokens, count, init, local;
  bool overlap;
  bool known;  // the rows' tokens
};

// The tiling data of cells of at most `keys` compressed tokens, which `parts` cuts up. `ub_bytes`:
// of the UB, that a kernel may use.
RankingTiling plan_ranking(const RankingRule& rule, int64_t keys, const PartsTiling& parts,
                           uint32_t ub_bytes);

}  // namespace nsa::ascend
