// Tiles of FlashAttentionScore in pieces: of queries that see few keys, one query after the other,
// and of many keys in steps, whose softmax is on floats. Included by the translation unit for AMX
// only.
#pragma once

#include "cpu/engine/step/amx_forward.h"
#include "cpu/engine/step/forward.h"
#include "cpu/engine/step/pieces.h"

namespace nsa::cpu {
namespace {

// float32 in pieces: keys are four tiles [words(D), 16], values a tile [words(kSlabKeys), 16] for
// every 16 columns.
struct PiecesGathered {
  static constexpr WordForm kForm = PiecesPath::kForm;
  static constexpr int64_t kWords = kForm.words(kSlabKeys);
  static constexpr int64_t kRow = kWords;

  static constexpr float kScale = kPieceScale;

  static V exponential(V score, V base) { return exp_from(score, base); }
  static int64_t value_row(int64_t) { return kWords * kAmxTile; }

  template <class Between>
  [[gnu::always_inline]] static void scores(int64_t depth, const float* q, int64_t ldq,
                                            const float* keys, const Between& between) {
    amx_pieces_wide(depth, q, ldq, keys, depth * kAmxTile, between);
  }
  template <class Between>
  [[gnu::always_inline]] static void values(const float* p, const float* v, int64_t ldv, int64_t d,
                                            const Between& between) {
    amx_pieces_wide(kWords, p, kRow, v + d / kAmxTile * ldv, ldv, between);
  }
  static void one_value(const float* p, const float* v, int64_t ldv, int64_t d, float* o,
                        int64_t ldo) {
    alignas(64) float sums[kAmxTile * kAmxTile];
    amx_pieces<1, 1>(kWords, p, kRow, v + d / kAmxTile * ldv, ldv);
    tile_store<0>(sums, kAmxTile);
    for (int64_t r = 0; r < kAmxTile; ++r) add_to(o + r * ldo + d, sums + r * kAmxTile, kAmxTile);
  }
  [[gnu::always_inline]] static void put(float* row, V a, V b, V c, V d) {
    const auto at = [](float* words) {
      return [=](int64_t piece, V x) NSA_INLINE { store(words + piece * kAmxTile, x); };
    };
    split_pieces(a, b, join_upper, at(row));
    split_pieces(c, d, join_upper, at(row + kPieceStep));
  }
};

struct PiecesTile {
  TileBuffers tile;
  float* q;  // [rows, ldq] in pieces
  int64_t ldq;
  float* tmp;            // [16, ldq] where a slab is packed
  float* p;              // [kTileRows, kLdp] probabilities of a step in pieces
  float *keys, *values;  // of kTileKeys as floats, where they do not go in pieces

  static constexpr int64_t kLdp = PiecesPath::kForm.words(kTileKeys) + kAmxTile;

