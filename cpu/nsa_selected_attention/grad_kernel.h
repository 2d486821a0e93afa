// The gradient of NsaSelectedAttention: the steps of FlashAttentionScoreGrad, with rows gathered by
// block.
#pragma once

#include "cpu/nsa_selected_attention/kernel.h"
#ifdef NSA_ISA_AMX
#include "cpu/engine/step/grad_groups.h"
#else
#include "cpu/engine/step/grad_steps.h"
#endif

namespace nsa::cpu {
namespace {

// Tiles of gathered rows in order: blocks [t0, t1), their parts, and of a part the rows of the
// queries of a chunk that selected it, in tiles of equal size.
class SelectTiles {
 public:
  // word: rows that go together.
  SelectTiles(const AttentionPlan& plan, const Selection& sel, const SelectPair& pair,
              int64_t q_chunk, int64_t t0, int64_t t1, int64_t word)
      : sel_(&sel), pair_(&pair), seg_(&plan.segments[pair.segment]), G_(plan.G) {
    align_ = G_ % word == 0 ? G_ : word;
    i0_ = q_chunk * pair.q_chunk;
    i1_ = min64(i0_ + pair.q_chunk, seg_->q_len);
    part_ = t0 * sel.shape.parts - 1;
    end_ = t1 * sel.shape.parts;
    next();
  }

  bool done() const { return part_ >= end_; }
  int64_t part() const { return part_; }
  int64_t block() const { return part_ / sel_->shape.parts; }
  PartKeys keys() const { return part_keys(sel_->shape, *seg_, part_); }
  bool first() const { return first_ == 0; }
  bool last() const { return first_ + count_ == rows_; }
  GatheredRows rows() const { return {*seg_, pair_->kv_head * G_, G_, list_, first_, count_}; }

  void next() {
    first_ += count_;
    while (first_ == rows_ && ++part_ < end_) open();
    count_ = min64(tile_, rows_ - first_);
  }

 private:
  void open() {
    const int64_t t = block();
    const int32_t* past = pair_->queries + pair_->begin[t + 1];
    list_ = first_query(pair_->queries + pair_->begin[t], past, i0_);
    rows_ = keys().count == 0 ? 0 : (first_query(list_, past, i1_) - list_) * G_;
    const int64_t tiles = max64(1, ceil_div(rows_, kTileRows));
    tile_ = min64(kTileRows, round_up(ceil_div(rows_, tiles), align_));
    first_ = count_ = 0;
  }

