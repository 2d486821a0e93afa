// Builds the waves of a forward call. Host side only.
#pragma once

#include <vector>

#include "cpu/attention/schedule.h"
#include "cpu/attention/waves.h"

namespace nsa::cpu {

// Rows of a tile. group_queries 0: `rows` queries of one head (several heads only where a segment
// is short); otherwise that many queries with all heads of a group, as importance scores need.
struct TileRule {
  int64_t group_queries, rows;
};

// Rows of tiles of one head: many, so that packed keys are read seldom from beyond the first-level
// cache, unless tiles would be too few for the processors of a large machine.
int64_t single_head_rows(const AttentionPlan& plan);

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
