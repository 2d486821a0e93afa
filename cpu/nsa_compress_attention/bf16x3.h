// NsaCompressAttention of float32 and float16 by a variant of split operands: both products as
// bf16x3, the softmax between them on floats.
#pragma once

#include "cpu/nsa_compress_attention/tile.h"

namespace nsa::cpu {
namespace {

template <class Variant>
struct CompressBf16x3 {
  CompressTileBuffers tile;
  float* left;  // [kLeftRows, ld] rows of a query, or of probabilities of kTileKeys keys
  int64_t ld;
  float* tmp;            // where a KV block is packed
  float *keys, *values;  // of a KV block as floats, where a tile does not go as bf16x3

  // Rows of a tile, and the rows that multiply_bf16x3() reads past them.
  static constexpr int64_t kLeftRows = kTileRows + Variant::kRowsPast;

  static CompressBf16x3 carve(Arena& arena, const ImportancePlan& plan, int64_t D, int64_t Dv,
                              int64_t G) {
    constexpr WordForm form = Variant::kForm;
    CompressBf16x3 b{};
    b.tile = CompressTileBuffers::carve(arena, plan, D, Dv, G);
    b.ld = max64(form.words(D), form.words(kTileKeys)) + Variant::kForm.align;
    b.left = b.tmp = arena.take<float>(kLeftRows * b.ld);
    b.keys = arena.take<float>(D * kKvBlockKeys);
    b.values = arena.take<float>(words_of_values<FloatVariant>(Dv));
    return b;
  }
};

// Raw products of `rows` rows of a tile, from row r on, with keys [0, n). False: one of their
// numbers is too large, or none.
template <class Variant>
inline bool scores_as_bf16x3(const AttentionPlan& plan, const TileContext& c,
                             const PackedPair& packed, int64_t r, int64_t rows, int64_t n,
                             int64_t lds, const CompressBf16x3<Variant>& b) {
  V top = zero();
  for (int64_t k = 0; k < rows; ++k) {
    const int64_t at = c.seg.q + c.query(r + k) * plan.q.row + c.head(r + k) * plan.q.head;
    top = Variant::split_row(plan.dtype, plan.query, at, plan.D, b.left + k * b.ld, top);
  }
  if (!Variant::small(top)) return false;
  Variant::scores(rows, n, plan.D, b.left, b.ld, packed.keys, b.tile.s + r * lds, lds);
  return true;
}

// Outputs of `rows` rows of a tile, from row r on, whose probabilities of keys [0, n) are there.
template <class Variant>
inline void bf16x3_values(const AttentionPlan& plan, const PackedPair& packed, int64_t r,
                          int64_t rows, int64_t n, int64_t lds, const CompressBf16x3<Variant>& b) {
  constexpr WordForm form = Variant::kForm;
  const int64_t ldo = padded_row(plan.Dv), lanes = round_up(plan.Dv, Variant::kForm.align);
  const int64_t tile = form.words(kKvBlockKeys) * form.align;
  for (int64_t k0 = 0; k0 < n; k0 += kTileKeys) {
    const int64_t past = min64(k0 + kTileKeys, n);
    for (int64_t k = 0; k < rows; ++k)
      Variant::split_row(ElemType::kFloat32, b.tile.s + (r + k) * lds, k0, past - k0,
                         b.left + k * b.ld, zero());
    for (int64_t k = k0; k < past; k += kKvBlockKeys)
      Variant::multiply(
          {rows, lanes, form.words(min64(kKvBlockKeys, past - k))},
          {b.left + form.words(k - k0), b.ld, 1},
          {packed.values + k / kKvBlockKeys * words_of_values<Variant>(plan.Dv), tile},
          {b.tile.o + r * ldo, ldo}, k > 0);
  }
}

// Keys that some row of a tile sees, in whole words.
template <class Variant>
inline int64_t seen_keys(const TileContext& c) {
  return round_up(c.seg.range.hi(c.query(c.tile.rows() - 1)), key_step<Variant>());
}

// compress_attention_tile() as bf16x3. False: it was left undone.
template <class Variant>
inline bool compress_tile_as_bf16x3(const AttentionPlan& plan, const ImportancePlan& imp,
                                    const TileContext& c, const PackedPair& packed,
                                    const CompressBf16x3<Variant>& b) {
  CompressTileBuffers tile = b.tile;
  const int64_t rows = c.tile.rows(), lds = compress_score_row(imp), n = seen_keys<Variant>(c);
  if (!packed.all_finite(0, n)) return false;
  for (int64_t r = 0; r < rows; r += kTileRows)
    if (!scores_as_bf16x3(plan, c, packed, r, min64(kTileRows, rows - r), n, lds, b)) return false;
  for (int64_t r = 0; r < rows; ++r) tile.state[r] = SoftmaxState::empty();
  // Sums of so small values are finite, and so are those of their exponentials.
  softmax_and_blocks<FloatVariant>(plan, imp, c, n, lds, [](int64_t) {}, tile);
  for (int64_t r = 0; r < rows; r += kTileRows)
    bf16x3_values(plan, packed, r, min64(kTileRows, rows - r), n, lds, b);
  finish_compress_rows(plan, c, n, tile);
  return true;
}

// The tile on vectors: its keys and values are packed for it alone, block by block.
template <class Variant>
[[gnu::noinline]] inline void compress_tile_apart(const AttentionPlan& plan,
                                                  const ImportancePlan& imp, const TileContext& c,
                                                  const CompressBf16x3<Variant>& b) {
  CompressTileBuffers tile = b.tile;
  const int64_t rows = c.tile.rows(), ld = padded_row(plan.Dv), lds = compress_score_row(imp);
  const int64_t n = seen_keys<Variant>(c), kv_head = c.first_head / plan.G;
  // kv_block(first key, how many, whether its values are finite).
  const auto each_kv_block = [&](const auto& kv_block) {
    for (int64_t k = 0; k < n; k += kKvBlockKeys) {
      const bool finite = pack_kv_block<FloatVariant>(plan, c.seg, kv_head, k / kKvBlockKeys,
                                                      b.keys, b.values, tile.tmp);
      kv_block(k, min64(kKvBlockKeys, n - k), finite);
    }
  };
  const auto scores = [&](int64_t r, int64_t count) {
    each_kv_block([&](int64_t k, int64_t lanes, bool) {
      key_products<FloatVariant>(Operand{tile.q + r * plan.D, plan.D, 1}, count,
                                 {b.keys, plan.D, kKvBlockKeys}, 0, lanes,
                                 {tile.s + r * lds + k, lds});
    });
  };
  begin_rows<FloatVariant>(plan, c, tile);
  scores(0, rows);
  softmax_and_blocks<FloatVariant>(plan, imp, c, n, lds, [&](int64_t r) { scores(r, 1); }, tile);
  each_kv_block([&](int64_t k, int64_t lanes, bool finite) {
    multiply_values<FloatVariant>(finite, {rows, round_up(plan.Dv, kLanePad), lanes},
                                  {tile.s + k, lds, 1}, {b.values, ld}, {tile.o, ld},
                                  {k == 0 ? Into::kReplace : Into::kAdd});
  });
  finish_compress_rows(plan, c, n, tile);
}

}  // namespace
}  // namespace nsa::cpu
