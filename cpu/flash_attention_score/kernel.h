// FlashAttentionScore: one region of a team per wave, first packing, then tiles. Its gradient:
// prepare a wave (pack, rowsum(dO O), zero the accumulators), then its work items.
#pragma once

#include "cpu/engine/step/forward.h"
#include "cpu/engine/step/gradient.h"

namespace nsa::cpu {
namespace {

template <class Variant>
void flash_forward_wave(const AttentionPlan& plan, const Wave& wave, const ForwardScratch& scratch,
                        int threads) {
  using Tile = ForwardTile<Variant>;
  run_forward_wave<Variant>(
      plan, wave, scratch, threads,
      [&](Arena& arena) { return Tile::Buffers::carve(arena, plan.D, plan.Dv, scratch.tile_rows); },
      [](const TileContext& context, const PackedPair& packed, typename Tile::Buffers& buffers) {
        Tile::run(context, packed, buffers);
      });
}

void flash_forward_by_dtype(const AttentionPlan& plan, const Wave& wave,
                            const ForwardScratch& scratch, int threads) {
  if (plan.dtype == ElemType::kBFloat16)
    return flash_forward_wave<VariantOfBFloat16>(plan, wave, scratch, threads);
  if (scratch.as_bf16x3) return flash_forward_wave<SplitFloatVariant>(plan, wave, scratch, threads);
  flash_forward_wave<FloatVariant>(plan, wave, scratch, threads);
}

int64_t flash_forward_thread_size(int64_t D, int64_t Dv, int64_t tile_rows, bool as_bf16x3) {
  return measured([&](Arena& arena) {
    if (as_bf16x3) {
      ForwardTile<SplitFloatVariant>::Buffers::carve(arena, D, Dv, tile_rows);
    } else {
      TileBuffers::carve(arena, D, Dv, tile_rows);
    }
  });
}

// Rows of a tile of one work item: queries, and all heads of their group where they fit.
struct WorkItemRows {
  const Segment& seg;
  int64_t first_head;  // of the tile
  int64_t i0, queries, heads;

