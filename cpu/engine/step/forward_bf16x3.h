// Tiles of FlashAttentionScore as bf16x3: of queries that see few keys, one query after the other,
// and of many keys in steps, whose softmax is on floats. Included by the translation unit for AMX
// only.
#pragma once

#include "cpu/engine/step/amx_forward.h"
#include "cpu/engine/step/bf16x3.h"
#include "cpu/engine/step/forward.h"

namespace nsa::cpu {
namespace {

// float32 as bf16x3: keys are four tiles [words(D), 16], values a tile [words(kKvBlockKeys), 16]
// for every 16 columns.
struct Bf16x3Gathered {
  static constexpr WordForm kForm = Bf16x3Variant::kForm;
  static constexpr int64_t kWords = kForm.words(kKvBlockKeys);
  static constexpr int64_t kRow = kWords;

  static constexpr float kScale = kBf16x3Scale;

  static V exponential(V score, V base) { return exp_from(score, base); }
  static int64_t value_row(int64_t) { return kWords * kAmxTile; }

  template <class Between>
  [[gnu::always_inline]] static void scores(int64_t depth, const float* q, int64_t ldq,
                                            const float* keys, const Between& between) {
    amx_bf16x3_wide(depth, q, ldq, keys, depth * kAmxTile, between);
  }
  template <class Between>
  [[gnu::always_inline]] static void values(const float* p, const float* v, int64_t ldv, int64_t d,
                                            const Between& between) {
    amx_bf16x3_wide(kWords, p, kRow, v + d / kAmxTile * ldv, ldv, between);
  }
  static void one_value(const float* p, const float* v, int64_t ldv, int64_t d, float* o,
                        int64_t ldo) {
    alignas(64) float sums[kAmxTile * kAmxTile];
    amx_bf16x3<1, 1>(kWords, p, kRow, v + d / kAmxTile * ldv, ldv);
    tile_store<0>(sums, kAmxTile);
    for (int64_t r = 0; r < kAmxTile; ++r) add_to(o + r * ldo + d, sums + r * kAmxTile, kAmxTile);
  }
  [[gnu::always_inline]] static void put(float* row, V a, V b, V c, V d) {
    const auto at = [](float* words) {
      return [=](int64_t term, V x) NSA_INLINE { store(words + term * kAmxTile, x); };
    };
    split_bf16x3(a, b, join_upper, at(row));
    split_bf16x3(c, d, join_upper, at(row + kBf16x3Step));
  }
};

struct Bf16x3Tile {
  TileBuffers tile;
  float* q;  // [rows, ldq] as bf16x3
  int64_t ldq;
  float* tmp;            // [16, ldq] where a KV block is packed
  float* p;              // [kTileRows, kLdp] probabilities of a step as bf16x3
  float *keys, *values;  // of kTileKeys as floats, where they do not go as bf16x3

  static constexpr int64_t kLdp = Bf16x3Variant::kForm.words(kTileKeys) + kAmxTile;

