// The gradient of FlashAttentionScore on groups of rows. Included by units that have GroupStep.
#pragma once

#include "cpu/flash_attention_score/kernel.h"

namespace nsa::cpu {
namespace {

// Tells GroupLoader of the rows of a tile: whole groups, but for queries past the last.
class UnitPairs {
 public:
  UnitPairs(const AttentionGradPlan& plan, const GradPair& pair, const UnitRows& c,
            const float* zeros)
      : plan_(plan), pair_(pair), c_(c), zeros_(zeros) {}

  int64_t groups() const { return ceil_div(c_.rows(), kGroupRows); }

  bool operator()(int64_t n, PairRows& rows, PairLanes& lanes) const {
    const RowRange& range = c_.seg.range;
    const bool heads = plan_.groups == GradGroups::kHeads;
    bool usual = true;
    for (int64_t turn = 0; turn < 2; ++turn) {
      const int64_t first = (2 * n + turn) * kGroupRows, there = c_.rows() - first;
      if (there <= 0) {
        put_group(plan_, pair_, {turn}, zeros_, rows, lanes);
        continue;
      }
      const int64_t i = c_.query(first), count = min64(there, kGroupRows);
      const GroupOfRows of = {turn, count, i, c_.head(first)};
      usual = put_group(plan_, pair_, of, zeros_, rows, lanes) && usual;
      for (int64_t r = 0; r < count; ++r) {
        const int64_t lane = group_lane(turn, r);
        lanes.lo[lane] = static_cast<float>(range.lo(heads ? i : i + r));
        lanes.hi[lane] = static_cast<float>(range.hi(heads ? i : i + r));
      }
    }
    return usual;
  }

  // The first and the last query of pair n.
  int64_t first(int64_t n) const { return c_.query(n * kPairLanes); }
  int64_t last(int64_t n) const { return c_.query(min64((n + 1) * kPairLanes, c_.rows()) - 1); }

 private:
  const AttentionGradPlan& plan_;
  const GradPair& pair_;
  const UnitRows& c_;
  const float* zeros_;
};

// Where the words of two keys of block n of a pair are, and how far apart: blocks 2 m and 2 m + 1
// share rows where there are both.
struct PairedKeys {
  float* data;
  int64_t ld;

