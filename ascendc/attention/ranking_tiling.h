// How the blocks of a selection are ranked: tiling data that importance.h and topk.h read, and what
// they take of the UB.
#pragma once

#include "ascendc/attention/attention_sizes.h"

namespace nsa::ascend {

// Keys are compressed tokens. They are summed up and ranked window by window, a whole number of
// blocks each.
struct RankingTiling {
  int64_t block_keys;    // m = l' / s, keys of a block
  int64_t overlap_keys;  // n = l / s
  int64_t overlap;       // importance: every index of eq. (9) 1-based; otherwise P 0-based
  int64_t causal;        // a query's own block is its last candidate
  int64_t block_tokens;  // l'
  int64_t count;         // blocks of a query
  int64_t init;          // first blocks that are forced
  int64_t local;         // forced blocks that end with a query's own
  int64_t mask_row;      // bytes of a row of the mask of forced blocks, 0 without one
  int64_t queries;       // ranked side by side, at most
  int64_t window;        // blocks of a window, a multiple of 64

  __aicore__ constexpr int64_t Keys() const { return window * block_keys; }
  // Keys that count for a block.
  __aicore__ constexpr int64_t Taps() const { return block_keys + overlap_keys - 1; }
};

constexpr int32_t kRankFloats = 1024;    // scores of a window, of all queries
constexpr int32_t kWindowFloats = 4096;  // probabilities of a window, likewise
constexpr int32_t kSortRun = 32;         // pairs that Sort32 sorts
constexpr int32_t kMergeLists = 4;
constexpr int32_t kPairFloats = 2;  // a score and an index

// Where the probabilities of a query lie, in floats: of the end of the window before, of a window,
// and zeros behind the last key.
struct ProbabilityRow {
  int32_t before, window, pitch;

  __aicore__ constexpr explicit ProbabilityRow(const RankingTiling& t)
      : before(RoundUp(static_cast<int32_t>(t.Taps()), kRepeatFloats)),
        window(static_cast<int32_t>(t.Keys())),
        pitch(before + window + kRepeatFloats) {}
};

// Pairs of a query's running list.
__aicore__ constexpr int32_t ListPairs(int64_t count) {
  return RoundUp(static_cast<int32_t>(count), kSortRun);
}

// Bytes from the start of one buffer.
struct RankingBuffers {
  uint32_t probabilities;  // float [queries, pitch]
  uint32_t numbers;        // 0, 1, ..., int32 [window]
  uint32_t places;         // of the keys of blocks, uint32 [queries, window]
  uint32_t ramp;           // block of a window, int32 [queries, window]
  uint32_t scores;         // float [queries, window]
  uint32_t terms;          // float [queries, window]; of the mask, in half
  uint32_t indices;        // int32 [queries, window]
  uint32_t bits;           // of the window
  uint32_t pairs, merged;  // [queries, window] pairs
  uint32_t merged_last;    // four lists of each query
  uint32_t best;           // pairs, the running lists
  uint32_t total;

  __aicore__ constexpr explicit RankingBuffers(const RankingTiling& t)
      : probabilities(0),
        numbers(Bytes(static_cast<int32_t>(t.queries) * ProbabilityRow(t).pitch)),
        places(numbers + Bytes(static_cast<int32_t>(t.window))),
        ramp(places + Scores(t)),
        scores(ramp + Scores(t)),
        terms(scores + Scores(t)),
        indices(terms + Scores(t)),
        bits(indices + Scores(t)),
        pairs(bits + 256),  // Sort32 asks for multiples of 256
        merged(pairs + kPairFloats * Scores(t)),
        merged_last(merged + kPairFloats * Scores(t)),
        best(merged_last + Bytes(static_cast<int32_t>(t.queries) * kMergeLists * kPairFloats *
                                 ListPairs(t.count))),
        total(best + Bytes(static_cast<int32_t>(t.queries) * kPairFloats * ListPairs(t.count))) {}

 private:
  __aicore__ static constexpr uint32_t Bytes(int32_t floats) {
    return static_cast<uint32_t>(floats) * 4;
  }
  __aicore__ static constexpr uint32_t Scores(const RankingTiling& t) {
    return Bytes(static_cast<int32_t>(t.queries * t.window));
  }
};

}  // namespace nsa::ascend
