// NsaCompressAttention: the scores of a tile of queries, all heads of a group, stay in cache; from
// them come the exact softmax, the output, and the importance of selection blocks.
#pragma once

#include <type_traits>

#include "cpu/engine/plan/topk.h"
#include "cpu/engine/step/forward.h"
#include "cpu/engine/step/online_softmax.h"
#include "cpu/nsa_compress_attention/compress_attention_plan.h"

namespace nsa::cpu {
namespace {

// Floats from a row of scores to the next.
inline int64_t compress_score_row(const ImportancePlan& plan) {
  return padded_row(round_up(plan.max_kv_len, kKvBlockKeys));
}

// Rows of a batch of CompressSteps: whole queries, and two tiles of rows where a query has one.
inline int64_t compress_batch_rows(int64_t G) { return max64(2 * kAmxTile / G, 1) * G; }

// Rows that there are buffers for: those of a tile, or of two batches.
inline int64_t compress_rows(const ImportancePlan& plan, int64_t G) {
  return kHasTiles ? max64(plan.max_rows, 2 * compress_batch_rows(G)) : plan.max_rows;
}

struct CompressTileBuffers {
  float* q;             // [rows, words(D)]
  float* s;             // [rows, kv_len padded]
  float* o;             // [rows, Dv padded]
  SoftmaxState* state;  // [rows]
  float* inverse;       // [rows] the first ones: of one query's sums
  float* prob;          // [kv_len padded] of one query, summed over the group
  float* score;         // [score_room(blocks)]
  Candidates best;
  float* tmp;
  PrefetchQueue prefetch;
  // Used by CompressSteps.
  float* base;  // [rows] what exponents are taken against
  float* sum;   // [rows, W] of the exponentials, lane by lane