  static Bf16x3Tile carve(Arena& arena, int64_t D, int64_t Dv, int64_t rows) {
    Bf16x3Tile b;
    b.tile = TileBuffers::carve(arena, D, Dv, rows);
    b.ldq = Bf16x3Variant::kForm.words(D) + kAmxTile;
    b.q = b.tmp = arena.take<float>((rows + kRowsPast) * b.ldq);
    b.p = arena.take<float>((kTileRows + kRowsPast) * kLdp);
    b.keys = arena.take<float>(D * kTileKeys);
    b.values = arena.take<float>(kTileKeys / kKvBlockKeys * words_of_values<FloatVariant>(Dv));
    return b;
  }
};

// A tile on vectors: what it sees of its keys is packed for it alone, step by step.
[[gnu::noinline]] inline void forward_tile_apart(const TileContext& c, int64_t kv_head,
                                                 Bf16x3Tile& b) {
  using Variant = FloatVariant;
  const AttentionPlan& plan = c.plan;
  const RowRange& range = c.seg.range;
  const int64_t rows = c.tile.rows(), ld = padded_row(plan.Dv);
  const int64_t begin = range.lo(c.tile.i0) / kTileKeys * kTileKeys,
                past = range.hi(c.query(rows - 1));
  const int64_t key_size = plan.D * kKvBlockKeys, value_size = words_of_values<Variant>(plan.Dv);
  bool finite[kTileKeys / kKvBlockKeys], all = true;
  const auto all_keys = [&] {
    fill(b.tile.o, rows * ld, 0.0f);
    b.tile.prefetch.clear();
    for (int64_t k0 = begin; k0 < past; k0 += kTileKeys) {
      const int64_t first = k0 / kKvBlockKeys, end = min64(k0 + kTileKeys, past);
      for (int64_t n = first; n * kKvBlockKeys < end; ++n) {
        const int64_t at = n - first;
        finite[at] = pack_kv_block<Variant>(plan, c.seg, kv_head, n, b.keys + at * key_size,
                                            b.values + at * value_size, b.tile.tmp);
        all = all && finite[at];
      }
      const PackedPair packed = {b.keys - first * key_size, b.values - first * value_size,
                                 finite - first};
      for (int64_t r = 0; r < rows; r += kTileRows)
        forward_rows<Variant>(c, r, min64(r + kTileRows, rows), k0, packed, b.tile);
    }
  };
  each_query_row(c, [&](int64_t r, int64_t offset) {
    pack_row<Variant>(plan.dtype, plan.query, offset, plan.D, b.tile.q + r * plan.D);
    b.tile.state[r] = SoftmaxState::empty();
  });
  all_keys();
  if (!all) {
    // Restarts from the maximum like forward_tile().
    for (int64_t r = 0; r < rows; ++r) {
      SoftmaxState& state = b.tile.state[r];
      state = plan.sink ? state.restart_from_max(plan.sink[c.head(r)]) : state.restart_from_max();
    }
    all_keys();
  }
  finish_rows(c, b.tile);
}

// One step of rows [r0, r1) and keys [n0, n1), whole tiles of words, of which the rows see nothing
// else. unmasked: they see all of them.
inline void bf16x3_step(const TileContext& c, int64_t r0, int64_t r1, int64_t n0, int64_t n1,
                        bool unmasked, const PackedPair& packed, Bf16x3Tile& b) {
  constexpr WordForm form = Bf16x3Variant::kForm;
  const AttentionPlan& plan = c.plan;
  const int64_t ldo = padded_row(plan.Dv), rows = r1 - r0;
  const int64_t lanes_v = round_up(plan.Dv, kAmxTile);
  float *s = b.tile.s, *o = b.tile.o + r0 * ldo, *factor = b.tile.factor + r0;
  // Lanes [k % kKvBlockKeys, ...) of a KV block.
  const auto each_kv_block = [&](const auto& kv_block) {
    for (int64_t k = n0, past; k < n1; k = past) {
      past = min64(n1, (k / kKvBlockKeys + 1) * kKvBlockKeys);
      kv_block(k, past - k);
    }
  };
  bf16x3_scores(rows, n1 - n0, plan.D, b.q + r0 * b.ldq, b.ldq,
                packed.keys + n0 * form.words(plan.D), s, kScoreRow);
  for (int64_t r = 0; r < rows && !unmasked; ++r)
    hide_unseen(c.seg.range, c.query(r0 + r), n0, n1 - n0, n1 - n0, s + r * kScoreRow);
  softmax_rows<FloatVariant>(s, rows, n1 - n0, plan.scale, b.tile.state + r0, factor);
  for (int64_t r = 0; r < rows; ++r) {
    pack_bf16x3(ElemType::kFloat32, s + r * kScoreRow, 0, n1 - n0, b.p + r * b.kLdp, zero());
    if (factor[r] != 1.0f) scale_row(o + r * ldo, lanes_v, factor[r]);
  }
  each_kv_block([&](int64_t k, int64_t lanes) {
    const int64_t kv_block = k / kKvBlockKeys, lane = k % kKvBlockKeys;
    const float* values = packed.values + kv_block * words_of_values<Bf16x3Variant>(plan.Dv) +
                          form.words(lane) * kAmxTile;
    multiply_bf16x3({rows, lanes_v, form.words(lanes)}, {b.p + form.words(k - n0), b.kLdp, 1},
                    {values, form.words(kKvBlockKeys) * kAmxTile}, {o, ldo}, true);
  });
}

// Step [k0, k0 + kTileKeys) of rows [first, past), as forward_rows().
inline void bf16x3_rows(const TileContext& c, int64_t first, int64_t past, int64_t k0,
                        const PackedPair& packed, Bf16x3Tile& b) {
  const RowRange& range = c.seg.range;
  constexpr int64_t step = key_step<Bf16x3Variant>(), cut = cut_rows(Bf16x3Variant::kForm);
  const int64_t k1 = k0 + kTileKeys;
  if (range.lo(c.query(past - 1)) <= k0 && range.hi(c.query(first)) >= k1)
    return bf16x3_step(c, first, past, k0, k1, true, packed, b);
  for (int64_t r0 = first, r1; r0 < past; r0 = r1) {
    r1 = past_cut(range, c, r0, past, cut, step);
    const int64_t n0 = max64(k0, range.lo(c.query(r0)) / step * step);
    const int64_t n1 = min64(k1, round_up(range.hi(c.query(r1 - 1)), step));
    if (n0 < n1) bf16x3_step(c, r0, r1, n0, n1, false, packed, b);
  }
}

inline void forward_tile_as_bf16x3(const TileContext& c, const PackedPair& packed, Bf16x3Tile& b) {
  const AttentionPlan& plan = c.plan;
  const int64_t rows = c.tile.rows();
  const int64_t begin = c.seg.range.lo(c.tile.i0), past = c.seg.range.hi(c.query(rows - 1));
  V top = zero();
  each_query_row(c, [&](int64_t r, int64_t offset) {
    top = pack_bf16x3(plan.dtype, plan.query, offset, plan.D, b.q + r * b.ldq, top);
  });
  if (!all_below(top, kLargestPacked) || !packed.all_finite(begin, past))
    return forward_tile_apart(c, c.first_head / plan.G, b);
  fill(b.tile.o, rows * padded_row(plan.Dv), 0.0f);
  if (c.tile.heads % kAmxTile == 0 && past - begin <= kSweepKeys) {
    forward_few_keys<Bf16x3Gathered>(c, packed, b.q, b.ldq, b.tile);
  } else {
    for (int64_t r = 0; r < rows; ++r) b.tile.state[r] = SoftmaxState::empty();
    for (int64_t k0 = begin / kTileKeys * kTileKeys; k0 < past; k0 += kTileKeys)
      for (int64_t r = 0; r < rows; r += kTileRows)
        bf16x3_rows(c, r, min64(r + kTileRows, rows), k0, packed, b);
  }
  finish_rows(c, b.tile);
}

template <>
struct ForwardTile<Bf16x3Variant> {
  using Buffers = Bf16x3Tile;
  static void run(const TileContext& c, const PackedPair& packed, Buffers& b) {
    forward_tile_as_bf16x3(c, packed, b);
  }
};

}  // namespace
}  // namespace nsa::cpu
