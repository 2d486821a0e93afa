// LightningIndexer: the best scores of each query are picked while they come.
#pragma once

#include "cpu/engine/plan/picks.h"
#include "cpu/lightning_indexer/score_tile.h"

namespace nsa::cpu {
namespace {

static_assert(kTileKeys <= kPickStep);

struct TokenBuffers {
  ScoreBuffers scores;
  Picks* picks;  // [queries]
  PickSpace space;
  float* values;  // [count] of one query

  static TokenBuffers carve(Arena& arena, const AttentionPlan& plan, const TokenPlan& tokens) {
    TokenBuffers b{};
    b.scores = ScoreBuffers::carve(arena, plan, tokens);
    b.picks = arena.take<Picks>(tokens.max_queries);
    for (int64_t n = 0; n < tokens.max_queries; ++n) {
      const Picks picks = Picks::carve(arena, tokens.most);
      if (b.picks != nullptr) b.picks[n] = picks;
    }
    b.space = PickSpace::carve(arena, tokens.most);
    b.values = arena.take<float>(tokens.count);
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
  for (int64_t n = 0; n < c.tile.queries; ++n) b.picks[n].clear();
  score_tile<Path>(c, tokens, keys, b.scores, [&](int64_t n, int64_t k0, int64_t count) {
    b.picks[n].add(b.scores.one, k0, count, b.space);
  });
  for (int64_t n = 0; n < c.tile.queries; ++n) {
    b.picks[n].finish(b.space);
    const int64_t row = c.seg.stat + c.tile.i0 + n;
    write_picks(plan, tokens, row * plan.N2 + c.first_head / plan.G, b.picks[n], b);
  }
}

template <class Path>
void lightning_indexer_wave(const AttentionPlan& plan, const TokenPlan& tokens, const Wave& wave,
                            const ForwardScratch& scratch, int threads) {
  score_wave<Path>(
      plan, tokens, wave, scratch, threads,
      [&](Arena& arena) { return TokenBuffers::carve(arena, plan, tokens); },
      [&](const TileContext& c, const float* keys, TokenBuffers& buffers) {
        pick_tile<Path>(c, tokens, keys, buffers);
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
