// Builds the waves of a forward call. Host side only.
#pragma once

#include <vector>

#include "cpu/engine/plan/schedule.h"
#include "cpu/engine/plan/waves.h"

namespace nsa::cpu {

// Rows of a tile: of few queries and all heads of their group, so that a tile has little of the
// edges of what its queries see. group_queries 0: at most `rows`, heads too where a group has more;
// otherwise that many queries with all heads, as importance scores need.
struct TileRule {
  int64_t group_queries, rows;
};

// Rows of tiles of FlashAttentionScore: many, so that packed keys are read seldom from beyond the
// first-level cache, unless tiles would be too few for the processors of a large machine.
int64_t flash_tile_rows(const AttentionPlan& plan);

// Queries of a whole-group tile whose scores over kv_len keys stay in the second-level cache.
int64_t whole_group_queries(int64_t G, int64_t kv_len);

class Schedule {
 public:
  Schedule(const AttentionPlan& plan, TileRule rule, int threads);

  const std::vector<Wave>& waves() const { return waves_; }
  const WaveSpan& largest() const { return spans_.largest(); }

 private:
  void add_pair(const AttentionPlan& plan, TileRule rule, int64_t b, int64_t h, int threads);

  std::vector<KvPair> pairs_;
  std::vector<RowTile> tiles_;
  std::vector<Wave> waves_;
  Waves spans_;
};

}  // namespace nsa::cpu
