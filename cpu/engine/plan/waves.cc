#include "cpu/engine/plan/waves.h"

namespace nsa::cpu {
namespace {

// Packed keys and values are shared by all tiles of a pair; several small pairs go into one wave so
// that threads do not wait for each other after every one of them.
constexpr int64_t kWaveBlocks = 128;

RowTile tile_shape(const AttentionPlan& plan, const Segment& seg, TileRule rule) {
  RowTile tile{};
  if (rule.group_queries > 0) {
    tile.heads = plan.G;
    tile.queries = rule.group_queries;
  } else {
    tile.heads = min64(plan.G, rule.rows);
    tile.queries = min64(rule.rows / tile.heads, seg.q_len);
  }
  return tile;
}

}  // namespace

int64_t whole_group_queries(int64_t G, int64_t kv_len) {
  constexpr int64_t kScores = 1 << 18;  // floats
  return max64(1, min64(kTileRows / G, kScores / (G * max64(kv_len, 1))));
}

int64_t flash_tile_rows(const AttentionPlan& plan) {
  constexpr int64_t kTiles = 128;
  int64_t steps = 0;
  for (int64_t b = 0; b < plan.num_segments; ++b)
    steps += plan.N1 * ceil_div(plan.segments[b].q_len, kTileRows);
  return kTileRows * max64(1, min64(kTileSteps, steps / kTiles));
}

Schedule::Schedule(const AttentionPlan& plan, TileRule rule, int threads) {
  for (int64_t b = 0; b < plan.num_segments; ++b) {
    const Segment& seg = plan.segments[b];
    if (seg.q_len == 0) continue;
    for (int64_t h = 0; h < plan.N2; ++h) add_pair(plan, rule, b, h, threads);
  }
  spans_.close();
  for (const WaveSpan& span : spans_.spans()) {
    waves_.push_back({pairs_.data() + span.pair, span.num_pairs, span.packed,
                      tiles_.data() + span.tile, span.tiles});
  }
}

void Schedule::add_pair(const AttentionPlan& plan, TileRule rule, int64_t b, int64_t h,
                        int threads) {
  const Segment& seg = plan.segments[b];
  WaveSpan& open = spans_.open();
  if (open.packed >= kWaveBlocks && open.tiles >= 4 * threads) spans_.close();
  pairs_.push_back({b, h, open.packed});
  RowTile shape = tile_shape(plan, seg, rule);
  // Later queries see more keys under a causal mask: they go first, short work fills the end.
  for (int64_t n = ceil_div(seg.q_len, shape.queries); n-- > 0;) {
    for (int64_t g = 0; g < plan.G; g += shape.heads) {
      RowTile tile = shape;
      tile.pair = open.num_pairs;
      tile.i0 = n * shape.queries;
      tile.queries = min64(shape.queries, seg.q_len - tile.i0);
      tile.g0 = g;
      tile.heads = min64(shape.heads, plan.G - g);
      tiles_.push_back(tile);
      ++open.tiles;
    }
  }
  ++open.num_pairs;
  open.packed += ceil_div(seg.kv_len, kBlockKeys);
}

}  // namespace nsa::cpu
