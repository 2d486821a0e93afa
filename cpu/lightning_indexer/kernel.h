// LightningIndexer: the best scores of each query are kept while they come.
#pragma once

#include "cpu/engine/plan/topk_tokens.h"
#include "cpu/lightning_indexer/score_tile.h"

namespace nsa::cpu {
namespace {

static_assert(kTileKeys <= kTopkStep);

struct TokenBuffers {
  ScoreBuffers scores;
  TopkTokens* topk_tokens;  // [queries]
  TopkSpace space;
  float* values;  // [count] of one query

  static TokenBuffers carve(Arena& arena, const AttentionPlan& plan, const TokenPlan& tokens) {
    TokenBuffers b{};
    b.scores = ScoreBuffers::carve(arena, plan, tokens);
    b.topk_tokens = arena.take<TopkTokens>(tokens.max_queries);
    for (int64_t n = 0; n < tokens.max_queries; ++n) {
      const TopkTokens topk_tokens = TopkTokens::carve(arena, tokens.most);
      if (b.topk_tokens != nullptr) b.topk_tokens[n] = topk_tokens;
    }
    b.space = TopkSpace::carve(arena, tokens.most);
    b.values = arena.take<float>(tokens.count);
    return b;
  }
};

// The top-k tokens of a query and key head, and their scores.
inline void write_topk(const AttentionPlan& plan, const TokenPlan& tokens, int64_t at,
                       const TopkTokens& topk_tokens, TokenBuffers& b) {
  int32_t* indices = tokens.indices + at * tokens.count;
  for (int64_t i = 0; i < tokens.count; ++i)
    indices[i] = i < topk_tokens.n ? topk_tokens.index[i] : -1;
  if (tokens.values == nullptr) return;
  for (int64_t i = 0; i < tokens.count; ++i)
    b.values[i] = i < topk_tokens.n ? score_of(topk_tokens.rank[i]) : -kInfinity;
  from_float(plan.dtype, b.values, tokens.count, tokens.values, at * tokens.count);
}

template <class Variant>
inline void topk_tile(const TileContext& c, const TokenPlan& tokens, const float* keys,
                      TokenBuffers& b) {
  const AttentionPlan& plan = c.plan;
  for (int64_t n = 0; n < c.tile.queries; ++n) b.topk_tokens[n].clear();
  score_tile<Variant>(c, tokens, keys, b.scores, [&](int64_t n, int64_t k0, int64_t count) {
    b.topk_tokens[n].add(b.scores.one, k0, count, b.space);
  });
  for (int64_t n = 0; n < c.tile.queries; ++n) {
    b.topk_tokens[n].finish(b.space);
    const int64_t row = c.seg.first_query + c.tile.i0 + n;
    write_topk(plan, tokens, row * plan.N2 + c.first_head / plan.G, b.topk_tokens[n], b);
  }
}

template <class Variant>
void lightning_indexer_wave(const AttentionPlan& plan, const TokenPlan& tokens, const Wave& wave,
                            const ForwardScratch& scratch, int threads) {
  score_wave<Variant>(
      plan, tokens, wave, scratch, threads,
      [&](Arena& arena) { return TokenBuffers::carve(arena, plan, tokens); },
      [&](const TileContext& c, const float* keys, TokenBuffers& buffers) {
        topk_tile<Variant>(c, tokens, keys, buffers);
      });
}

void lightning_indexer_by_dtype(const AttentionPlan& plan, const TokenPlan& tokens,
                                const Wave& wave, const ForwardScratch& scratch, int threads) {
  if (plan.dtype == ElemType::kBFloat16)
    return lightning_indexer_wave<VariantOfBFloat16>(plan, tokens, wave, scratch, threads);
  lightning_indexer_wave<FloatVariant>(plan, tokens, wave, scratch, threads);
}

int64_t lightning_indexer_thread_size(const AttentionPlan& plan, const TokenPlan& tokens) {
  return measured([&](Arena& arena) { TokenBuffers::carve(arena, plan, tokens); });
}

}  // namespace
}  // namespace nsa::cpu
