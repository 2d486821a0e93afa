#include "cpu/engine/plan/make_plan.h"

namespace nsa::cpu {
namespace {

struct LayoutStrides {
  RowStrides strides;
  int64_t batch;
};

LayoutStrides strides_of(Layout layout, int64_t B, int64_t S, int64_t N, int64_t D) {
  switch (layout) {
    case Layout::kSBH:
      return {{B * N * D, D}, N * D};
    case Layout::kBNSD:
      return {{D, S * D}, N * S * D};
    case Layout::kTND:
      return {{N * D, D}, 0};
    default:
      return {{N * D, D}, S * N * D};
  }
}

struct PlanStrides {
  LayoutStrides q, k, v, o;
};

// The tensors of a plan and how their rows and heads lie.
PlanStrides set_tensors(const AttentionTensors& x, AttentionPlan& plan) {
  const LayoutStrides q = strides_of(x.layout, x.B, x.S1, x.N1, x.D);
  const LayoutStrides k = strides_of(x.layout, x.B, x.S2, x.N2, x.D);
  const LayoutStrides v = strides_of(x.layout, x.B, x.S2, x.N2, x.Dv);
  const LayoutStrides o = strides_of(x.layout, x.B, x.S1, x.N1, x.Dv);
  plan.query = x.query;
  plan.key = x.key;
  plan.value = x.value;
  plan.out = x.out;
  plan.softmax_max = x.softmax_max;
  plan.softmax_sum = x.softmax_sum;
  plan.dtype = x.dtype;
  plan.N1 = x.N1;
  plan.N2 = x.N2;
  plan.G = x.N1 / x.N2;
  plan.D = x.D;
  plan.Dv = x.Dv;
  plan.q = q.strides;
  plan.k = k.strides;
  plan.v = v.strides;
  plan.o = o.strides;
  plan.stat = x.layout == Layout::kTND ? RowStrides{x.N1 * kSoftmaxLanes, kSoftmaxLanes}
                                       : RowStrides{kSoftmaxLanes, x.S1 * kSoftmaxLanes};
  plan.scale = x.scale;
  return {q, k, v, o};
}

Segment segment_of(const AttentionTensors& x, const PlanStrides& strides, int64_t b) {
  const bool packed = x.layout == Layout::kTND;
  const auto& [q, k, v, o] = strides;
  const int64_t q0 = packed ? start_of(x.seq_q, b) : 0, k0 = packed ? start_of(x.seq_kv, b) : 0;
  Segment seg{};
  seg.index = b;
  seg.first_query = packed ? q0 : b * x.S1;
  seg.first_key = packed ? k0 : b * x.S2;
  seg.q_len = packed ? x.seq_q[b] - q0 : x.S1;
  seg.kv_len = packed ? x.seq_kv[b] - k0 : x.S2;
  seg.q = b * q.batch + q0 * q.strides.row;
  seg.k = b * k.batch + k0 * k.strides.row;
  seg.v = b * v.batch + k0 * v.strides.row;
  seg.o = b * o.batch + q0 * o.strides.row;
  seg.stat = seg.first_query * x.N1 * kSoftmaxLanes;
  seg.range.kv_len = seg.kv_len;
  return seg;
}

}  // namespace

std::vector<Segment> make_plan(const AttentionTensors& x, AttentionPlan& plan) {
  const PlanStrides strides = set_tensors(x, plan);
  plan.bias.inv_keep = 1.0f;
  std::vector<Segment> segments;
  segments.reserve(static_cast<size_t>(x.B));
  for (int64_t b = 0; b < x.B; ++b) segments.push_back(segment_of(x, strides, b));
  plan.segments = segments.data();
  plan.num_segments = x.B;
  return segments;
}

namespace {

// Slabs of keys and values are shared by all tiles of a pair; several small pairs go into one wave
// so that threads do not wait for each other after every one of them.
constexpr int64_t kWaveKvBlocks = 128;

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
  if (open.packed >= kWaveKvBlocks && open.tiles >= 4 * threads) spans_.close();
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
  open.packed += ceil_div(seg.kv_len, kKvBlockKeys);
}

}  // namespace nsa::cpu
