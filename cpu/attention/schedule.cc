#include "cpu/attention/schedule_builder.h"

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
    tile.queries = min64(kTileRows, seg.q_len);
    tile.heads = min64(plan.G, max64(1, kTileRows / tile.queries));
  }
  return tile;
}

}  // namespace

int64_t whole_group_queries(int64_t G, int64_t kv_len) {
  constexpr int64_t kScores = 1 << 18;  // floats
  return max64(1, min64(kTileRows / G, kScores / (G * max64(kv_len, 1))));
}

void carve_forward(Arena& arena, const Schedule& schedule, const AttentionPlan& plan, WordForm form,
                   int threads, ForwardScratch& parts) {
  const int64_t depth = form.words(plan.D), rows = form.words(kBlockKeys);
  parts.keys = arena.take<float>(schedule.max_blocks() * depth * kBlockKeys);
  parts.values = arena.take<float>(schedule.max_blocks() * rows * padded_row(plan.Dv));
  parts.finite = arena.take<bool>(schedule.max_blocks());
  parts.threads = arena.take_threads(threads, parts.thread_size);
}

Schedule::Schedule(const AttentionPlan& plan, TileRule rule, int threads) {
  for (int64_t b = 0; b < plan.num_segments; ++b) {
    const Segment& seg = plan.segments[b];
    if (seg.q_len == 0) continue;
    for (int64_t h = 0; h < plan.N2; ++h) add_pair(plan, rule, b, h, threads);
  }
  close_wave();
  for (size_t w = 0; w < spans_.size(); ++w) {
    const WaveSpan& span = spans_[w];
    waves_.push_back({pairs_.data() + span.pair, span.num_pairs, span.num_blocks,
                      tiles_.data() + span.tile, span.num_tiles});
    max_blocks_ = max64(max_blocks_, span.num_blocks);
  }
}

void Schedule::add_pair(const AttentionPlan& plan, TileRule rule, int64_t b, int64_t h,
                        int threads) {
  const Segment& seg = plan.segments[b];
  if (open_.num_blocks >= kWaveBlocks && open_.num_tiles >= 4 * threads) close_wave();
  pairs_.push_back({b, h, open_.num_blocks, open_.num_tiles});
  RowTile shape = tile_shape(plan, seg, rule);
  // Later queries see more keys under a causal mask: they go first, short work fills the end.
  for (int64_t n = ceil_div(seg.q_len, shape.queries); n-- > 0;) {
    for (int64_t g = 0; g < plan.G; g += shape.heads) {
      RowTile tile = shape;
      tile.pair = open_.num_pairs;
      tile.i0 = n * shape.queries;
      tile.queries = min64(shape.queries, seg.q_len - tile.i0);
      tile.g0 = g;
      tile.heads = min64(shape.heads, plan.G - g);
      tiles_.push_back(tile);
      ++open_.num_tiles;
    }
  }
  ++open_.num_pairs;
  open_.num_blocks += ceil_div(seg.kv_len, kBlockKeys);
}

void Schedule::close_wave() {
  if (open_.num_pairs > 0) spans_.push_back(open_);
  open_ = {static_cast<int64_t>(pairs_.size()), 0, 0, static_cast<int64_t>(tiles_.size()), 0};
}

}  // namespace nsa::cpu