  const Selection* sel_;
  const SelectPair* pair_;
  const Segment* seg_;
  int64_t G_, align_, i0_, i1_, part_, end_;
  const int32_t* list_ = nullptr;
  int64_t rows_ = 0, tile_ = 0, first_ = 0, count_ = 0;
};

// What the first tile of a part reads of its keys.
template <class Path>
inline void ask_for_keys(const AttentionGradPlan& plan, const GradKeys& keys, Ahead& ahead) {
  ahead.add(keys.kt, words<Path>(plan.D) * keys.lanes);
  ahead.add(keys.vt, words<Path>(plan.Dv) * keys.lanes);
  if constexpr (!kOwnRows<Path>) ahead.add(keys.k, words<Path>(keys.lanes) * padded_row(plan.D));
}

// Rows that are not next to each other have their statistics in lines of their own.
inline void ask_for_statistics(const AttentionGradPlan& plan, const GatheredRows& c, Ahead& ahead) {
  each_row(c, [&](int64_t, int64_t i, int64_t head) {
    const int64_t stat = c.seg.stat + i * plan.stat.row + head * plan.stat.head;
    ahead.add(plan.softmax_max + stat, 1);
    ahead.add(plan.softmax_sum + stat, 1);
  });
}

// The packed keys of a tile.
template <class Path>
inline GradKeys part_of(const AttentionGradPlan& plan, const Selection& sel, const SelectPair& pair,
                        const SelectTiles& tile, const GradScratch& s, const float* own) {
  const PartKeys range = tile.keys();
  return packed_keys<Path>(plan, s, pair.first_packed + tile.part(), sel.shape.lanes, range.j0,
                           range.count, own);
}

// A tile with the steps of FlashAttentionScoreGrad. In groups its keys' sums go to the accumulators
// at once, otherwise with the last tile of a part.
template <class Path>
inline void select_grad_tile(const AttentionGradPlan& plan, const Selection& sel,
                             const SelectPair& pair, const SelectTiles& tile, const GradScratch& s,
                             UnitBuffers& b) {
  const GatheredRows c = tile.rows();
  const int64_t lanes = sel.shape.lanes;
  const GradKeys keys = part_of<Path>(plan, sel, pair, tile, s, b.keys);
  if constexpr (kOwnRows<Path>) {
    if (tile.first()) pack_key_rows<Path>(plan, pair, lanes, keys.j0, keys.n, b.keys);
  }
  if (plan.in_groups() || tile.first()) {
    b.clear<Path>(b.dk, plan.D, keys.n);
    b.clear<Path>(b.dv, plan.Dv, keys.n);
  }
  load_grad_rows<Path>(plan, c, pair.delta, b.tile);
  b.tile.ahead.over(grad_step_steps<Path>(plan, c.rows(), lanes));
  if (*pair.repeats) {
    for (int64_t r = 0; r < c.rows(); ++r)
      b.tile.inv[r] *= multiplicity(pair, sel, plan.N2, c.query(r), tile.block());
  }
  const KeySums<Path> dk = b.key_sums<Path>(b.dk, plan.D), dv = b.key_sums<Path>(b.dv, plan.Dv);
  for (int64_t r0 = 0, r1; r0 < c.rows(); r0 = r1) {
    // hi does not decrease along the list: the rows that see all keys are the last ones.
    const CutRows cut = cut_gathered<Path>(tile.keys(), lanes, c, r0);
    const bool plain = keys.n == lanes && c.seg.range.hi(c.query(r0)) >= keys.j0 + keys.n;
    r1 = cut.past;
    grad_step<Path>(plan, c, keys, r0, r1, 0, cut.lanes, plain, b.tile, dk, dv, Into::kReplace);
  }
  add_tile_dq(plan, pair, c, b.tile.dq);
  if (plan.in_groups() || tile.last()) add_unit_keys<Path>(plan, pair, keys.j0, keys.n, b);
}

#ifdef NSA_ISA_AMX
// Tells GroupLoader of the rows of a tile.
class SelectPairs {
 public:
  SelectPairs(const AttentionGradPlan& plan, const Selection& sel, const SelectPair& pair,
              const SelectTiles& tile, const float* zeros)
      : plan_(plan),
        sel_(sel),
        pair_(pair),
        rows_(tile.rows()),
        keys_(tile.keys()),
        block_(tile.block()),
        zeros_(zeros) {}

  int64_t groups() const { return rows_.rows() / kGroupRows; }

  bool operator()(int64_t n, PairRows& rows, PairLanes& lanes) const {
    bool usual = true;
    for (int64_t turn = 0; turn < 2; ++turn)
      usual = group((2 * n + turn) * kGroupRows, turn, rows, lanes) && usual;
    return usual;
  }

  // Whether some row of pair n does not see all lanes.
  bool cut(int64_t n) const {
    // hi does not decrease along the list, so the first row sees the least.
    return keys_.count < sel_.shape.lanes || 2 * n + 1 == groups() ||
           rows_.seg.range.hi(rows_.query(2 * n * kGroupRows)) < keys_.j0 + keys_.count;
  }