  int64_t rows() const { return queries * heads; }
  int64_t query(int64_t r) const { return i0 + r / heads; }
  int64_t head(int64_t r) const { return first_head + r % heads; }
};

// Heads of a tile of a work item.
inline int64_t tile_heads(const AttentionGradPlan& plan) {
  return plan.tile16s == GradTile16::kQueries ? 1 : min64(plan.G, kTileRows);
}

// The rows after these, of the queries before i1, are prefetched while these meet `keys` keys.
template <class Variant>
inline void prefetch_next_rows(const AttentionGradPlan& plan, const GradPair& pair,
                               const WorkItemRows& rows, int64_t i1, int64_t keys,
                               PrefetchQueue& prefetch) {
  prefetch.clear();
  const int64_t next = rows.i0 + rows.queries;
  if (next >= i1) return;
  prefetch_grad_rows(
      plan, pair,
      WorkItemRows{rows.seg, rows.first_head, next, min64(rows.queries, i1 - next), rows.heads},
      prefetch);
  int64_t steps = grad_step_steps<Variant>(plan, rows.rows(), kTileKeys);
  if constexpr (kRowsOnly<Variant>) {
    if (plan.uses_tile16()) steps = 2 * tile16_steps<Variant>(plan, rows.rows(), kKvBlockKeys);
  }
  prefetch.over(steps * ceil_div(keys, kTileKeys));
}

// One tile of rows against the key chunk [j0, j1).
template <class Variant>
inline void work_item_tile(const AttentionGradPlan& plan, const GradPair& pair,
                           const WorkItemRows& c, int64_t j0, int64_t j1, const GradScratch& s,
                           WorkItemBuffers& b) {
  const RowRange& range = c.seg.range;
  const int64_t rows = c.rows(), first = c.i0, last = c.query(rows - 1);
  const KeySums<Variant> dk_sums = b.key_sums<Variant>(b.dk, plan.D);
  const KeySums<Variant> dv_sums = b.key_sums<Variant>(b.dv, plan.Dv);
  if (range.hi(last) <= j0 || range.lo(first) >= j1) return;
  load_grad_rows<Variant>(plan, c, pair.delta, b.tile);
  Into into_dq = Into::kReplace;
  const bool bias = plan.bias.changes_scores();
  for (int64_t j = j0; j < j1; j += kTileKeys) {
    const int64_t at = pair.first_packed + j / kKvBlockKeys, past = min64(j + kTileKeys, j1);
    const float* own = kOwnRows<Variant> ? b.keys + (j - j0) * padded_row(plan.D) : nullptr;
    const GradKeys keys = packed_keys<Variant>({plan, pair, at, kKvBlockKeys, j, past - j}, s, own);
    const int64_t lanes = round_up(past - j, kKvBlockKeys);
    const KeySums<Variant> dk = dk_sums.key(j - j0), dv = dv_sums.key(j - j0);
    if (range.lo(last) <= j && range.hi(first) >= j + lanes) {
      grad_step<Variant>(plan, c, keys, {0, rows, 0, lanes, !bias, dk, dv, into_dq}, b.tile);
      into_dq = Into::kAdd;
      continue;
    }
    if (into_dq == Into::kReplace) fill(b.tile.dq, rows * padded_row(plan.D), 0.0f);
    into_dq = Into::kAdd;
    constexpr int64_t cut = cut_rows(Variant::kForm), step = key_step<Variant>();
    for (int64_t r0 = 0, r1; r0 < rows; r0 = r1) {
      r1 = past_cut(range, c, r0, rows, cut, step);
      const int64_t n0 = max64(0, (range.lo(c.query(r0)) - j) / step * step);
      const int64_t n1 = min64(lanes, round_up(range.hi(c.query(r1 - 1)) - j, step));
      if (n0 < n1) grad_step<Variant>(plan, c, keys, {r0, r1, n0, n1, false, dk, dv}, b.tile);
    }
  }
  add_tile_dq(plan, pair, c, b.tile.dq);
}

// Specialised by the gradient on 16-row tiles in grad_tile16.h.

// A work item of whole rows: every tile against all keys that it sees.
template <class Variant>
inline void run_whole_work_item(const AttentionGradPlan& plan, const GradPair& pair,
                                int64_t q_chunk, const GradScratch& s, WorkItemBuffers& b);
// work_item_tile() on 16-row tiles, the sums of keys included.
template <class Variant>
inline void run_tile_by_tile16(const AttentionGradPlan& plan, const GradPair& pair,
                               const WorkItemRows& c, int64_t j0, int64_t j1, const GradScratch& s,
                               WorkItemBuffers& b);
// Packs KV block n of a pair for them. tmp: [kKvBlockKeys / 2, D padded].
template <class Variant>
inline void pack_tile16_kv_block(const AttentionGradPlan& plan, const GradPair& pair, int64_t n,
                                 const GradScratch& s, float* tmp);

// Whether a query of a chunk sees a key of a chunk, the share being its own.
inline bool chunks_meet(const AttentionGradPlan& plan, const GradPair& pair, int64_t q_chunk,
                        int64_t kv_chunk) {
  if (pair.whole()) return q_chunk % pair.slots == kv_chunk;
  if (!pair.sums_to(q_chunk, kv_chunk)) return false;
  const Segment& seg = plan.segments[pair.segment];
  const int64_t i0 = q_chunk * pair.q_chunk, i1 = min64(i0 + pair.q_chunk, seg.q_len);
  const int64_t j0 = pair.chunk_of_keys(kv_chunk) * pair.kv_chunk;
  const int64_t j1 = min64(j0 + pair.kv_chunk, seg.kv_len);
  return seg.range.hi(i1 - 1) > j0 && seg.range.lo(i0) < j1;
}

template <class Variant>
inline void run_work_item(const AttentionGradPlan& plan, const GradPair& pair, int64_t q_chunk,
                          int64_t kv_chunk, const GradScratch& s, WorkItemBuffers& b) {
  if constexpr (kRowsOnly<Variant>) {
    if (pair.whole()) return run_whole_work_item<Variant>(plan, pair, q_chunk, s, b);
  }
  const Segment& seg = plan.segments[pair.segment];
  const int64_t i0 = q_chunk * pair.q_chunk, i1 = min64(i0 + pair.q_chunk, seg.q_len);
  const int64_t j0 = pair.chunk_of_keys(kv_chunk) * pair.kv_chunk;
  const int64_t j1 = min64(j0 + pair.kv_chunk, seg.kv_len);
  if (!plan.uses_tile16()) {
    b.clear<Variant>(b.dk, plan.D, j1 - j0);
    b.clear<Variant>(b.dv, plan.Dv, j1 - j0);
  }
  if constexpr (kOwnRows<Variant>)
    pack_key_rows<Variant>({plan, pair, 0, round_up(j1 - j0, kKvBlockKeys), j0, j1 - j0}, b.keys);
  const int64_t heads = tile_heads(plan);
  const int64_t queries = min64(kTileRows / heads, i1 - i0);
  for (int64_t g = 0; g < plan.G; g += heads) {
    for (int64_t i = i0; i < i1; i += queries) {
      WorkItemRows rows{seg, pair.kv_head * plan.G + g, i, min64(queries, i1 - i),
                        min64(heads, plan.G - g)};
      prefetch_next_rows<Variant>(plan, pair, rows, i1, j1 - j0, b.tile.prefetch);
      if constexpr (kRowsOnly<Variant>) {
        if (plan.uses_tile16()) {
          run_tile_by_tile16<Variant>(plan, pair, rows, j0, j1, s, b);
          continue;
        }
      }
      work_item_tile<Variant>(plan, pair, rows, j0, j1, s, b);
    }
  }
  if (!plan.uses_tile16()) add_work_item_keys<Variant>(plan, pair, j0, j1 - j0, b);
}

template <class Variant>
void flash_backward_wave(const AttentionGradPlan& plan, const GradWave& wave,
                         const GradScratch& scratch, int64_t max_kv_chunk, int threads) {
  run_backward_wave<Variant>(
      plan, wave, scratch, max_kv_chunk, threads,
      [&](const Member& member, GradBuffers& b) {
        for (int64_t p = 0; p < wave.num_pairs; ++p) {
          const GradPair& pair = wave.pairs[p];
          const int64_t keys = plan.segments[pair.segment].kv_len;
          member.static_for(ceil_div(keys, kKvBlockKeys), [&](int64_t kv_block) {
            const int64_t j0 = kv_block * kKvBlockKeys, count = min64(kKvBlockKeys, keys - j0);
            const PairKeys of = {plan, pair, pair.first_packed + kv_block, kKvBlockKeys, j0, count};
            if constexpr (kRowsOnly<Variant>) {
              if (plan.uses_tile16())
                return pack_tile16_kv_block<Variant>(plan, pair, kv_block, scratch, b.dq);
            }
            scratch.finite[of.at] = pack_grad_keys<Variant>(of, scratch, b.tmp);
            if constexpr (kScoresSplit<Variant>) {
              if (plan.scores_as_bf16x3)
                pack_key_bf16x3<typename Variant::Scores>(of, scratch, b.q_bf16x3);
            }
          });
        }
      },
      [&](const GradPair& pair, int64_t q_chunk, int64_t kv_chunk) {
        return chunks_meet(plan, pair, q_chunk, kv_chunk);
      },
      [&](const GradPair& pair, int64_t q_chunk, int64_t kv_chunk, WorkItemBuffers& b) {
        run_work_item<Variant>(plan, pair, q_chunk, kv_chunk, scratch, b);
      });
}

void flash_backward_by_dtype(const AttentionGradPlan& plan, const GradWave& wave,
                             const GradScratch& scratch, int64_t max_kv_chunk, int threads) {
  if (plan.dtype == ElemType::kBFloat16)
    return flash_backward_wave<VariantOfBFloat16>(plan, wave, scratch, max_kv_chunk, threads);
  flash_backward_wave<GradVariantOfFloat>(plan, wave, scratch, max_kv_chunk, threads);
}

// dsink_h = - sum over rows of exp(sink - max) / sum * delta.
void flash_dsink(const AttentionGradPlan& plan, float* tmp, int64_t tmp_size, int threads) {
  const auto dsink_of = [&](int64_t head, float* dy) {
    double sum = 0;
    for (int64_t b = 0; b < plan.num_segments; ++b) {
      const Segment& seg = plan.segments[b];
      for (int64_t i = 0; i < seg.q_len; ++i) {
        const int64_t stat = seg.stat + i * plan.stat.row + head * plan.stat.head;
        const float max = load1(ElemType::kFloat32, plan.softmax_max, stat);
        const float inv =
            SoftmaxState::inverse_of(max, load1(ElemType::kFloat32, plan.softmax_sum, stat));
        const int64_t at = seg.o + i * plan.o.row + head * plan.o.head;
        const float dot = row_dot<FloatVariant>(plan, at, dy, dy + tmp_size);
        sum -= exp1(plan.sink[head] - max) * inv * row_delta(plan, dot, stat);
      }
    }
    plan.dsink[head] = static_cast<float>(sum);
  };
  parallel_region(threads, [&](const Member& member) {
    float* dy = tmp + member.number * 2 * tmp_size;
    member.dynamic_for(plan.N1, [&](int64_t head) { dsink_of(head, dy); });
  });
}

}  // namespace
}  // namespace nsa::cpu