  static PiecesTile carve(Arena& arena, int64_t D, int64_t Dv, int64_t rows) {
    PiecesTile b;
    b.tile = TileBuffers::carve(arena, D, Dv, rows);
    b.ldq = PiecesPath::kForm.words(D) + kAmxTile;
    b.q = b.tmp = arena.take<float>((rows + kRowsPast) * b.ldq);
    b.p = arena.take<float>((kTileRows + kRowsPast) * kLdp);
    b.keys = arena.take<float>(D * kTileKeys);
    b.values = arena.take<float>(kTileKeys / kSlabKeys * words_of_values<FloatPath>(Dv));
    return b;
  }
};

// A tile on vectors: what it sees of its keys is packed for it alone, step by step.
[[gnu::noinline]] inline void forward_tile_apart(const TileContext& c, int64_t kv_head,
                                                 PiecesTile& b) {
  using Path = FloatPath;
  const AttentionPlan& plan = c.plan;
  const RowRange& range = c.seg.range;
  const int64_t rows = c.tile.rows(), ld = padded_row(plan.Dv);
  const int64_t begin = range.lo(c.tile.i0) / kTileKeys * kTileKeys,
                past = range.hi(c.query(rows - 1));
  const int64_t key_size = plan.D * kSlabKeys, value_size = words_of_values<Path>(plan.Dv);
  bool finite[kTileKeys / kSlabKeys], numbers = true;
  const auto all_keys = [&] {
    fill(b.tile.o, rows * ld, 0.0f);
    b.tile.ahead.clear();
    for (int64_t k0 = begin; k0 < past; k0 += kTileKeys) {
      const int64_t first = k0 / kSlabKeys, end = min64(k0 + kTileKeys, past);
      for (int64_t n = first; n * kSlabKeys < end; ++n) {
        const int64_t at = n - first;
        finite[at] = pack_slab<Path>(plan, c.seg, kv_head, n, b.keys + at * key_size,
                                     b.values + at * value_size, b.tile.tmp);
        numbers = numbers && finite[at];
      }
      const PackedPair packed = {b.keys - first * key_size, b.values - first * value_size,
                                 finite - first};
      for (int64_t r = 0; r < rows; r += kTileRows)
        forward_rows<Path>(c, r, min64(r + kTileRows, rows), k0, packed, b.tile);
    }
  };
  each_query_row(c, [&](int64_t r, int64_t offset) {
    pack_row<Path>(plan.dtype, plan.query, offset, plan.D, b.tile.q + r * plan.D);
    b.tile.state[r] = SoftmaxState::empty();
  });
  all_keys();
  if (!numbers) {
    // As in forward_tile().
    for (int64_t r = 0; r < rows; ++r) {
      SoftmaxState& state = b.tile.state[r];
      state = plan.sink ? state.again(plan.sink[c.head(r)]) : state.again();
    }
    all_keys();
  }
  finish_rows(c, b.tile);
}

// One step of rows [r0, r1) and keys [n0, n1), whole tiles of words, of which the rows see nothing
// else. plain: they see all of them.
inline void pieces_step(const TileContext& c, int64_t r0, int64_t r1, int64_t n0, int64_t n1,
                        bool plain, const PackedPair& packed, PiecesTile& b) {
  constexpr WordForm form = PiecesPath::kForm;
  const AttentionPlan& plan = c.plan;
  const int64_t ldo = padded_row(plan.Dv), rows = r1 - r0;
  const int64_t lanes_v = round_up(plan.Dv, kAmxTile);
  float *s = b.tile.s, *o = b.tile.o + r0 * ldo, *factor = b.tile.factor + r0;
  // Lanes [k % kSlabKeys, ...) of a slab.
  const auto each_slab = [&](const auto& slab) {
    for (int64_t k = n0, past; k < n1; k = past) {
      past = min64(n1, (k / kSlabKeys + 1) * kSlabKeys);
      slab(k, past - k);
    }
  };
  piece_scores(rows, n1 - n0, plan.D, b.q + r0 * b.ldq, b.ldq,
               packed.keys + n0 * form.words(plan.D), s, kScoreRow);
  for (int64_t r = 0; r < rows && !plain; ++r)
    hide_unseen(c.seg.range, c.query(r0 + r), n0, n1 - n0, n1 - n0, s + r * kScoreRow);
  softmax_rows<FloatPath>(s, rows, n1 - n0, plan.scale, b.tile.state + r0, factor);
  for (int64_t r = 0; r < rows; ++r) {
    pack_pieces(ElemType::kFloat32, s + r * kScoreRow, 0, n1 - n0, b.p + r * b.kLdp, zero());
    if (factor[r] != 1.0f) scale_row(o + r * ldo, lanes_v, factor[r]);
  }
  each_slab([&](int64_t k, int64_t lanes) {
    const int64_t slab = k / kSlabKeys, lane = k % kSlabKeys;
    const float* values =
        packed.values + slab * words_of_values<PiecesPath>(plan.Dv) + form.words(lane) * kAmxTile;
    multiply_pieces({rows, lanes_v, form.words(lanes)}, {b.p + form.words(k - n0), b.kLdp, 1},
                    {values, form.words(kSlabKeys) * kAmxTile}, {o, ldo}, true);
  });
}

// Step [k0, k0 + kTileKeys) of rows [first, past), as forward_rows().
inline void pieces_rows(const TileContext& c, int64_t first, int64_t past, int64_t k0,
                        const PackedPair& packed, PiecesTile& b) {
  const RowRange& range = c.seg.range;
  constexpr int64_t step = key_step<PiecesPath>(), cut = cut_rows(PiecesPath::kForm);
  const int64_t k1 = k0 + kTileKeys;
  if (range.lo(c.query(past - 1)) <= k0 && range.hi(c.query(first)) >= k1)
    return pieces_step(c, first, past, k0, k1, true, packed, b);
  for (int64_t r0 = first, r1; r0 < past; r0 = r1) {
    r1 = past_cut(range, c, r0, past, cut, step);
    const int64_t n0 = max64(k0, range.lo(c.query(r0)) / step * step);
    const int64_t n1 = min64(k1, round_up(range.hi(c.query(r1 - 1)), step));
    if (n0 < n1) pieces_step(c, r0, r1, n0, n1, false, packed, b);
  }
}

inline void forward_tile_in_pieces(const TileContext& c, const PackedPair& packed, PiecesTile& b) {
  const AttentionPlan& plan = c.plan;
  const int64_t rows = c.tile.rows();
  const int64_t begin = c.seg.range.lo(c.tile.i0), past = c.seg.range.hi(c.query(rows - 1));
  V top = zero();
  each_query_row(c, [&](int64_t r, int64_t offset) {
    top = pack_pieces(plan.dtype, plan.query, offset, plan.D, b.q + r * b.ldq, top);
  });
  if (!all_below(top, kLargestPacked) || !packed.numbers(begin, past))
    return forward_tile_apart(c, c.first_head / plan.G, b);
  fill(b.tile.o, rows * padded_row(plan.Dv), 0.0f);
  if (c.tile.heads % kAmxTile == 0 && past - begin <= kSweepKeys) {
    forward_few_keys<PiecesGathered>(c, packed, b.q, b.ldq, b.tile);
  } else {
    for (int64_t r = 0; r < rows; ++r) b.tile.state[r] = SoftmaxState::empty();
    for (int64_t k0 = begin / kTileKeys * kTileKeys; k0 < past; k0 += kTileKeys)
      for (int64_t r = 0; r < rows; r += kTileRows)
        pieces_rows(c, r, min64(r + kTileRows, rows), k0, packed, b);
  }
  finish_rows(c, b.tile);
}

template <>
struct ForwardTile<PiecesPath> {
  using Buffers = PiecesTile;
  static void run(const TileContext& c, const PackedPair& packed, Buffers& b) {
    forward_tile_in_pieces(c, packed, b);
  }
};

}  // namespace
}  // namespace nsa::cpu
