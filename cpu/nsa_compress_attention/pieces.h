// NsaCompressAttention of float32 and float16 by a way of split operands: both products in pieces,
// the softmax between them on floats.
#pragma once

#include "cpu/nsa_compress_attention/tile.h"

namespace nsa::cpu {
namespace {

template <class Path>
struct CompressPieces {
  CompressTileBuffers tile;
  float* left;  // [kLeftRows, ld] rows of a query, or of probabilities of kTileKeys keys
  int64_t ld;
  float* tmp;            // where a slab is packed
  float *keys, *values;  // of a slab as floats, where a tile does not go in pieces

  // Those of a tile's rows, and what multiply_pieces() reads past them.
  static constexpr int64_t kLeftRows = kTileRows + Path::kRowsPast;

  static CompressPieces carve(Arena& arena, const ImportancePlan& plan, int64_t D, int64_t Dv,
                              int64_t G) {
    constexpr WordForm form = Path::kForm;
    CompressPieces b{};
    b.tile = CompressTileBuffers::carve(arena, plan, D, Dv, G);
    b.ld = max64(form.words(D), form.words(kTileKeys)) + Path::kForm.align;
    b.left = b.tmp = arena.take<float>(kLeftRows * b.ld);
    b.keys = arena.take<float>(D * kSlabKeys);
    b.values = arena.take<float>(words_of_values<FloatPath>(Dv));
    return b;
  }
};

// Raw products of `rows` rows of a tile, from row r on, with keys [0, n). False: one of their
// numbers is too large, or none.
template <class Path>
inline bool scores_in_pieces(const AttentionPlan& plan, const TileContext& c,
                             const PackedPair& packed, int64_t r, int64_t rows, int64_t n,
                             int64_t lds, const CompressPieces<Path>& b) {
  V top = zero();
  for (int64_t k = 0; k < rows; ++k) {
    const int64_t at = c.seg.q + c.query(r + k) * plan.q.row + c.head(r + k) * plan.q.head;
    top = Path::split_row(plan.dtype, plan.query, at, plan.D, b.left + k * b.ld, top);
  }
  if (!Path::small(top)) return false;
  Path::scores(rows, n, plan.D, b.left, b.ld, packed.keys, b.tile.s + r * lds, lds);
  return true;
}

// Outputs of `rows` rows of a tile, from row r on, whose probabilities of keys [0, n) are there.
template <class Path>
inline void piece_values(const AttentionPlan& plan, const PackedPair& packed, int64_t r,
                         int64_t rows, int64_t n, int64_t lds, const CompressPieces<Path>& b) {
  constexpr WordForm form = Path::kForm;
  const int64_t ldo = padded_row(plan.Dv), lanes = round_up(plan.Dv, Path::kForm.align);
  const int64_t tile = form.words(kSlabKeys) * form.align;
  for (int64_t k0 = 0; k0 < n; k0 += kTileKeys) {
    const int64_t past = min64(k0 + kTileKeys, n);
    for (int64_t k = 0; k < rows; ++k)
      Path::split_row(ElemType::kFloat32, b.tile.s + (r + k) * lds, k0, past - k0,
                      b.left + k * b.ld, zero());
    for (int64_t k = k0; k < past; k += kSlabKeys)
      Path::multiply({rows, lanes, form.words(min64(kSlabKeys, past - k))},
                     {b.left + form.words(k - k0), b.ld, 1},
                     {packed.values + k / kSlabKeys * words_of_values<Path>(plan.Dv), tile},
                     {b.tile.o + r * ldo, ldo}, k > 0);
  }
}

// Keys that some row of a tile sees, in whole words.
template <class Path>
inline int64_t seen_keys(const TileContext& c) {
  return round_up(c.seg.range.hi(c.query(c.tile.rows() - 1)), key_step<Path>());
}

// compress_attention_tile() in pieces. False: it was left undone.
template <class Path>
inline bool compress_tile_in_pieces(const AttentionPlan& plan, const ImportancePlan& imp,
                                    const TileContext& c, const PackedPair& packed,
                                    const CompressPieces<Path>& b) {
  CompressTileBuffers tile = b.tile;
  const int64_t rows = c.tile.rows(), lds = compress_score_row(imp), n = seen_keys<Path>(c);
  if (!packed.numbers(0, n)) return false;
  for (int64_t r = 0; r < rows; r += kTileRows)
    if (!scores_in_pieces(plan, c, packed, r, min64(kTileRows, rows - r), n, lds, b)) return false;
  for (int64_t r = 0; r < rows; ++r) tile.state[r] = SoftmaxState::empty();
  // Sums of so small numbers are numbers, and so are those of their exponentials.
  softmax_and_blocks<FloatPath>(plan, imp, c, n, lds, [](int64_t) {}, tile);
  for (int64_t r = 0; r < rows; r += kTileRows)
    piece_values(plan, packed, r, min64(kTileRows, rows - r), n, lds, b);
  finish_compress_rows(plan, c, n, tile);
  return true;
}

// The tile on vectors: its keys and values are packed for it alone, slab by slab.
template <class Path>
[[gnu::noinline]] inline void compress_tile_apart(const AttentionPlan& plan,
                                                  const ImportancePlan& imp, const TileContext& c,
                                                  const CompressPieces<Path>& b) {
  CompressTileBuffers tile = b.tile;
  const int64_t rows = c.tile.rows(), ld = padded_row(plan.Dv), lds = compress_score_row(imp);
  const int64_t n = seen_keys<Path>(c), kv_head = c.first_head / plan.G;
  // slab(first key, how many, whether its values are numbers).
  const auto each_slab = [&](const auto& slab) {
    for (int64_t k = 0; k < n; k += kSlabKeys) {
      const bool finite =
          pack_slab<FloatPath>(plan, c.seg, kv_head, k / kSlabKeys, b.keys, b.values, tile.tmp);
      slab(k, min64(kSlabKeys, n - k), finite);
    }
  };
  const auto scores = [&](int64_t r, int64_t count) {
    each_slab([&](int64_t k, int64_t lanes, bool) {
      key_products<FloatPath>(Operand{tile.q + r * plan.D, plan.D, 1}, count,
                              {b.keys, plan.D, kSlabKeys}, 0, lanes, {tile.s + r * lds + k, lds});
    });
  };
  begin_rows<FloatPath>(plan, c, tile);
  scores(0, rows);
  softmax_and_blocks<FloatPath>(plan, imp, c, n, lds, [&](int64_t r) { scores(r, 1); }, tile);
  each_slab([&](int64_t k, int64_t lanes, bool finite) {
    multiply_values<FloatPath>(finite, {rows, round_up(plan.Dv, kLanePad), lanes},
                               {tile.s + k, lds, 1}, {b.values, ld}, {tile.o, ld},
                               {k == 0 ? Into::kReplace : Into::kAdd});
  });
  finish_compress_rows(plan, c, n, tile);
}

}  // namespace
}  // namespace nsa::cpu