 private:
  bool group(int64_t first, int64_t turn, PairRows& rows, PairLanes& lanes) const {
    if (first >= rows_.rows()) return put_group(plan_, pair_, 0, 0, turn, 0, zeros_, rows, lanes);
    const int64_t i = rows_.query(first);
    const float times = multiplicity(pair_, sel_, plan_.N2, i, block_);
    const float hi = static_cast<float>(min64(keys_.j0 + keys_.count, rows_.seg.range.hi(i)));
    for (int64_t r = 0; r < kGroupRows; ++r) {
      lanes.lo[group_lane(turn, r)] = 0.0f;
      lanes.hi[group_lane(turn, r)] = hi;
    }
    const bool usual =
        put_group(plan_, pair_, i, rows_.head(first), turn, kGroupRows, zeros_, rows, lanes);
    for (int64_t r = 0; times != 1.0f && r < kGroupRows; ++r)
      lanes.inv[group_lane(turn, r)] *= times;
    return usual;
  }

  const AttentionGradPlan& plan_;
  const Selection& sel_;
  const SelectPair& pair_;
  GatheredRows rows_;
  PartKeys keys_;
  int64_t block_;
  const float* zeros_;
};

// A loaded tile of groups against a packed part of a block. other(): what is done beside it.
template <class Other>
inline void select_grad_groups(const AttentionGradPlan& plan, const Selection& sel,
                               const SelectPair& pair, const SelectTiles& tile,
                               const SelectPairs& pairs, const GroupTile& loaded,
                               const GradScratch& s, UnitBuffers& b, const Other& other) {
  const GatheredRows c = tile.rows();
  const PartKeys part = tile.keys();
  const int64_t lanes = sel.shape.lanes;
  const GroupKeys keys = group_keys(plan, s, pair.first_packed + tile.part(), lanes, part.j0);
  GroupSums sums = key_group_sums(plan, pair, keys, part.count, b);
  for (int64_t n = 0; n < 2 * loaded.pairs(); ++n) {
    const int64_t r = n * kGroupRows;
    sums.dq[n] = n < loaded.groups ? dq_group(plan, pair, c.query(r), c.head(r) - c.first_head)
                                   : b.groups.nobody;
  }
  b.tile.ahead.over(GroupStep::asked(plan, loaded.pairs(), lanes));
  const GroupStep step(plan, keys, loaded, b.groups, b.tile.ahead);
  step.scores(0, loaded.pairs(), [&](int64_t n) { return pairs.cut(n); });
  step.sums(0, loaded.pairs(), sums, other);
  finish_key_sums(plan, pair, keys, part.count, b);
}

// The unit on groups. A tile is loaded beside the products of the one before it, and what the tile
// after that reads is asked for.
inline void select_grad_unit_groups(const AttentionGradPlan& plan, const Selection& sel,
                                    const SelectPair& pair, SelectTiles tile, const GradScratch& s,
                                    UnitBuffers& b) {
  GroupBuffers& g = b.groups;
  if (tile.done()) return;
  {
    const SelectPairs pairs(plan, sel, pair, tile, g.zeros);
    GroupLoader loader(plan, g.tiles[0], pairs.groups(), pairs);
    while (!loader.done()) loader.next();
  }
  SelectTiles then = tile;
  then.next();
  for (int64_t n = 0; !tile.done(); tile = then, then.next(), ++n) {
    Ahead& ahead = b.tile.ahead;
    ahead.clear();
    const GroupTile& loaded = g.tiles[n % 2];
    const SelectPairs pairs(plan, sel, pair, tile, g.zeros);
    const bool more = !then.done();
    const SelectPairs then_pairs(plan, sel, pair, more ? then : tile, g.zeros);
    GroupLoader loader(plan, g.tiles[(n + 1) % 2], more ? then_pairs.groups() : 0, then_pairs);
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
    if (loaded.usual && loaded.finite() && s.finite[pair.first_packed + tile.part()]) {
      select_grad_groups(plan, sel, pair, tile, pairs, loaded, s, b, [&] { loader.next(); });
    } else {
      const PartKeys keys = tile.keys();
      const GradScratch apart = pack_keys_apart(plan, pair, pair.first_packed + tile.part(),
                                                sel.shape.lanes, keys.j0, keys.count, s, b);
      select_grad_tile<AmxPath>(plan, sel, pair, tile, apart, b);
    }
    while (!loader.done()) loader.next();
  }
}
#endif

template <class Path>
inline void select_grad_unit(const AttentionGradPlan& plan, const Selection& sel,
                             const SelectPair& pair, int64_t q_chunk, int64_t kv_chunk,
                             const GradScratch& s, UnitBuffers& b) {
  SelectTiles tile(plan, sel, pair, q_chunk, pair.first_block(kv_chunk), pair.past_block(kv_chunk),
                   Path::kForm.per_word * Path::kForm.align);
#ifdef NSA_ISA_AMX
  if constexpr (kRowsOnly<Path>) {
    if (plan.in_groups()) return select_grad_unit_groups(plan, sel, pair, tile, s, b);
  }
#endif
  for (SelectTiles then = tile; !tile.done(); tile = then) {
    Ahead& ahead = b.tile.ahead;
    ahead.clear();
    then.next();
    if (!then.done()) {
      ask_for_grad_rows(plan, pair, then.rows(), ahead);
      ask_for_statistics(plan, then.rows(), ahead);
      if (then.first())
        ask_for_keys<Path>(plan, part_of<Path>(plan, sel, pair, then, s, nullptr), ahead);
    }
    select_grad_tile<Path>(plan, sel, pair, tile, s, b);
  }
}

template <class Path>
void select_backward_wave(const AttentionGradPlan& plan, const Selection& sel,
                          const SelectWave& wave, const GradScratch& scratch, int threads) {
  run_backward_wave<Path>(
      plan, wave, scratch, kTileKeys, threads,
      [&](const Member& member, GradBuffers& b) {
        index_pairs(member, plan, sel, wave);
        for (int64_t p = 0; p < wave.num_pairs; ++p) {
          const SelectPair& pair = wave.pairs[p];
          member.share(pair.blocks * sel.shape.parts, [&](int64_t part) {
            const PartKeys keys = part_keys(sel.shape, plan.segments[pair.segment], part);
            const int64_t at = pair.first_packed + part, lanes = sel.shape.lanes;
#ifdef NSA_ISA_AMX
            if (kRowsOnly<Path> && plan.in_groups()) {
              pack_group_keys(plan, pair, at, lanes, keys.j0, keys.count, scratch,
                              scratch.key_pairs + at * plan.D * lanes / 2, lanes / 2, b.dq);
              return;
            }
#endif
            scratch.finite[at] =
                pack_grad_keys<Path>(plan, pair, at, lanes, keys.j0, keys.count, scratch, b.tmp);
#ifdef NSA_ISA_AMX
            if (plan.scores_in_pieces)
              pack_key_pieces(plan, pair, at, keys.j0, keys.count, scratch, b.q_pieces);
#endif
          });
        }
      },
      [&](const SelectPair& pair, int64_t q_chunk, int64_t kv_chunk) {
        const Segment& seg = plan.segments[pair.segment];
        const int64_t past = min64((q_chunk + 1) * pair.q_chunk, seg.q_len);
        return pair.shared(q_chunk, kv_chunk) &&
               seg.range.hi(past - 1) > pair.first_block(kv_chunk) * sel.shape.block;
      },
      [&](const SelectPair& pair, int64_t q_chunk, int64_t kv_chunk, UnitBuffers& b) {
        select_grad_unit<Path>(plan, sel, pair, q_chunk, kv_chunk, scratch, b);
      });
}

void select_backward(const AttentionGradPlan& plan, const Selection& sel, const SelectWave& wave,
                     const GradScratch& scratch, int threads) {
  if (plan.dtype == ElemType::kBFloat16)
    return select_backward_wave<GradPathOfBFloat16>(plan, sel, wave, scratch, threads);
  select_backward_wave<FloatPath>(plan, sel, wave, scratch, threads);
}

}  // namespace
}  // namespace nsa::cpu
