// The gradient of NsaSelectedAttention: the steps of FlashAttentionScoreGrad, with rows gathered by
// block.
#pragma once

#include "cpu/engine/step/gradient.h"
#include "cpu/nsa_selected_attention/kernel.h"

namespace nsa::cpu {
namespace {

// Tiles of gathered rows in order: blocks [t0, t1), their parts, and of a part the rows of the
// queries of a chunk that selected it, in tiles of equal size.
class SelectTiles {
 public:
  // word: rows that go together.
  SelectTiles(const AttentionPlan& plan, const Selection& sel, const SelectGradPair& pair,
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
  const SelectGradPair* pair_;
  const Segment* seg_;
  int64_t G_, align_, i0_, i1_, part_, end_;
  const int32_t* list_ = nullptr;
  int64_t rows_ = 0, tile_ = 0, first_ = 0, count_ = 0;
};

// Queues the keys that the first tile of a part reads.
template <class Variant>
inline void prefetch_keys(const AttentionGradPlan& plan, const GradKeys& keys,
                          PrefetchQueue& prefetch) {
  prefetch.add(keys.kt, words<Variant>(plan.D) * keys.lanes);
  prefetch.add(keys.vt, words<Variant>(plan.Dv) * keys.lanes);
  if constexpr (!kOwnRows<Variant>)
    prefetch.add(keys.k, words<Variant>(keys.lanes) * padded_row(plan.D));
}

// Rows that are not next to each other have their statistics in lines of their own.
inline void prefetch_statistics(const AttentionGradPlan& plan, const GatheredRows& c,
                                PrefetchQueue& prefetch) {
  each_row(c, [&](int64_t, int64_t i, int64_t head) {
    const int64_t stat = c.seg.stat + i * plan.stat.row + head * plan.stat.head;
    prefetch.add(plan.softmax_max + stat, 1);
    prefetch.add(plan.softmax_sum + stat, 1);
  });
}

// A pair of a call.
struct SelectGradCall {
  const AttentionGradPlan& plan;
  const Selection& sel;
  const SelectGradPair& pair;
  const GradScratch& s;