  static CompressTileBuffers carve(Arena& arena, const ImportancePlan& plan, int64_t D, int64_t Dv,
                                   int64_t G) {
    CompressTileBuffers b{};
    const int64_t keys = compress_score_row(plan), rows = compress_rows(plan, G);
    b.q = arena.take<float>(rows * round_up(D, kLanePad));
    b.s = arena.take<float>(rows * keys);
    b.o = arena.take<float>(rows * padded_row(Dv));
    b.state = arena.take<SoftmaxState>(rows);
    b.inverse = arena.take<float>(rows);
    b.prob = arena.take<float>(keys);
    b.score = arena.take<float>(score_room(plan.max_blocks));
    b.best = Candidates::carve(arena, plan.count, plan.max_blocks);
    b.tmp = arena.take<float>(max64(keys, max64(D, Dv)) + kLanePad);
    b.prefetch = PrefetchQueue::carve(arena, 4 * rows);
    if constexpr (kHasTiles) {
      b.base = arena.take<float>(rows);
      b.sum = arena.take<float>(rows * W);
    }
    return b;
  }
};

// Raw products of row r with keys [0, n) become scores; gives their maximum, without regard to NaN.
// Plain keys need no mask.
inline float score_row(const AttentionPlan& plan, const TileContext& c, int64_t r, int64_t n,
                       float* row, float* tmp) {
  const int64_t i = c.query(r);
  const int64_t unmasked = plan.bias.mask ? 0 : c.seg.range.hi(i) / kLanePad * kLanePad;
  float top = scaled_max(row, min64(unmasked, n), plan.scale);
  if (unmasked < n) {
    bias_row(plan.bias, {c.seg, c.head(r), i, unmasked, n - unmasked}, plan.scale, row + unmasked,
             tmp);
    const float rest = scaled_max(row + unmasked, n - unmasked, 1.0f);
    top = rest > top ? rest : top;
  }
  return top;
}

// add_probabilities() of `rows` rows, each then packed for the product with the values. Across the
// rows, whose sum stays in a register, the probabilities are read once for both.
template <class Variant>
inline void sum_and_pack(float* s, int64_t lds, int64_t rows, int64_t n, const SoftmaxState* state,
                         float* inverse, float* prob) {
  bool finite = true;
  for (int64_t r = 0; r < rows; ++r) {
    inverse[r] = state[r].inverse_sum();
    finite = finite && inverse[r] == inverse[r];
  }
  if (!finite) {
    fill(prob, n, 0.0f);
    for (int64_t r = 0; r < rows; ++r) {
      add_probabilities(s + r * lds, n, inverse[r], prob);
      pack_probabilities<Variant>(s + r * lds, n);
    }
    return;
  }
  const auto columns = [&](int64_t j, auto vectors) {
    constexpr int kVectors = decltype(vectors)::value;
    V sum[kVectors];
    for (int v = 0; v < kVectors; ++v) sum[v] = zero();
    for (int64_t r = 0; r < rows; ++r) {
      float* row = s + r * lds;
      const V by = set1(inverse[r]);
      for (int v = 0; v < kVectors; ++v) {
        const V e = load(row + j + v * W);
        sum[v] = fma(e, by, sum[v]);
        if (Variant::kForm.per_word > 1) Variant::put(row, j + v * W, e);
      }
    }
    for (int v = 0; v < kVectors; ++v) store(prob + j + v * W, sum[v]);
  };
  int64_t j = 0;
  for (; j + 8 * W <= n; j += 8 * W) columns(j, std::integral_constant<int, 8>{});
  for (; j < n; j += W) columns(j, std::integral_constant<int, 1>{});
}

inline void choose_for_query(const AttentionPlan& plan, const ImportancePlan& imp,
                             const TileContext& c, int64_t i, int64_t n, int64_t kv_head,
                             CompressTileBuffers& b) {
  const int64_t position = imp.position(c.seg.index, i), own = position / imp.select_block_size;
  const int64_t blocks = imp.blocks(c.seg),
                candidates = imp.causal ? min64(own + 1, blocks) : blocks;
  importance_scores(imp.rule, b.prob, n, candidates, b.score);
  TopkRule rule{};
  rule.forced = imp.topk_mask ? imp.topk_mask + i * imp.topk_mask_cols : nullptr;
  rule.init = imp.init_blocks;
  rule.own = own;
  rule.local = imp.local_blocks;
  int32_t* out =
      imp.topk_indices + ((imp.first_row[c.seg.index] + i) * plan.N2 + kv_head) * imp.count;
  choose_blocks(rule, b.score, candidates, imp.count, out, b.best);
}

// Raw products of rows [r, r + count) of a tile with keys [0, n).
template <class Variant>
inline void product_rows(const AttentionPlan& plan, const PackedPair& packed, int64_t r,
                         int64_t count, int64_t n, int64_t lds, CompressTileBuffers& b) {
  const int64_t depth = words<Variant>(plan.D);
  key_products<Variant>(Operand{b.q + r * depth, depth, 1}, count,
                        {packed.keys, depth, kKvBlockKeys}, 0, n, {b.s + r * lds, lds});
}

// Packs a tile's rows of the query, and begins their states.
template <class Variant>
inline void begin_rows(const AttentionPlan& plan, const TileContext& c, CompressTileBuffers& b) {
  const int64_t rows = c.tile.rows(), depth = words<Variant>(plan.D);
  for (int64_t r = 0; r < rows; ++r) {
    pack_row<Variant>(plan.dtype, plan.query,
                      c.seg.q + c.query(r) * plan.q.row + c.head(r) * plan.q.head, plan.D,
                      b.q + r * depth);
    b.state[r] = SoftmaxState::empty();
  }
}

// Prefetches a tile's outputs, which are written after `steps` steps of its products: a store that
// finds its line far away holds up those behind it. Heads of a query are next to each other.
inline void prefetch_outputs(const AttentionPlan& plan, const TileContext& c, int64_t steps,
                             PrefetchQueue& prefetch) {
  prefetch.clear();
  for (int64_t i = c.tile.i0; i < c.tile.i0 + c.tile.queries; ++i) {
    const int64_t stat = c.seg.stat + i * plan.stat.row + c.first_head * plan.stat.head;
    const int64_t out = c.seg.o + i * plan.o.row + c.first_head * plan.o.head;
    prefetch.add(plan.dtype, plan.out, out, plan.G * plan.o.head);
    prefetch.add(ElemType::kFloat32, plan.softmax_max, stat, plan.G * plan.stat.head);
    prefetch.add(ElemType::kFloat32, plan.softmax_sum, stat, plan.G * plan.stat.head);
  }
  prefetch.over(steps);
}

// Raw products of all rows of a tile, begun here.
template <class Variant>
inline void raw_scores(const AttentionPlan& plan, const TileContext& c, const PackedPair& packed,
                       int64_t n, int64_t lds, CompressTileBuffers& b) {
  begin_rows<Variant>(plan, c, b);
  product_rows<Variant>(plan, packed, 0, c.tile.rows(), n, lds, b);
}

// Writes a tile's outputs, which a product has where there are keys.
inline void finish_compress_rows(const AttentionPlan& plan, const TileContext& c, int64_t n,
                                 const CompressTileBuffers& b) {
  const int64_t rows = c.tile.rows(), ld = padded_row(plan.Dv);
  if (n == 0) fill(b.o, rows * ld, 0.0f);
  for (int64_t r = 0; r < rows; ++r)
    finish_row(plan, c.seg, c.query(r), c.head(r), b.o + r * ld, b.state[r]);
}

// A row of them whose products alone count, with -inf for the keys that it does not see.
inline void hide_keys(const TileContext& c, int64_t r, int64_t n, float* row) {
  const int64_t seen = min64(c.seg.range.hi(c.query(r)), n);
  fill(row + seen, n - seen, -kInfinity);
}

// They become exp(score - max), whatever the row holds. recompute(r): its raw products, once more.
template <class Recompute>
inline void softmax_row(const AttentionPlan& plan, const TileContext& c, int64_t r, int64_t n,
                        int64_t lds, const Recompute& recompute, CompressTileBuffers& b) {
  float* row = b.s + r * lds;
  SoftmaxState& state = b.state[r];
  state.raise(score_row(plan, c, r, n, row, b.tmp));
  state.sum = exp_row(row, n, state.base());
  if (state.sum == state.sum || state.max == kInfinity) return;
  // Besides a NaN a score far below the maximum has become 0, as a masked one: only its score, once
  // more, tells that the row makes it NaN.
  recompute(r);
  score_row(plan, c, r, n, row, b.tmp);
  nan_row(row, n, 1.0f);
}

// softmax_row() of rows [first, past), a vector of rows at once where only their products count.
template <class Recompute>
inline void softmax_of_rows(const AttentionPlan& plan, const TileContext& c, int64_t first,
                            int64_t past, int64_t n, int64_t lds, const Recompute& recompute,
                            CompressTileBuffers& b) {
  const bool no_bias = !plan.bias.changes_scores() && plan.scale > 0.0f;
  for (int64_t r = first; r < past;) {
    float* row = b.s + r * lds;
    const bool together = no_bias && past - r >= W;
    const int64_t count = together ? W : 1;
    for (int64_t k = r; no_bias && k < r + count; ++k) hide_keys(c, k, n, b.s + k * lds);
    bool done = false;
    if (together) {
      float factor[W];
      done = softmax_step_rows<FloatVariant>(row, lds, n, plan.scale, b.state + r, factor);
    } else if (no_bias) {
      const float top = raw_max(row, n) * plan.scale;
      done = in_exp_range(top);
      if (done) {
        online_softmax_visible(row, n, plan.scale, top, 1.0f, b.state[r],
                               [&](int64_t j, V x) { store(row + j, x); });
      }
    }
    for (int64_t k = r; k < r + count; ++k) {
      if (done) {
        if (b.state[k].sum == b.state[k].sum) continue;
        recompute(k);
        b.state[k] = SoftmaxState::empty();
      }
      softmax_row(plan, c, k, n, lds, recompute, b);
    }
    r += count;
  }
}

// Probabilities of a tile's rows from their raw products with keys [0, n), without the sums, in the
// form in which the product with the values reads them, and the blocks of its queries.
template <class Variant, class Recompute>
inline void softmax_and_blocks(const AttentionPlan& plan, const ImportancePlan& imp,
                               const TileContext& c, int64_t n, int64_t lds,
                               const Recompute& recompute, CompressTileBuffers& b) {
  const int64_t rows = c.tile.rows();
  // Queries of few heads several at a time, so that their rows fill a vector's lanes.
  const int64_t at_once = plan.G * ceil_div(W, plan.G);
  for (int64_t first = 0; first < rows; first += at_once) {
    const int64_t past = min64(first + at_once, rows);
    softmax_of_rows(plan, c, first, past, n, lds, recompute, b);
    for (int64_t r = first; r < past; r += plan.G) {
      sum_and_pack<Variant>(b.s + r * lds, lds, plan.G, n, b.state + r, b.inverse, b.prob);
      choose_for_query(plan, imp, c, c.query(r), n, c.first_head / plan.G, b);
    }
  }
}

template <class Variant>
inline void compress_attention_tile(const AttentionPlan& plan, const ImportancePlan& imp,
                                    const TileContext& c, const PackedPair& packed,
                                    CompressTileBuffers& b) {
  const int64_t rows = c.tile.rows(), ld = padded_row(plan.Dv);
  // Keys past the last one that any row sees do not count; whole words of the contraction.
  const int64_t n = round_up(c.seg.range.hi(c.query(rows - 1)), key_step<Variant>());
  const int64_t lds = compress_score_row(imp);
  raw_scores<Variant>(plan, c, packed, n, lds, b);
  softmax_and_blocks<Variant>(
      plan, imp, c, n, lds,
      [&](int64_t r) { product_rows<Variant>(plan, packed, r, 1, n, lds, b); }, b);
  using Step = typename Variant::Step;
  const int64_t steps = matmul_steps<Step>(rows, round_up(plan.Dv, kLanePad));
  prefetch_outputs(plan, c, ceil_div(n, kTileKeys) * steps, b.prefetch);
  // In steps of a tile, so that the values in use stay in the first-level cache.
  for (int64_t k0 = 0; k0 < n; k0 += kTileKeys) {
    const int64_t at = k0 / Variant::kForm.per_word;
    const int64_t end = min64(k0 + kTileKeys, n);
    const Sizes of = {rows, round_up(plan.Dv, kLanePad), words<Variant>(end - k0)};
    multiply_values<Variant>(packed.all_finite(k0, end), of, {b.s + at, lds, 1},
                             {packed.values + at * ld, ld}, {b.o, ld},
                             {k0 == 0 ? Into::kReplace : Into::kAdd, nullptr, &b.prefetch});
  }
  finish_compress_rows(plan, c, n, b);
}

}  // namespace
}  // namespace nsa::cpu
