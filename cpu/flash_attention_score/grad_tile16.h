// The gradient of FlashAttentionScore on 16-row tiles. Included by translation units that have
// Tile16Step.
#pragma once

#include "cpu/flash_attention_score/kernel.h"

namespace nsa::cpu {
namespace {

// Tells Tile16Loader of the rows of a tile: whole 16-row tiles, but for queries past the last.
class WorkItemTile32s {
 public:
  WorkItemTile32s(const AttentionGradPlan& plan, const GradPair& pair, const WorkItemRows& c,
                  const float* zeros)
      : plan_(plan), pair_(pair), c_(c), zeros_(zeros) {}

  int64_t tile16s() const { return ceil_div(c_.rows(), kTile16Rows); }

  bool operator()(int64_t n, Tile32Rows& rows, Tile32Lanes& lanes) const {
    const RowRange& range = c_.seg.range;
    const bool heads = plan_.tile16s == GradTile16::kHeads;
    bool in_range = true;
    for (int64_t turn = 0; turn < 2; ++turn) {
      const int64_t first = (2 * n + turn) * kTile16Rows, there = c_.rows() - first;
      if (there <= 0) {
        put_tile16(plan_, pair_, {turn}, zeros_, rows, lanes);
        continue;
      }
      const int64_t i = c_.query(first), count = min64(there, kTile16Rows);
      const Tile16OfRows of = {turn, count, i, c_.head(first)};
      in_range = put_tile16(plan_, pair_, of, zeros_, rows, lanes) && in_range;
      for (int64_t r = 0; r < count; ++r) {
        const int64_t lane = tile16_lane(turn, r);
        lanes.lo[lane] = static_cast<float>(range.lo(heads ? i : i + r));
        lanes.hi[lane] = static_cast<float>(range.hi(heads ? i : i + r));
      }
    }
    return in_range;
  }

  // The first and the last query of 32-row tile n.
  int64_t first(int64_t n) const { return c_.query(n * kTile32Lanes); }
  int64_t last(int64_t n) const { return c_.query(min64((n + 1) * kTile32Lanes, c_.rows()) - 1); }

 private:
  const AttentionGradPlan& plan_;
  const GradPair& pair_;
  const WorkItemRows& c_;
  const float* zeros_;
};

// Where the words of two keys of KV block n of a pair are, and how far apart: KV blocks 2 m and 2 m
// + 1 share rows where there are both.
struct TransposedKeys {
  float* data;
  int64_t ld;

