// Tiles of a forward on AMX: of many keys in sweeps, of queries that see few keys one query after
// the other, and of gathered rows where they lie in memory.
#pragma once

#include "cpu/engine/step/amx_gathered.h"
#include "cpu/engine/step/forward_wave.h"

namespace nsa::cpu {
namespace {

// How many steps from k0 on, before key `end`, a unit of rows from `first` on can do at once.
inline int64_t plain_steps(const TileContext& c, int64_t first, int64_t k0, int64_t end,
                           const PackedPair& packed) {
  const AttentionPlan& plan = c.plan;
  const RowRange& range = c.seg.range;
  const int64_t past = first + kAmxUnitRows;
  if (plan.bias.changes_scores() || plan.bias.drop || !(plan.scale > 0.0f)) return 0;
  if (past > c.tile.rows() || range.lo(c.query(past - 1)) > k0) return 0;
  const int64_t steps = (min64(end, range.hi(c.query(first))) - k0) / kTileKeys;
  return packed.numbers(k0, k0 + steps * kTileKeys) ? steps : 0;
}

// Rows outside, a sweep's steps inside: a unit's rows and their output stay in the first-level
// cache.
inline void forward_sweep(const TileContext& c, int64_t begin, int64_t end,
                          const PackedPair& packed, TileBuffers& b) {
  const AttentionPlan& plan = c.plan;
  const int64_t rows = c.tile.rows(), depth = words<AmxPath>(plan.D), ld = padded_row(plan.Dv);
  for (int64_t first = 0; first < rows; first += kAmxUnitRows) {
    const UnitStep unit = {
        b.q + first * depth,         packed.keys, packed.values, b.o + first * ld, depth,
        round_up(plan.Dv, kLanePad), ld,          plan.scale,    &b.ahead};
    for (int64_t k0 = begin; k0 < end; k0 += kTileKeys) {
      const int64_t steps = plain_steps(c, first, k0, end, packed);
      if (steps > 0) k0 += kTileKeys * PlainSteps(unit, k0, b.steps).run(steps, b.state + first);
      if (k0 < end)
        forward_rows<AmxPath>(c, first, min64(first + kAmxUnitRows, rows), k0, packed, b);
    }
  }
}

// All keys in sweeps. After the last one another tile of the pair begins with its first keys.
inline void forward_sweeps(const TileContext& c, int64_t begin, int64_t end,
                           const PackedPair& packed, TileBuffers& b) {
  const int64_t steps = ceil_div(c.tile.rows(), kAmxUnitRows) * (kSweepKeys / kTileKeys);
  for (int64_t k0 = begin; k0 < end; k0 += kSweepKeys) {
    const int64_t then = k0 + kSweepKeys < end ? k0 + kSweepKeys : begin;
    ask_for_keys<AmxPath>(c.plan, packed, then, min64(then + kSweepKeys, end),
                          steps * PlainSteps::kAsked, b.ahead);
    forward_sweep(c, k0, min64(k0 + kSweepKeys, end), packed, b);
  }
}

// Whether a tile's rows go one query after the other through the few keys that they see: on its
// edges a query's heads see the same keys.
inline bool few_keys(const TileContext& c, int64_t begin, int64_t end, const PackedPair& packed) {
  const AttentionPlan& plan = c.plan;
  if (plan.bias.changes_scores() || plan.bias.drop || !(plan.scale > 0.0f)) return false;
  return c.tile.heads % kAmxTile == 0 && end - begin <= kSweepKeys && packed.numbers(begin, end);
}

// q: words of the rows, ldq apart.
template <class Form>
inline void forward_few_keys(const TileContext& c, const PackedPair& packed, const float* q,
                             int64_t ldq, TileBuffers& b) {
  const AttentionPlan& plan = c.plan;
  const RowRange& range = c.seg.range;
  const int64_t rows = c.tile.rows(), ld = padded_row(plan.Dv);
  const int64_t depth = Form::kForm.words(plan.D), value_size = words_of_values<Form>(plan.Dv);
  b.states.clear(rows);
  b.ahead.clear();
  GatheredSteps<Form> steps(plan, ldq, b.states, b.gathered, &b.ahead);
  for (int64_t r = 0; r < rows; r += kAmxTile) {
    const int64_t lo = range.lo(c.query(r)), hi = range.hi(c.query(r));
    steps.rows(q + r * ldq, b.o + r * ld, r);
    for (int64_t j0 = lo / kBlockKeys * kBlockKeys; j0 < hi; j0 += kBlockKeys) {
      const int64_t block = j0 / kBlockKeys;
      steps.meet({packed.keys + block * depth * kBlockKeys, packed.values + block * value_size,
                  max64(lo - j0, 0), min64(hi - j0, kBlockKeys)});
    }
  }
  steps.finish();
  take_gathered<Form>(plan, b.states, rows, b.o, b.state);
}

template <class Path>
inline void forward_row_keys(const TileContext& c, const PackedPair& packed, TileBuffers& b) {
  const RowRange& range = c.seg.range;
  const int64_t rows = c.tile.rows(), begin = range.lo(c.tile.i0) / kTileKeys * kTileKeys;
  const int64_t past = range.hi(c.query(rows - 1)), end = round_up(past, kBlockKeys);
  if (few_keys(c, range.lo(c.tile.i0), past, packed))
    return forward_few_keys<BFloat16Gathered>(c, packed, b.q, words<Path>(c.plan.D), b);
  forward_sweeps(c, begin, end, packed, b);
}

// Steps of gathered rows where they lie in memory, sixteen heads of a query each.
template <>
struct RowsInPlace<AmxPath> {
  // out(i, head): where the output of a head of a query is summed.
  template <class Rows, class Out>
  RowsInPlace(const AttentionPlan& plan, const Rows& c, const Out& out)
      : plan_(plan), there_(heads_are_tiles(plan)) {
    if (!there_) return;
    const float* words = static_cast<const float*>(plan.query);
    c.each_query([&](int64_t, int64_t heads, int64_t i, int64_t head) {
      for (int64_t n = head; n < head + heads; n += kAmxTile) {
        q_[count_] = words + (c.seg.q + i * plan.q.row + n * plan.q.head) / 2;
        o_[count_++] = out(i, n);
      }
    });
  }

