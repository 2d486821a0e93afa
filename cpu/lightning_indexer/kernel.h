// LightningIndexer: the scores of a tile of queries, all heads that share a key head, are summed up
// step by step of the keys, and the best of each query picked while they come.
#pragma once

#include "cpu/engine/plan/picks.h"
#include "cpu/engine/step/forward.h"
#include "cpu/engine/step/head_sums.h"
#include "cpu/lightning_indexer/plan.h"

namespace nsa::cpu {
namespace {

static_assert(kTileKeys <= kPickStep);

struct TokenBuffers {
  float* q;       // [rows, words(D)]
  float* weight;  // [rows]
  float* s;       // [rows, kScoreRow]
  float* one;     // [kTileKeys] of one query
  Picks* picks;   // [queries]
  PickSpace space;
  float* values;  // [count] of one query
  char* page;     // [kBlockKeys, D] gathered keys
  float* tmp;

  static TokenBuffers carve(Arena& arena, const AttentionPlan& plan, const TokenPlan& tokens) {
    TokenBuffers b{};
    b.q = arena.take<float>(tokens.max_rows * round_up(plan.D, kLanePad));
    b.weight = arena.take<float>(tokens.max_rows);
    b.s = arena.take<float>(tokens.max_rows * kScoreRow);
    b.one = arena.take<float>(kTileKeys);
    b.picks = arena.take<Picks>(tokens.max_queries);
    for (int64_t n = 0; n < tokens.max_queries; ++n) {
      const Picks picks = Picks::carve(arena, tokens.most);
      if (b.picks != nullptr) b.picks[n] = picks;
    }
    b.space = PickSpace::carve(arena, tokens.most);
    b.values = arena.take<float>(tokens.count);
    if (tokens.pages.table != nullptr) b.page = arena.take<char>(kBlockKeys * plan.D * 4);
    b.tmp = arena.take<float>(round_up(plan.D, kLanePad));
    return b;
  }
};

// The picks of a query and key head, and their scores.
inline void write_picks(const AttentionPlan& plan, const TokenPlan& tokens, int64_t at,
                        const Picks& picks, TokenBuffers& b) {
  int32_t* indices = tokens.indices + at * tokens.count;
  for (int64_t i = 0; i < tokens.count; ++i) indices[i] = i < picks.n ? picks.index[i] : -1;
  if (tokens.values == nullptr) return;
  for (int64_t i = 0; i < tokens.count; ++i)
    b.values[i] = i < picks.n ? score_of(picks.rank[i]) : -kInfinity;
  from_float(plan.dtype, b.values, tokens.count, tokens.values, at * tokens.count);
}

template <class Path>
inline void pick_tile(const TileContext& c, const TokenPlan& tokens, const float* keys,
                      TokenBuffers& b) {
  const AttentionPlan& plan = c.plan;
  const RowRange& range = c.seg.range;
  const int64_t i0 = c.tile.i0, queries = c.tile.queries, G = plan.G;
  const int64_t depth = words<Path>(plan.D), row0 = c.seg.stat + i0;
  for (int64_t r = 0; r < queries * G; ++r) {
    const int64_t i = c.query(r), head = c.head(r);
    pack_row<Path>(plan.dtype, plan.query, c.seg.q + i * plan.q.row + head * plan.q.head, plan.D,
                   b.q + r * depth);
    b.weight[r] = tokens.weights ? tokens.weights[(c.seg.stat + i) * plan.N1 + head] : 1.0f;
  }
  for (int64_t n = 0; n < queries; ++n) b.picks[n].clear();
  const int64_t end = range.hi(i0 + queries - 1);
  int64_t first = 0;  // query that sees a key of the step
  for (int64_t k0 = 0; k0 < end; k0 += kTileKeys) {
    while (range.hi(i0 + first) <= k0) ++first;
    key_products<Path>(Operand{b.q + first * G * depth, depth, 1}, (queries - first) * G,
                       {keys, depth, kBlockKeys}, k0,
                       min64(k0 + kTileKeys, round_up(end, key_step<Path>())), {b.s, kScoreRow});
    for (int64_t n = first; n < queries; ++n) {
      const int64_t here = min64(kTileKeys, range.hi(i0 + n) - k0);
      combine_heads<true>(b.s + (n - first) * G * kScoreRow, kScoreRow, 1.0f, b.weight + n * G, G,
                          here, b.one);
      b.picks[n].add(b.one, k0, here, b.space);
    }
  }
  for (int64_t n = 0; n < queries; ++n) {
    b.picks[n].finish(b.space);
    write_picks(plan, tokens, (row0 + n) * plan.N2 + c.first_head / G, b.picks[n], b);
  }
}

// Packs keys [j0, j0 + n) of a key head of a segment.
template <class Path>
inline void pack_token_keys(const AttentionPlan& plan, const KeyPages& pages, const Segment& seg,
                            int64_t key_head, int64_t j0, int64_t n, float* keys, TokenBuffers& b) {
  if (pages.table == nullptr) {
    const TensorRows rows = keys_of(plan, key_rows(plan, seg, key_head, j0, n));
    return pack_transposed<Path>(rows, plan.D, kBlockKeys, keys, b.tmp);
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
  pack_transposed<Path>({plan.dtype, b.page, 0, plan.D, n}, plan.D, kBlockKeys, keys, b.tmp);
}

template <class Path>
void lightning_indexer_wave(const AttentionPlan& plan, const TokenPlan& tokens, const Wave& wave,
                            const ForwardScratch& scratch, int threads) {
  const int64_t key_size = words<Path>(plan.D) * kBlockKeys;
  run_forward<Path>(
      scratch, wave.num_tiles, threads,
      [&](Arena& arena) { return TokenBuffers::carve(arena, plan, tokens); },
      [&](const Member& member, TokenBuffers& buffers) {
        for (int64_t p = 0; p < wave.num_pairs; ++p) {
          const KvPair& pair = wave.pairs[p];
          const Segment& seg = plan.segments[pair.segment];
          member.share(ceil_div(seg.kv_len, kBlockKeys), [&](int64_t block) {
            const int64_t j0 = block * kBlockKeys;
            pack_token_keys<Path>(plan, tokens.pages, seg, pair.kv_head, j0,
                                  min64(kBlockKeys, seg.kv_len - j0),
                                  scratch.keys + (pair.first_block + block) * key_size, buffers);
          });
        }
      },
      [&](int64_t n, TokenBuffers& buffers) {
        const RowTile& rows = wave.tiles[n];
        const KvPair& pair = wave.pairs[rows.pair];
        const TileContext context{plan, plan.segments[pair.segment], rows, pair.kv_head * plan.G};
        pick_tile<Path>(context, tokens, scratch.keys + pair.first_block * key_size, buffers);
      });
}

void lightning_indexer(const AttentionPlan& plan, const TokenPlan& tokens, const Wave& wave,
                       const ForwardScratch& scratch, int threads) {
  if (plan.dtype == ElemType::kBFloat16)
    return lightning_indexer_wave<PathOfBFloat16>(plan, tokens, wave, scratch, threads);
  lightning_indexer_wave<FloatPath>(plan, tokens, wave, scratch, threads);
}

int64_t lightning_indexer_thread_size(const AttentionPlan& plan, const TokenPlan& tokens) {
  return measured([&](Arena& arena) { TokenBuffers::carve(arena, plan, tokens); });
}

}  // namespace
}  // namespace nsa::cpu