  TransposedKeys(const AttentionGradPlan& plan, const GradPair& pair, const GradScratch& s,
                 int64_t n) {
    constexpr int64_t words = kKvBlockKeys / 2;
    const int64_t kv_blocks = ceil_div(plan.segments[pair.segment].kv_len, kKvBlockKeys);
    const bool alone = n % 2 == 0 && n + 1 == kv_blocks;
    data = s.key_words_t + (pair.first_packed + n / 2 * 2) * plan.D * words + n % 2 * words;
    ld = alone ? words : 2 * words;
  }
};

// Keys [j, j + lanes) of a pair, one KV block or two.
inline Tile16Keys flash_tile16_keys(const AttentionGradPlan& plan, const GradPair& pair,
                                    const GradScratch& s, int64_t j, int64_t lanes) {
  const int64_t n = j / kKvBlockKeys;
  const TransposedKeys transposed(plan, pair, s, n);
  Tile16Keys keys = tile16_keys(plan, s, pair.first_packed + n, kKvBlockKeys, j);
  keys.lanes = lanes;
  keys.kt = transposed.data;
  keys.ld_kt = transposed.ld;
  return keys;
}

// A loaded tile against `count` keys.
inline void tile16_step(const AttentionGradPlan& plan, const GradPair& pair, const WorkItemRows& c,
                        const WorkItemTile32s& tile32s, const Tile16Rows& tile,
                        const Tile16Keys& keys, int64_t count, WorkItemBuffers& b) {
  const RowRange& range = c.seg.range;
  const int64_t j = keys.j0, past = j + keys.lanes;
  // Later rows see later keys.
  int64_t n0 = 0, n1 = tile.tile32s();
  while (n0 < n1 && range.hi(tile32s.last(n0)) <= j) ++n0;
  while (n0 < n1 && range.lo(tile32s.first(n1 - 1)) >= past) --n1;
  if (n0 == n1) return;
  const Tile16Step step(plan, keys, tile, b.tile16s, b.tile.prefetch);
  step.scores(n0, n1, [&](int64_t n) {
    return count < keys.lanes || range.lo(tile32s.last(n)) > j || range.hi(tile32s.first(n)) < past;
  });
  Tile16Sums sums = tile16_key_sums(plan, pair, keys, count, b);
  for (int64_t n = 2 * n0; n < 2 * n1; ++n) {
    const int64_t r = n * kTile16Rows;
    sums.dq[n] = n < tile.tile16s
                     ? dq_tile16(plan, pair, c.query(r), c.head(r) - pair.kv_head * plan.G)
                     : b.tile16s.nobody;
  }
  step.sums(n0, n1, sums, [] {});
  finish_key_sums(plan, pair, keys, count, b);
}

// work_item_tile() on 16-row tiles, the sums of keys included. False: it was left undone, some
// number being none, or some row having no maximum.
inline bool work_item_tile_by_tile16(const AttentionGradPlan& plan, const GradPair& pair,
                                     const WorkItemRows& c, int64_t j0, int64_t j1,
                                     const GradScratch& s, WorkItemBuffers& b) {
  const RowRange& range = c.seg.range;
  if (range.hi(c.query(c.rows() - 1)) <= j0 || range.lo(c.i0) >= j1) return true;
  const int64_t kv_block0 = pair.first_packed + j0 / kKvBlockKeys;
  if (!all_true(s.finite + kv_block0, ceil_div(j1 - j0, kKvBlockKeys))) return false;
  Tile16Rows& tile = b.tile16s.tiles[0];
  const WorkItemTile32s tile32s(plan, pair, c, b.tile16s.zeros);
  Tile16Loader loader(plan, tile, tile32s.tile16s(), tile32s);
  while (!loader.done()) loader.next();
  if (!tile.in_range || !tile_is_finite(tile)) return false;
  for (int64_t j = j0; j < j1;) {
    // A step of two KV blocks where it loses nothing.
    const bool two = j % kTileKeys == 0 && j + kTileKeys <= j1 &&
                     range.lo(tile32s.last(tile.tile32s() - 1)) <= j &&
                     range.hi(c.i0) >= j + kTileKeys;
    const Tile16Keys keys = flash_tile16_keys(plan, pair, s, j, two ? kTileKeys : kKvBlockKeys);
    tile16_step(plan, pair, c, tile32s, tile, keys, min64(keys.lanes, j1 - j), b);
    j += keys.lanes;
  }
  return true;
}

// The general code of a tile against keys [j0, j1), the sums of keys included.
template <class Variant>
inline void general_tile(const AttentionGradPlan& plan, const GradPair& pair, const WorkItemRows& c,
                         int64_t j0, int64_t j1, const GradScratch& s, WorkItemBuffers& b) {
  for (int64_t j = j0; j < j1; j += kKvBlockKeys) {
    const int64_t at = pair.first_packed + j / kKvBlockKeys, past = min64(j + kKvBlockKeys, j1);
    const GradScratch apart = pack_keys_apart({plan, pair, at, kKvBlockKeys, j, past - j}, s, b);
    b.template clear<Variant>(b.dk, plan.D, past - j);
    b.template clear<Variant>(b.dv, plan.Dv, past - j);
    work_item_tile<Variant>(plan, pair, c, j, past, apart, b);
    add_work_item_keys<Variant>(plan, pair, j, past - j, b);
  }
}

template <class Variant>
inline void run_tile_by_tile16(const AttentionGradPlan& plan, const GradPair& pair,
                               const WorkItemRows& c, int64_t j0, int64_t j1, const GradScratch& s,
                               WorkItemBuffers& b) {
  if (!work_item_tile_by_tile16(plan, pair, c, j0, j1, s, b))
    general_tile<Variant>(plan, pair, c, j0, j1, s, b);
}

template <class Variant>
inline void run_whole_work_item(const AttentionGradPlan& plan, const GradPair& pair,
                                int64_t q_chunk, const GradScratch& s, WorkItemBuffers& b) {
  const Segment& seg = plan.segments[pair.segment];
  const int64_t i0 = q_chunk * pair.q_chunk, i1 = min64(i0 + pair.q_chunk, seg.q_len);
  const int64_t slot = q_chunk % pair.slots, heads = tile_heads(plan);
  const SlotKeys keys(seg, pair, slot);
  const int64_t sums = slot * pair.slot_keys;
  GradPair own = pair;
  own.dk = pair.dk + (sums - keys.first) * plan.D;
  own.dv = pair.dv + (sums - keys.first) * plan.Dv;
  own.dq = b.tile16s.dq;
  own.dq_strides.row = heads * plan.D;
  const int64_t queries = min64(kTileRows / heads, i1 - i0);
  for (int64_t g = 0; g < plan.G; g += heads) {
    for (int64_t i = i0; i < i1; i += queries) {
      const WorkItemRows rows{seg, pair.kv_head * plan.G + g, i, min64(queries, i1 - i),
                              min64(heads, plan.G - g)};
      // Whole KV blocks, whose sums need no buffers of the work item.
      const int64_t past = round_up(seg.range.hi(rows.query(rows.rows() - 1)), kKvBlockKeys);
      const int64_t j0 = seg.range.lo(i) / kKvBlockKeys * kKvBlockKeys,
                    j1 = min64(past, seg.kv_len);
      prefetch_next_rows<Variant>(plan, pair, rows, i1, max64(0, j1 - j0), b.tile.prefetch);
      // Where the accumulators have the tile's first 16-row tile.
      own.dq = b.tile16s.dq - (dq_tile16(plan, own, i, g) - own.dq);
      fill(b.tile16s.dq, kTileRows * plan.D, 0.0f);
      if (work_items_prepare(plan, pair)) {
        const int64_t first = i * plan.G + g, last = first + rows.rows();
        for (int64_t r = first; r < last; r += W)
          prepare_rows<Variant>(plan, pair, r, min64(r + W, last), b.tile);
      }
      if (j0 < j1) run_tile_by_tile16<Variant>(plan, own, rows, j0, j1, s, b);
      for (int64_t r = 0; r < rows.rows(); r += kTile16Rows) {
        const int64_t at = seg.q + rows.query(r) * plan.q.row + rows.head(r) * plan.q.head;
        write_dq_tile16(plan, b.tile16s.dq + r * plan.D, at, min64(kTile16Rows, rows.rows() - r),
                        plan.tile16s == GradTile16::kHeads ? plan.q.head : plan.q.row);
      }
    }
  }
}

template <class Variant>
inline void pack_tile16_kv_block(const AttentionGradPlan& plan, const GradPair& pair, int64_t n,
                                 const GradScratch& s, float* tmp) {
  const int64_t j0 = n * kKvBlockKeys;
  const int64_t count = min64(kKvBlockKeys, plan.segments[pair.segment].kv_len - j0);
  const TransposedKeys transposed(plan, pair, s, n);
  pack_tile16_keys({plan, pair, pair.first_packed + n, kKvBlockKeys, j0, count}, s, transposed.data,
                   transposed.ld, tmp);
}

}  // namespace
}  // namespace nsa::cpu
