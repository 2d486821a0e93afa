// The gradient of FlashAttentionScore on strips of rows. Included by translation units that have
// StripStep.
#pragma once

#include "cpu/flash_attention_score/kernel.h"

namespace nsa::cpu {
namespace {

// Tells StripLoader of the rows of a tile: whole strips, but for queries past the last.
class UnitSwaths {
 public:
  UnitSwaths(const AttentionGradPlan& plan, const GradPair& pair, const UnitRows& c,
             const float* zeros)
      : plan_(plan), pair_(pair), c_(c), zeros_(zeros) {}

  int64_t strips() const { return ceil_div(c_.rows(), kStripRows); }

  bool operator()(int64_t n, SwathRows& rows, SwathLanes& lanes) const {
    const RowRange& range = c_.seg.range;
    const bool heads = plan_.strips == GradStrips::kHeads;
    bool usual = true;
    for (int64_t turn = 0; turn < 2; ++turn) {
      const int64_t first = (2 * n + turn) * kStripRows, there = c_.rows() - first;
      if (there <= 0) {
        put_strip(plan_, pair_, {turn}, zeros_, rows, lanes);
        continue;
      }
      const int64_t i = c_.query(first), count = min64(there, kStripRows);
      const StripOfRows of = {turn, count, i, c_.head(first)};
      usual = put_strip(plan_, pair_, of, zeros_, rows, lanes) && usual;
      for (int64_t r = 0; r < count; ++r) {
        const int64_t lane = strip_lane(turn, r);
        lanes.lo[lane] = static_cast<float>(range.lo(heads ? i : i + r));
        lanes.hi[lane] = static_cast<float>(range.hi(heads ? i : i + r));
      }
    }
    return usual;
  }

  // The first and the last query of swath n.
  int64_t first(int64_t n) const { return c_.query(n * kSwathLanes); }
  int64_t last(int64_t n) const { return c_.query(min64((n + 1) * kSwathLanes, c_.rows()) - 1); }

 private:
  const AttentionGradPlan& plan_;
  const GradPair& pair_;
  const UnitRows& c_;
  const float* zeros_;
};

// Where the words of two keys of slab n of a pair are, and how far apart: slabs 2 m and 2 m + 1
// share rows where there are both.
struct TransposedKeys {
  float* data;
  int64_t ld;

