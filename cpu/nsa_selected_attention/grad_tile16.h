// The gradient of NsaSelectedAttention on 16-row tiles. Included by translation units that have
// Tile16Step.
#pragma once

#include "cpu/nsa_selected_attention/grad_kernel.h"

namespace nsa::cpu {
namespace {

// Tells Tile16Loader of the rows of a tile.
class SelectTile32s {
 public:
  SelectTile32s(const SelectGradCall& of, const SelectTiles& tile, const float* zeros)
      : plan_(of.plan),
        sel_(of.sel),
        pair_(of.pair),
        rows_(tile.rows()),
        keys_(tile.keys()),
        block_(tile.block()),
        zeros_(zeros) {}

  int64_t tile16s() const { return rows_.rows() / kTile16Rows; }

  bool operator()(int64_t n, Tile32Rows& rows, Tile32Lanes& lanes) const {
    bool in_range = true;
    for (int64_t turn = 0; turn < 2; ++turn)
      in_range = tile16((2 * n + turn) * kTile16Rows, turn, rows, lanes) && in_range;
    return in_range;
  }

  // Whether some row of 32-row tile n does not see all lanes.
  bool cut(int64_t n) const {
    // hi does not decrease along the list, so the first row sees the least.
    return keys_.count < sel_.shape.lanes || 2 * n + 1 == tile16s() ||
           rows_.seg.range.hi(rows_.query(2 * n * kTile16Rows)) < keys_.j0 + keys_.count;
  }

 private:
  bool tile16(int64_t first, int64_t turn, Tile32Rows& rows, Tile32Lanes& lanes) const {
    if (first >= rows_.rows()) return put_tile16(plan_, pair_, {turn}, zeros_, rows, lanes);
    const int64_t i = rows_.query(first);
    const float times = multiplicity(pair_, sel_, plan_.N2, i, block_);
    const float hi = static_cast<float>(min64(keys_.j0 + keys_.count, rows_.seg.range.hi(i)));
    for (int64_t r = 0; r < kTile16Rows; ++r) {
      lanes.lo[tile16_lane(turn, r)] = 0.0f;
      lanes.hi[tile16_lane(turn, r)] = hi;
    }
    const bool in_range =
        put_tile16(plan_, pair_, {turn, kTile16Rows, i, rows_.head(first)}, zeros_, rows, lanes);
    for (int64_t r = 0; times != 1.0f && r < kTile16Rows; ++r)
      lanes.inv[tile16_lane(turn, r)] *= times;
    return in_range;
  }

  const AttentionGradPlan& plan_;
  const Selection& sel_;
  const SelectGradPair& pair_;
  GatheredRows rows_;
  PartKeys keys_;
  int64_t block_;
  const float* zeros_;
};

// A loaded tile of 16-row tiles against a part of a block. other(): what is done beside it.
template <class Other>
inline void select_grad_tile16s(const SelectGradCall& of, const SelectTiles& tile,
                                const SelectTile32s& tile32s, const Tile16Rows& loaded,
                                WorkItemBuffers& b, const Other& other) {
  const AttentionGradPlan& plan = of.plan;
  const SelectGradPair& pair = of.pair;
  const GatheredRows c = tile.rows();
  const PartKeys part = tile.keys();
  const int64_t lanes = of.sel.shape.lanes;
  const Tile16Keys keys = tile16_keys(plan, of.s, pair.first_packed + tile.part(), lanes, part.j0);
  Tile16Sums sums = tile16_key_sums(plan, pair, keys, part.count, b);
  for (int64_t n = 0; n < 2 * loaded.tile32s(); ++n) {
    const int64_t r = n * kTile16Rows;
    sums.dq[n] = n < loaded.tile16s ? dq_tile16(plan, pair, c.query(r), c.head(r) - c.first_head)
                                    : b.tile16s.nobody;
  }
  b.tile.prefetch.over(Tile16Step::prefetch_steps(plan, loaded.tile32s(), lanes));
  const Tile16Step step(plan, keys, loaded, b.tile16s, b.tile.prefetch);
  step.scores(0, loaded.tile32s(), [&](int64_t n) { return tile32s.cut(n); });
  step.sums(0, loaded.tile32s(), sums, other);
  finish_key_sums(plan, pair, keys, part.count, b);
}

// The work item on 16-row tiles. A tile is loaded beside the products of the one before it, and
// what the tile after that reads is prefetched.
template <class Variant>
inline void select_grad_work_item_tile16s(const SelectGradCall& of, SelectTiles tile,
                                          WorkItemBuffers& b) {
  const AttentionGradPlan& plan = of.plan;
  const SelectGradPair& pair = of.pair;
  const GradScratch& s = of.s;
  Tile16Buffers& g = b.tile16s;
  if (tile.done()) return;
  {
    const SelectTile32s tile32s(of, tile, g.zeros);
    Tile16Loader loader(plan, g.tiles[0], tile32s.tile16s(), tile32s);
    while (!loader.done()) loader.next();
  }
  SelectTiles then = tile;
  then.next();
  for (int64_t n = 0; !tile.done(); tile = then, then.next(), ++n) {
    PrefetchQueue& prefetch = b.tile.prefetch;
    prefetch.clear();
    const Tile16Rows& loaded = g.tiles[n % 2];
    const SelectTile32s tile32s(of, tile, g.zeros);
    const bool more = !then.done();
    const SelectTile32s then_tile32s(of, more ? then : tile, g.zeros);
    Tile16Loader loader(plan, g.tiles[(n + 1) % 2], more ? then_tile32s.tile16s() : 0,
                        then_tile32s);
    if (more) {
      SelectTiles later = then;
      later.next();
      if (!later.done()) {
        prefetch_grad_rows(plan, pair, later.rows(), prefetch);
        later.rows().each_query([&](int64_t, int64_t heads, int64_t i, int64_t head) {
          const int64_t at = i * plan.G + head - pair.kv_head * plan.G;
          prefetch.add(pair.max + at, heads);
          prefetch.add(pair.inv + at, heads);
          prefetch.add(pair.delta + at, heads);
        });
      }
    }
    if (loaded.in_range && tile_is_finite(loaded) && s.finite[pair.first_packed + tile.part()]) {
      select_grad_tile16s(of, tile, tile32s, loaded, b, [&] { loader.next(); });
    } else {
      const GradScratch apart = pack_keys_apart(of.part(tile.part()), s, b);
      select_grad_tile<Variant>({plan, of.sel, pair, apart}, tile, b);
    }
    while (!loader.done()) loader.next();
  }
}

template <class Variant>
inline void pack_tile16_part(const PairKeys& keys, const GradScratch& s, float* tmp) {
  pack_tile16_keys(keys, s, s.key_words_t + keys.at * keys.plan.D * keys.lanes / 2, keys.lanes / 2,
                   tmp);
}

}  // namespace
}  // namespace nsa::cpu