  PairedKeys(const AttentionGradPlan& plan, const GradPair& pair, const GradScratch& s, int64_t n) {
    constexpr int64_t words = kBlockKeys / 2;
    const int64_t blocks = ceil_div(plan.segments[pair.segment].kv_len, kBlockKeys);
    const bool alone = n % 2 == 0 && n + 1 == blocks;
    data = s.key_pairs + (pair.first_packed + n / 2 * 2) * plan.D * words + n % 2 * words;
    ld = alone ? words : 2 * words;
  }
};

// Keys [j, j + lanes) of a pair, one block or two.
inline GroupKeys flash_group_keys(const AttentionGradPlan& plan, const GradPair& pair,
                                  const GradScratch& s, int64_t j, int64_t lanes) {
  const int64_t n = j / kBlockKeys;
  const PairedKeys paired(plan, pair, s, n);
  GroupKeys keys = group_keys(plan, s, pair.first_packed + n, kBlockKeys, j);
  keys.lanes = lanes;
  keys.kt = paired.data;
  keys.ld_kt = paired.ld;
  return keys;
}

// A loaded tile against `count` keys.
inline void group_step(const AttentionGradPlan& plan, const GradPair& pair, const UnitRows& c,
                       const UnitPairs& pairs, const GroupTile& tile, const GroupKeys& keys,
                       int64_t count, UnitBuffers& b) {
  const RowRange& range = c.seg.range;
  const int64_t j = keys.j0, past = j + keys.lanes;
  // Later rows see later keys.
  int64_t n0 = 0, n1 = tile.pairs();
  while (n0 < n1 && range.hi(pairs.last(n0)) <= j) ++n0;
  while (n0 < n1 && range.lo(pairs.first(n1 - 1)) >= past) --n1;
  if (n0 == n1) return;
  const GroupStep step(plan, keys, tile, b.groups, b.tile.ahead);
  step.scores(n0, n1, [&](int64_t n) {
    return count < keys.lanes || range.lo(pairs.last(n)) > j || range.hi(pairs.first(n)) < past;
  });
  GroupSums sums = key_group_sums(plan, pair, keys, count, b);
  for (int64_t n = 2 * n0; n < 2 * n1; ++n) {
    const int64_t r = n * kGroupRows;
    sums.dq[n] = n < tile.groups
                     ? dq_group(plan, pair, c.query(r), c.head(r) - pair.kv_head * plan.G)
                     : b.groups.nobody;
  }
  step.sums(n0, n1, sums, [] {});
  finish_key_sums(plan, pair, keys, count, b);
}

// unit_tile() on groups, the sums of keys included. False: it was left undone, some number being
// none, or some row having no maximum.
inline bool unit_tile_groups(const AttentionGradPlan& plan, const GradPair& pair, const UnitRows& c,
                             int64_t j0, int64_t j1, const GradScratch& s, UnitBuffers& b) {
  const RowRange& range = c.seg.range;
  if (range.hi(c.query(c.rows() - 1)) <= j0 || range.lo(c.i0) >= j1) return true;
  const int64_t block0 = pair.first_packed + j0 / kBlockKeys;
  if (!all_true(s.finite + block0, ceil_div(j1 - j0, kBlockKeys))) return false;
  GroupTile& tile = b.groups.tiles[0];
  const UnitPairs pairs(plan, pair, c, b.groups.zeros);
  GroupLoader loader(plan, tile, pairs.groups(), pairs);
  while (!loader.done()) loader.next();
  if (!tile.usual || !tile_is_finite(tile)) return false;
  for (int64_t j = j0; j < j1;) {
    // A step of two blocks where it loses nothing.
    const bool two = j % kTileKeys == 0 && j + kTileKeys <= j1 &&
                     range.lo(pairs.last(tile.pairs() - 1)) <= j && range.hi(c.i0) >= j + kTileKeys;
    const GroupKeys keys = flash_group_keys(plan, pair, s, j, two ? kTileKeys : kBlockKeys);
    group_step(plan, pair, c, pairs, tile, keys, min64(keys.lanes, j1 - j), b);
    j += keys.lanes;
  }
  return true;
}

// The general way of a tile against keys [j0, j1), the sums of keys included.
template <class Path>
inline void general_tile(const AttentionGradPlan& plan, const GradPair& pair, const UnitRows& c,
                         int64_t j0, int64_t j1, const GradScratch& s, UnitBuffers& b) {
  for (int64_t j = j0; j < j1; j += kBlockKeys) {
    const int64_t at = pair.first_packed + j / kBlockKeys, past = min64(j + kBlockKeys, j1);
    const GradScratch apart = pack_keys_apart({plan, pair, at, kBlockKeys, j, past - j}, s, b);
    b.template clear<Path>(b.dk, plan.D, past - j);
    b.template clear<Path>(b.dv, plan.Dv, past - j);
    unit_tile<Path>(plan, pair, c, j, past, apart, b);
    add_unit_keys<Path>(plan, pair, j, past - j, b);
  }
}

template <class Path>
inline void run_group_tile(const AttentionGradPlan& plan, const GradPair& pair, const UnitRows& c,
                           int64_t j0, int64_t j1, const GradScratch& s, UnitBuffers& b) {
  if (!unit_tile_groups(plan, pair, c, j0, j1, s, b))
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
  own.dq = b.groups.dq;
  own.dq_strides.row = heads * plan.D;
  const int64_t queries = min64(kTileRows / heads, i1 - i0);
  for (int64_t g = 0; g < plan.G; g += heads) {
    for (int64_t i = i0; i < i1; i += queries) {
      const UnitRows rows{seg, pair.kv_head * plan.G + g, i, min64(queries, i1 - i),
                          min64(heads, plan.G - g)};
      // Whole blocks, whose sums need no buffers of the unit.
      const int64_t past = round_up(seg.range.hi(rows.query(rows.rows() - 1)), kBlockKeys);
      const int64_t j0 = seg.range.lo(i) / kBlockKeys * kBlockKeys, j1 = min64(past, seg.kv_len);
      ask_for_next_rows<Path>(plan, pair, rows, i1, max64(0, j1 - j0), b.tile.ahead);
      // Where the accumulators have the tile's first group.
      own.dq = b.groups.dq - (dq_group(plan, own, i, g) - own.dq);
      fill(b.groups.dq, kTileRows * plan.D, 0.0f);
      if (units_prepare(plan, pair)) {
        const int64_t first = i * plan.G + g, last = first + rows.rows();
        for (int64_t r = first; r < last; r += W)
          prepare_rows<Path>(plan, pair, r, min64(r + W, last), b.tile);
      }
      if (j0 < j1) run_group_tile<Path>(plan, own, rows, j0, j1, s, b);
      for (int64_t r = 0; r < rows.rows(); r += kGroupRows) {
        const int64_t at = seg.q + rows.query(r) * plan.q.row + rows.head(r) * plan.q.head;
        write_dq_group(plan, b.groups.dq + r * plan.D, at, min64(kGroupRows, rows.rows() - r),
                       plan.groups == GradGroups::kHeads ? plan.q.head : plan.q.row);
      }
    }
  }
}

template <class Path>
inline void pack_paired_block(const AttentionGradPlan& plan, const GradPair& pair, int64_t n,
                              const GradScratch& s, float* tmp) {
  const int64_t j0 = n * kBlockKeys;
  const int64_t count = min64(kBlockKeys, plan.segments[pair.segment].kv_len - j0);
  const PairedKeys paired(plan, pair, s, n);
  pack_group_keys({plan, pair, pair.first_packed + n, kBlockKeys, j0, count}, s, paired.data,
                  paired.ld, tmp);
}

}  // namespace
}  // namespace nsa::cpu