  TransposedKeys(const AttentionGradPlan& plan, const GradPair& pair, const GradScratch& s,
                 int64_t n) {
    constexpr int64_t words = kSlabKeys / 2;
    const int64_t slabs = ceil_div(plan.segments[pair.segment].kv_len, kSlabKeys);
    const bool alone = n % 2 == 0 && n + 1 == slabs;
    data = s.key_words_t + (pair.first_packed + n / 2 * 2) * plan.D * words + n % 2 * words;
    ld = alone ? words : 2 * words;
  }
};

// Keys [j, j + lanes) of a pair, one slab or two.
inline StripKeys flash_strip_keys(const AttentionGradPlan& plan, const GradPair& pair,
                                  const GradScratch& s, int64_t j, int64_t lanes) {
  const int64_t n = j / kSlabKeys;
  const TransposedKeys transposed(plan, pair, s, n);
  StripKeys keys = strip_keys(plan, s, pair.first_packed + n, kSlabKeys, j);
  keys.lanes = lanes;
  keys.kt = transposed.data;
  keys.ld_kt = transposed.ld;
  return keys;
}

// A loaded tile against `count` keys.
inline void strip_step(const AttentionGradPlan& plan, const GradPair& pair, const UnitRows& c,
                       const UnitSwaths& swaths, const StripTile& tile, const StripKeys& keys,
                       int64_t count, UnitBuffers& b) {
  const RowRange& range = c.seg.range;
  const int64_t j = keys.j0, past = j + keys.lanes;
  // Later rows see later keys.
  int64_t n0 = 0, n1 = tile.swaths();
  while (n0 < n1 && range.hi(swaths.last(n0)) <= j) ++n0;
  while (n0 < n1 && range.lo(swaths.first(n1 - 1)) >= past) --n1;
  if (n0 == n1) return;
  const StripStep step(plan, keys, tile, b.strips, b.tile.ahead);
  step.scores(n0, n1, [&](int64_t n) {
    return count < keys.lanes || range.lo(swaths.last(n)) > j || range.hi(swaths.first(n)) < past;
  });
  StripSums sums = strip_key_sums(plan, pair, keys, count, b);
  for (int64_t n = 2 * n0; n < 2 * n1; ++n) {
    const int64_t r = n * kStripRows;
    sums.dq[n] = n < tile.strips
                     ? dq_strip(plan, pair, c.query(r), c.head(r) - pair.kv_head * plan.G)
                     : b.strips.nobody;
  }
  step.sums(n0, n1, sums, [] {});
  finish_key_sums(plan, pair, keys, count, b);
}

// unit_tile() on strips, the sums of keys included. False: it was left undone, some number being
// none, or some row having no maximum.
inline bool unit_tile_strips(const AttentionGradPlan& plan, const GradPair& pair, const UnitRows& c,
                             int64_t j0, int64_t j1, const GradScratch& s, UnitBuffers& b) {
  const RowRange& range = c.seg.range;
  if (range.hi(c.query(c.rows() - 1)) <= j0 || range.lo(c.i0) >= j1) return true;
  const int64_t slab0 = pair.first_packed + j0 / kSlabKeys;
  if (!all_true(s.finite + slab0, ceil_div(j1 - j0, kSlabKeys))) return false;
  StripTile& tile = b.strips.tiles[0];
  const UnitSwaths swaths(plan, pair, c, b.strips.zeros);
  StripLoader loader(plan, tile, swaths.strips(), swaths);
  while (!loader.done()) loader.next();
  if (!tile.usual || !tile_is_finite(tile)) return false;
  for (int64_t j = j0; j < j1;) {
    // A step of two slabs where it loses nothing.
    const bool two = j % kTileKeys == 0 && j + kTileKeys <= j1 &&
                     range.lo(swaths.last(tile.swaths() - 1)) <= j &&
                     range.hi(c.i0) >= j + kTileKeys;
    const StripKeys keys = flash_strip_keys(plan, pair, s, j, two ? kTileKeys : kSlabKeys);
    strip_step(plan, pair, c, swaths, tile, keys, min64(keys.lanes, j1 - j), b);
    j += keys.lanes;
  }
  return true;
}

// The general way of a tile against keys [j0, j1), the sums of keys included.
template <class Path>
inline void general_tile(const AttentionGradPlan& plan, const GradPair& pair, const UnitRows& c,
                         int64_t j0, int64_t j1, const GradScratch& s, UnitBuffers& b) {
  for (int64_t j = j0; j < j1; j += kSlabKeys) {
    const int64_t at = pair.first_packed + j / kSlabKeys, past = min64(j + kSlabKeys, j1);
    const GradScratch apart = pack_keys_apart({plan, pair, at, kSlabKeys, j, past - j}, s, b);
    b.template clear<Path>(b.dk, plan.D, past - j);
    b.template clear<Path>(b.dv, plan.Dv, past - j);
    unit_tile<Path>(plan, pair, c, j, past, apart, b);
    add_unit_keys<Path>(plan, pair, j, past - j, b);
  }
}

template <class Path>
inline void run_strip_tile(const AttentionGradPlan& plan, const GradPair& pair, const UnitRows& c,
                           int64_t j0, int64_t j1, const GradScratch& s, UnitBuffers& b) {
  if (!unit_tile_strips(plan, pair, c, j0, j1, s, b))
    general_tile<Path>(plan, pair, c, j0, j1, s, b);
}

template <class Path>
inline void run_whole_unit(const AttentionGradPlan& plan, const GradPair& pair, int64_t q_chunk,
                           const GradScratch& s, UnitBuffers& b) {
  const Segment& seg = plan.segments[pair.segment];
  const int64_t i0 = q_chunk * pair.q_chunk, i1 = min64(i0 + pair.q_chunk, seg.q_len);
  const int64_t slot = q_chunk % pair.slots, heads = tile_heads(plan);
  const SlotKeys keys(seg, pair, slot);
  const int64_t sums = slot * pair.slot_keys;
  GradPair own = pair;
  own.dk = pair.dk + (sums - keys.first) * plan.D;
  own.dv = pair.dv + (sums - keys.first) * plan.Dv;
  own.dq = b.strips.dq;
  own.dq_strides.row = heads * plan.D;
  const int64_t queries = min64(kTileRows / heads, i1 - i0);
  for (int64_t g = 0; g < plan.G; g += heads) {
    for (int64_t i = i0; i < i1; i += queries) {
      const UnitRows rows{seg, pair.kv_head * plan.G + g, i, min64(queries, i1 - i),
                          min64(heads, plan.G - g)};
      // Whole slabs, whose sums need no buffers of the unit.
      const int64_t past = round_up(seg.range.hi(rows.query(rows.rows() - 1)), kSlabKeys);
      const int64_t j0 = seg.range.lo(i) / kSlabKeys * kSlabKeys, j1 = min64(past, seg.kv_len);
      ask_for_next_rows<Path>(plan, pair, rows, i1, max64(0, j1 - j0), b.tile.ahead);
      // Where the accumulators have the tile's first strip.
      own.dq = b.strips.dq - (dq_strip(plan, own, i, g) - own.dq);
      fill(b.strips.dq, kTileRows * plan.D, 0.0f);
      if (units_prepare(plan, pair)) {
        const int64_t first = i * plan.G + g, last = first + rows.rows();
        for (int64_t r = first; r < last; r += W)
          prepare_rows<Path>(plan, pair, r, min64(r + W, last), b.tile);
      }
      if (j0 < j1) run_strip_tile<Path>(plan, own, rows, j0, j1, s, b);
      for (int64_t r = 0; r < rows.rows(); r += kStripRows) {
        const int64_t at = seg.q + rows.query(r) * plan.q.row + rows.head(r) * plan.q.head;
        write_dq_strip(plan, b.strips.dq + r * plan.D, at, min64(kStripRows, rows.rows() - r),
                       plan.strips == GradStrips::kHeads ? plan.q.head : plan.q.row);
      }
    }
  }
}

template <class Path>
inline void pack_strip_slab(const AttentionGradPlan& plan, const GradPair& pair, int64_t n,
                            const GradScratch& s, float* tmp) {
  const int64_t j0 = n * kSlabKeys;
  const int64_t count = min64(kSlabKeys, plan.segments[pair.segment].kv_len - j0);
  const TransposedKeys transposed(plan, pair, s, n);
  pack_strip_keys({plan, pair, pair.first_packed + n, kSlabKeys, j0, count}, s, transposed.data,
                  transposed.ld, tmp);
}

}  // namespace
}  // namespace nsa::cpu
