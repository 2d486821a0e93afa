// The softmax statistics of an indexer's scores over all keys that a query sees.
#pragma once

#include "cpu/engine/step/online_softmax.h"
#include "cpu/lightning_indexer/kl_loss_plan.h"
#include "cpu/lightning_indexer/score_tile.h"

namespace nsa::cpu {
namespace {

struct LogSumBuffers {
  ScoreBuffers scores;
  SoftmaxState* state;  // [queries]

  static LogSumBuffers carve(Arena& arena, const AttentionPlan& plan, const TokenPlan& tokens) {
    return {ScoreBuffers::carve(arena, plan, tokens), arena.take<SoftmaxState>(tokens.max_queries)};
  }
};

template <class Variant>
inline void log_sum_tile(const TileContext& c, const TokenPlan& tokens,
                         const StatisticRows& statistics, const float* keys, LogSumBuffers& b) {
  const AttentionPlan& plan = c.plan;
  for (int64_t n = 0; n < c.tile.queries; ++n) b.state[n] = SoftmaxState::empty();
  score_tile<Variant>(c, tokens, keys, b.scores, [&](int64_t n, int64_t, int64_t count) {
    const int64_t past = round_up(count, W);
    for (int64_t j = count; j < past; ++j) b.scores.one[j] = -kInfinity;
    online_softmax_row(b.scores.one, past, 1.0f, b.state[n]);
  });
  for (int64_t n = 0; n < c.tile.queries; ++n) {
    const int64_t row = c.seg.first_query + c.tile.i0 + n;
    const int64_t at = statistics.of(plan.N2, row, c.first_head / plan.G);
    plan.softmax_max[at] = b.state[n].max_out();
    plan.softmax_sum[at] = b.state[n].sum_out();
  }
}

template <class Variant>
void index_log_sum_wave(const AttentionPlan& plan, const TokenPlan& tokens,
                        const StatisticRows& statistics, const Wave& wave,
                        const ForwardScratch& scratch, int threads) {
  score_wave<Variant>(
      plan, tokens, wave, scratch, threads,
      [&](Arena& arena) { return LogSumBuffers::carve(arena, plan, tokens); },
      [&](const TileContext& c, const float* keys, LogSumBuffers& buffers) {
        log_sum_tile<Variant>(c, tokens, statistics, keys, buffers);
      });
}

void index_log_sum_by_dtype(const AttentionPlan& plan, const TokenPlan& tokens,
                            const StatisticRows& statistics, const Wave& wave,
                            const ForwardScratch& scratch, int threads) {
  if (plan.dtype == ElemType::kBFloat16)
    return index_log_sum_wave<VariantOfBFloat16>(plan, tokens, statistics, wave, scratch, threads);
  index_log_sum_wave<FloatVariant>(plan, tokens, statistics, wave, scratch, threads);
}

int64_t index_log_sum_thread_size(const AttentionPlan& plan, const TokenPlan& tokens) {
  return measured([&](Arena& arena) { LogSumBuffers::carve(arena, plan, tokens); });
}

}  // namespace
}  // namespace nsa::cpu