  PairKeys part(int64_t part) const {
    const PartKeys keys = part_keys(sel.shape, plan.segments[pair.segment], part);
    return {plan, pair, pair.first_packed + part, sel.shape.lanes, keys.j0, keys.count};
  }
};

// A tile with the steps of FlashAttentionScoreGrad. In 16-row tiles its keys' sums go to the
// accumulators at once, otherwise with the last tile of a part.
template <class Variant>
inline void select_grad_tile(const SelectGradCall& of, const SelectTiles& tile,
                             WorkItemBuffers& b) {
  const auto& [plan, sel, pair, s] = of;
  const GatheredRows c = tile.rows();
  const int64_t lanes = sel.shape.lanes;
  const PairKeys part = of.part(tile.part());
  const GradKeys keys = packed_keys<Variant>(part, s, b.keys);
  if constexpr (kOwnRows<Variant>) {
    if (tile.first()) pack_key_rows<Variant>(part, b.keys);
  }
  if (plan.uses_tile16() || tile.first()) {
    b.clear<Variant>(b.dk, plan.D, keys.n);
    b.clear<Variant>(b.dv, plan.Dv, keys.n);
  }
  load_grad_rows<Variant>(plan, c, pair.delta, b.tile);
  b.tile.prefetch.over(grad_step_steps<Variant>(plan, c.rows(), lanes));
  if (*pair.repeats) {
    for (int64_t r = 0; r < c.rows(); ++r)
      b.tile.inv[r] *= multiplicity(pair, sel, plan.N2, c.query(r), tile.block());
  }
  const KeySums<Variant> dk = b.key_sums<Variant>(b.dk, plan.D),
                         dv = b.key_sums<Variant>(b.dv, plan.Dv);
  for (int64_t r0 = 0, r1; r0 < c.rows(); r0 = r1) {
    // hi does not decrease along the list: the rows that see all keys are the last ones.
    const CutRows cut = cut_gathered<Variant>(tile.keys(), lanes, c, r0);
    const bool unmasked = keys.n == lanes && c.seg.range.hi(c.query(r0)) >= keys.j0 + keys.n;
    r1 = cut.past;
    grad_step<Variant>(plan, c, keys, {r0, r1, 0, cut.lanes, unmasked, dk, dv, Into::kReplace},
                       b.tile);
  }
  add_tile_dq(plan, pair, c, b.tile.dq);
  if (plan.uses_tile16() || tile.last())
    add_work_item_keys<Variant>(plan, pair, keys.j0, keys.n, b);
}

// Specialised by the gradient on 16-row tiles in grad_tile16.h.
template <class Variant>
inline void select_grad_work_item_tile16s(const SelectGradCall& of, SelectTiles tile,
                                          WorkItemBuffers& b);
// Packs a part of a pair for them. tmp: [lanes / 2, D padded].
template <class Variant>
inline void pack_tile16_part(const PairKeys& keys, const GradScratch& s, float* tmp);

template <class Variant>
inline void select_grad_work_item(const SelectGradCall& of, int64_t q_chunk, int64_t kv_chunk,
                                  WorkItemBuffers& b) {
  const auto& [plan, sel, pair, s] = of;
  SelectTiles tile(plan, sel, pair, q_chunk, pair.first_block(kv_chunk), pair.past_block(kv_chunk),
                   Variant::kForm.per_word * Variant::kForm.align);
  if constexpr (kRowsOnly<Variant>) {
    if (plan.uses_tile16()) return select_grad_work_item_tile16s<Variant>(of, tile, b);
  }
  for (SelectTiles then = tile; !tile.done(); tile = then) {
    PrefetchQueue& prefetch = b.tile.prefetch;
    prefetch.clear();
    then.next();
    if (!then.done()) {
      prefetch_grad_rows(plan, pair, then.rows(), prefetch);
      prefetch_statistics(plan, then.rows(), prefetch);
      if (then.first())
        prefetch_keys<Variant>(plan, packed_keys<Variant>(of.part(then.part()), s, nullptr),
                               prefetch);
    }
    select_grad_tile<Variant>(of, tile, b);
  }
}

template <class Variant>
void select_backward_wave(const AttentionGradPlan& plan, const Selection& sel,
                          const SelectGradWave& wave, const GradScratch& scratch, int threads) {
  run_backward_wave<Variant>(
      plan, wave, scratch, kTileKeys, threads,
      [&](const Member& member, GradBuffers& b) {
        index_pairs(member, plan, sel, wave);
        for (int64_t p = 0; p < wave.num_pairs; ++p) {
          const SelectGradPair& pair = wave.pairs[p];
          const SelectGradCall of = {plan, sel, pair, scratch};
          member.static_for(pair.blocks * sel.shape.parts, [&](int64_t part) {
            const PairKeys keys = of.part(part);
            if constexpr (kRowsOnly<Variant>) {
              if (plan.uses_tile16()) return pack_tile16_part<Variant>(keys, scratch, b.dq);
            }
            scratch.finite[keys.at] = pack_grad_keys<Variant>(keys, scratch, b.tmp);
            if constexpr (kScoresSplit<Variant>) {
              if (plan.scores_as_bf16x3)
                pack_key_bf16x3<typename Variant::Scores>(keys, scratch, b.q_bf16x3);
            }
          });
        }
      },
      [&](const SelectGradPair& pair, int64_t q_chunk, int64_t kv_chunk) {
        const Segment& seg = plan.segments[pair.segment];
        const int64_t past = min64((q_chunk + 1) * pair.q_chunk, seg.q_len);
        return pair.sums_to(q_chunk, kv_chunk) &&
               seg.range.hi(past - 1) > pair.first_block(kv_chunk) * sel.shape.block;
      },
      [&](const SelectGradPair& pair, int64_t q_chunk, int64_t kv_chunk, WorkItemBuffers& b) {
        select_grad_work_item<Variant>({plan, sel, pair, scratch}, q_chunk, kv_chunk, b);
      });
}

void select_backward_by_dtype(const AttentionGradPlan& plan, const Selection& sel,
                              const SelectGradWave& wave, const GradScratch& scratch, int threads) {
  if (plan.dtype == ElemType::kBFloat16)
    return select_backward_wave<VariantOfBFloat16>(plan, sel, wave, scratch, threads);
  select_backward_wave<GradVariantOfFloat>(plan, sel, wave, scratch, threads);
}

}  // namespace
}  // namespace nsa::cpu
