// The gradient of NsaSelectedAttention on strips of rows. Included by translation units that have
// StripStep.
#pragma once

#include "cpu/nsa_selected_attention/grad_kernel.h"

namespace nsa::cpu {
namespace {

// Tells StripLoader of the rows of a tile.
class SelectSwaths {
 public:
  SelectSwaths(const SelectGradCall& of, const SelectTiles& tile, const float* zeros)
      : plan_(of.plan),
        sel_(of.sel),
        pair_(of.pair),
        rows_(tile.rows()),
        keys_(tile.keys()),
        block_(tile.block()),
        zeros_(zeros) {}

  int64_t strips() const { return rows_.rows() / kStripRows; }

  bool operator()(int64_t n, SwathRows& rows, SwathLanes& lanes) const {
    bool usual = true;
    for (int64_t turn = 0; turn < 2; ++turn)
      usual = strip((2 * n + turn) * kStripRows, turn, rows, lanes) && usual;
    return usual;
  }

  // Whether some row of swath n does not see all lanes.
  bool cut(int64_t n) const {
    // hi does not decrease along the list, so the first row sees the least.
    return keys_.count < sel_.shape.lanes || 2 * n + 1 == strips() ||
           rows_.seg.range.hi(rows_.query(2 * n * kStripRows)) < keys_.j0 + keys_.count;
  }

 private:
  bool strip(int64_t first, int64_t turn, SwathRows& rows, SwathLanes& lanes) const {
    if (first >= rows_.rows()) return put_strip(plan_, pair_, {turn}, zeros_, rows, lanes);
    const int64_t i = rows_.query(first);
    const float times = multiplicity(pair_, sel_, plan_.N2, i, block_);
    const float hi = static_cast<float>(min64(keys_.j0 + keys_.count, rows_.seg.range.hi(i)));
    for (int64_t r = 0; r < kStripRows; ++r) {
      lanes.lo[strip_lane(turn, r)] = 0.0f;
      lanes.hi[strip_lane(turn, r)] = hi;
    }
    const bool usual =
        put_strip(plan_, pair_, {turn, kStripRows, i, rows_.head(first)}, zeros_, rows, lanes);
    for (int64_t r = 0; times != 1.0f && r < kStripRows; ++r)
      lanes.inv[strip_lane(turn, r)] *= times;
    return usual;
  }

  const AttentionGradPlan& plan_;
  const Selection& sel_;
  const SelectGradPair& pair_;
  GatheredRows rows_;
  PartKeys keys_;
  int64_t block_;
  const float* zeros_;
};

// A loaded tile of strips against a part of a block. other(): what is done beside it.
template <class Other>
inline void select_grad_strips(const SelectGradCall& of, const SelectTiles& tile,
                               const SelectSwaths& swaths, const StripTile& loaded, UnitBuffers& b,
                               const Other& other) {
  const AttentionGradPlan& plan = of.plan;
  const SelectGradPair& pair = of.pair;
  const GatheredRows c = tile.rows();
  const PartKeys part = tile.keys();
  const int64_t lanes = of.sel.shape.lanes;
  const StripKeys keys = strip_keys(plan, of.s, pair.first_packed + tile.part(), lanes, part.j0);
  StripSums sums = strip_key_sums(plan, pair, keys, part.count, b);
  for (int64_t n = 0; n < 2 * loaded.swaths(); ++n) {
    const int64_t r = n * kStripRows;
    sums.dq[n] = n < loaded.strips ? dq_strip(plan, pair, c.query(r), c.head(r) - c.first_head)
                                   : b.strips.nobody;
  }
  b.tile.ahead.over(StripStep::asked(plan, loaded.swaths(), lanes));
  const StripStep step(plan, keys, loaded, b.strips, b.tile.ahead);
  step.scores(0, loaded.swaths(), [&](int64_t n) { return swaths.cut(n); });
  step.sums(0, loaded.swaths(), sums, other);
  finish_key_sums(plan, pair, keys, part.count, b);
}

// The unit on strips. A tile is loaded beside the products of the one before it, and what the tile
// after that reads is asked for.
template <class Path>
inline void select_grad_unit_strips(const SelectGradCall& of, SelectTiles tile, UnitBuffers& b) {
  const AttentionGradPlan& plan = of.plan;
  const SelectGradPair& pair = of.pair;
  const GradScratch& s = of.s;
  StripBuffers& g = b.strips;
  if (tile.done()) return;
  {
    const SelectSwaths swaths(of, tile, g.zeros);
    StripLoader loader(plan, g.tiles[0], swaths.strips(), swaths);
    while (!loader.done()) loader.next();
  }
  SelectTiles then = tile;
  then.next();
  for (int64_t n = 0; !tile.done(); tile = then, then.next(), ++n) {
    Ahead& ahead = b.tile.ahead;
    ahead.clear();
    const StripTile& loaded = g.tiles[n % 2];
    const SelectSwaths swaths(of, tile, g.zeros);
    const bool more = !then.done();
    const SelectSwaths then_swaths(of, more ? then : tile, g.zeros);
    StripLoader loader(plan, g.tiles[(n + 1) % 2], more ? then_swaths.strips() : 0, then_swaths);
    if (more) {
      SelectTiles later = then;
      later.next();
      if (!later.done()) {
        ask_for_grad_rows(plan, pair, later.rows(), ahead);
        later.rows().each_query([&](int64_t, int64_t heads, int64_t i, int64_t head) {
          const int64_t at = i * plan.G + head - pair.kv_head * plan.G;
          ahead.add(pair.max + at, heads);
          ahead.add(pair.inv + at, heads);
          ahead.add(pair.delta + at, heads);
        });
      }
    }
    if (loaded.usual && tile_is_finite(loaded) && s.finite[pair.first_packed + tile.part()]) {
      select_grad_strips(of, tile, swaths, loaded, b, [&] { loader.next(); });
    } else {
      const GradScratch apart = pack_keys_apart(of.part(tile.part()), s, b);
      select_grad_tile<Path>({plan, of.sel, pair, apart}, tile, b);
    }
    while (!loader.done()) loader.next();
  }
}

template <class Path>
inline void pack_strip_part(const PairKeys& keys, const GradScratch& s, float* tmp) {
  pack_strip_keys(keys, s, s.key_words_t + keys.at * keys.plan.D * keys.lanes / 2, keys.lanes / 2,
                  tmp);
}

}  // namespace
}  // namespace nsa::cpu