  bool there() const { return there_; }

  // s = Q K^T of the tiles.
  void scores(const float* kt, int64_t lanes, float* s) const {
    each_two(
        plan_.q.head / 2, kScoreRow, [&](int64_t n) { return q_[n]; },
        [&](int64_t n) { return s + n * kAmxTile * kScoreRow; },
        [&](auto count, AmxRows rows) {
          for (int64_t n = 0; n < lanes; n += 2 * kAmxTile) {
            amx_block<decltype(count)::value, 2>(plan_.D / 2, rows, kt + n, lanes, false);
            rows.c += 2 * kAmxTile;
            rows.lower_c += 2 * kAmxTile;
          }
        });
  }

  // O += P V of the tiles, after their rows have been multiplied by factors.
  void add_values(const float* p, int64_t lanes, const float* v, const float* factor) const {
    const int64_t ld = padded_row(plan_.Dv), out_lanes = round_up(plan_.Dv, kLanePad);
    for (int64_t r = 0; r < count_ * kAmxTile; ++r) {
      if (factor[r] != 1.0f) scale_row(o_[r / kAmxTile] + r % kAmxTile * ld, out_lanes, factor[r]);
    }
    each_two(
        kScoreRow, ld, [&](int64_t n) { return p + n * kAmxTile * kScoreRow; },
        [&](int64_t n) { return o_[n]; },
        [&](auto count, AmxRows rows) {
          constexpr int kCount = decltype(count)::value;
          int64_t d = 0;
          for (; d + 2 * kAmxTile <= out_lanes; d += 2 * kAmxTile) {
            amx_block<kCount, 2>(lanes / 2, rows, v + d, ld, true);
            rows.c += 2 * kAmxTile;
            rows.lower_c += 2 * kAmxTile;
          }
          if (d < out_lanes) amx_block<kCount, 1>(lanes / 2, rows, v + d, ld, true);
        });
  }

 private:
  static constexpr int64_t kMost = kTileRows / kAmxTile;

  // block(number of tiles, rows) for all tiles, two at a time, the last one perhaps alone: a(n) and
  // c(n) give where the rows of A and C of tile n begin, lda and ldc apart.
  template <class A, class C, class Block>
  void each_two(int64_t lda, int64_t ldc, const A& a, const C& c, const Block& block) const {
    int64_t n = 0;
    for (; n + 2 <= count_; n += 2)
      block(std::integral_constant<int, 2>{}, AmxRows{a(n), a(n + 1), lda, c(n), c(n + 1), ldc});
    if (n < count_)
      block(std::integral_constant<int, 1>{}, AmxRows{a(n), a(n), lda, c(n), c(n), ldc});
  }

  const AttentionPlan& plan_;
  bool there_;
  int64_t count_ = 0;
  const float* q_[kMost];
  float* o_[kMost];
};

}  // namespace
}  // namespace nsa::cpu
