// The scores of an indexer for a tile of queries, all heads that share a key head, step by step of
// the keys; and the keys of a wave, packed for it.
#pragma once

#include "cpu/engine/step/forward.h"
#include "cpu/engine/step/head_sums.h"
#include "cpu/lightning_indexer/indexer_plan.h"

namespace nsa::cpu {
namespace {

struct ScoreBuffers {
  float* q;       // [rows, words(D)]
  float* weight;  // [rows]
  float* s;       // [rows, kScoreRow]
  float* one;     // [kTileKeys] of one query
  char* page;     // [kKvBlockKeys, D] gathered keys
  float* tmp;

  static ScoreBuffers carve(Arena& arena, const AttentionPlan& plan, const TokenPlan& tokens) {
    ScoreBuffers b{};
    b.q = arena.take<float>(tokens.max_rows * round_up(plan.D, kLanePad));
    b.weight = arena.take<float>(tokens.max_rows);
    b.s = arena.take<float>(tokens.max_rows * kScoreRow);
    b.one = arena.take<float>(kTileKeys);
    if (tokens.pages.table != nullptr) b.page = arena.take<char>(kKvBlockKeys * plan.D * 4);
    b.tmp = arena.take<float>(round_up(plan.D, kLanePad));
    return b;
  }
};

// take(n, k0, count): b.one holds what query n of the tile gives to keys [k0, k0 + count), those of
// a step that it sees.
template <class Variant, class Take>
inline void score_tile(const TileContext& c, const TokenPlan& tokens, const float* keys,
                       ScoreBuffers& b, const Take& take) {
  const AttentionPlan& plan = c.plan;
  const RowRange& range = c.seg.range;
  const int64_t i0 = c.tile.i0, queries = c.tile.queries, G = plan.G;
  const int64_t depth = words<Variant>(plan.D);
  for (int64_t r = 0; r < queries * G; ++r) {
    const int64_t i = c.query(r), head = c.head(r);
    pack_row<Variant>(plan.dtype, plan.query, c.seg.q + i * plan.q.row + head * plan.q.head, plan.D,
                      b.q + r * depth);
    b.weight[r] = tokens.weights ? tokens.weights[(c.seg.first_query + i) * plan.N1 + head] : 1.0f;
  }
  const int64_t end = range.hi(i0 + queries - 1);
  int64_t first = 0;  // query that sees a key of the step
  for (int64_t k0 = 0; k0 < end; k0 += kTileKeys) {
    while (range.hi(i0 + first) <= k0) ++first;
    key_products<Variant>(Operand{b.q + first * G * depth, depth, 1}, (queries - first) * G,
                          {keys, depth, kKvBlockKeys}, k0,
                          min64(k0 + kTileKeys, round_up(end, key_step<Variant>())),
                          {b.s, kScoreRow});
    for (int64_t n = first; n < queries; ++n) {
      const int64_t here = min64(kTileKeys, range.hi(i0 + n) - k0);
      combine_heads<true>(b.s + (n - first) * G * kScoreRow, kScoreRow, 1.0f, b.weight + n * G, G,
                          here, b.one);
      take(n, k0, here);
    }
  }
}

// Packs keys [j0, j0 + n) of a key head of a segment.
template <class Variant>
inline void pack_token_keys(const AttentionPlan& plan, const KeyPages& pages, const Segment& seg,
                            int64_t key_head, int64_t j0, int64_t n, float* keys, ScoreBuffers& b) {
  if (pages.table == nullptr) {
    const TensorRows rows = keys_of(plan, key_rows(plan, seg, key_head, j0, n));
    return pack_transposed<Variant>(rows, plan.D, kKvBlockKeys, keys, b.tmp);
  }
  const int64_t size = elem_size(plan.dtype), bytes = plan.D * size;
  for (int64_t j = 0; j < n; ++j) {
    const int64_t token = j0 + j;
    const int64_t page = pages.table[seg.index * pages.places + token / pages.page];
    const int64_t at = (page * pages.page + token % pages.page) * plan.k.row;
    __builtin_memcpy(b.page + j * bytes,
                     static_cast<const char*>(plan.key) + (at + key_head * plan.k.head) * size,
                     static_cast<size_t>(bytes));
  }
  pack_transposed<Variant>({plan.dtype, b.page, 0, plan.D, n}, plan.D, kKvBlockKeys, keys, b.tmp);
}

// tile(context, packed keys, buffers) for all tiles of a wave. carve(arena) gives a thread's
// buffers, whose `scores` are ScoreBuffers.
template <class Variant, class Carve, class Tile>
void score_wave(const AttentionPlan& plan, const TokenPlan& tokens, const Wave& wave,
                const ForwardScratch& scratch, int threads, const Carve& carve, const Tile& tile) {
  const int64_t key_size = words<Variant>(plan.D) * kKvBlockKeys;
  run_forward<Variant>(
      scratch, wave.num_tiles, threads, carve,
      [&](const Member& member, auto& buffers) {
        for (int64_t p = 0; p < wave.num_pairs; ++p) {
          const KvPair& pair = wave.pairs[p];
          const Segment& seg = plan.segments[pair.segment];
          member.static_for(ceil_div(seg.kv_len, kKvBlockKeys), [&](int64_t kv_block) {
            const int64_t j0 = kv_block * kKvBlockKeys;
            pack_token_keys<Variant>(
                plan, tokens.pages, seg, pair.kv_head, j0, min64(kKvBlockKeys, seg.kv_len - j0),
                scratch.keys + (pair.first_kv_block + kv_block) * key_size, buffers.scores);
          });
        }
      },
      [&](int64_t n, auto& buffers) {
        const RowTile& rows = wave.tiles[n];
        const KvPair& pair = wave.pairs[rows.pair];
        const TileContext context{plan, plan.segments[pair.segment], rows, pair.kv_head * plan.G};
        tile(context, scratch.keys + pair.first_kv_block * key_size, buffers);
      });
}

}  // namespace
}  // namespace nsa::cpu
