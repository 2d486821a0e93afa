// The best blocks of one query: forced ones first, by index, then by score, ties to the smaller
// index.
#pragma once

#include "cpu/engine/simd/vec_math.h"
#include "cpu/engine/threads/scratch.h"

namespace nsa::cpu {
namespace {

struct TopkRule {
  const uint8_t* forced;     // [blocks] or nullptr: 1 forces the block
  int64_t init, own, local;  // blocks below init and own - local + 1 .. own are forced
};

// Scores are looked at so many at a time, and there is room for whole steps of them.
constexpr int64_t kScoreStep = 16;
// Candidates that are collected beside the best so far before they are put in order, at least: all
// are compared with all, so that of many best ones there should be few times.
constexpr int64_t kNewcomers = 48;
// Vectors of candidates that are compared with the others at once.
constexpr int64_t kPlaceVectors = 4;

inline int64_t score_room(int64_t blocks) { return round_up(blocks, kScoreStep); }

// Candidates in the order of their indices but for the best so far, which come first, in order.
struct Candidates {
  int64_t room;
  float* score;    // [room]
  int32_t* block;  // [room]
  float* place;    // [room] in the order of the scores
  int32_t* taken;  // [room] of candidates that had this place
  float* sorted_score;
  int32_t* sorted_block;  // [best + 1], as those scores

  // For the best `count` of at most `blocks`.
  static Candidates carve(Arena& arena, int64_t count, int64_t blocks) {
    const int64_t best = min64(count, blocks);
    Candidates c;
    c.room = round_up(best + max64(kNewcomers, best), kPlaceVectors * kLanePad);
    c.score = arena.take<float>(c.room);
    c.block = arena.take<int32_t>(c.room);
    c.place = arena.take<float>(c.room);
    c.taken = arena.take<int32_t>(c.room);
    c.sorted_score = arena.take<float>(best + 1);
    c.sorted_block = arena.take<int32_t>(best + 1);
    return c;
  }
};

// Forced blocks come before all others, and those whose score is NaN behind all numbers.
inline void force_scores(const TopkRule& rule, int64_t candidates, float* score) {
  for (int64_t j = 0; j < candidates; ++j)
    score[j] = score[j] == score[j] ? score[j] + 0.0f : -__builtin_inff();  // -0 is 0
  const auto force = [&](int64_t begin, int64_t end) {
    for (int64_t j = max64(begin, 0); j < min64(end, candidates); ++j) score[j] = __builtin_inff();
  };
  force(0, rule.init);
  force(rule.own - rule.local + 1, rule.own + 1);
  if (rule.forced == nullptr) return;
  for (int64_t j = 0; j < candidates; ++j)
    if (rule.forced[j] != 0) score[j] = __builtin_inff();
}

// place[i] = the number of candidates with a larger score.
inline void find_places(const Candidates& c, int64_t n) {
  constexpr int64_t step = kPlaceVectors * W;
  for (int64_t i = 0; i < n; i += step) {
    V own[kPlaceVectors], place[kPlaceVectors];
    for (int64_t k = 0; k < kPlaceVectors; ++k) {
      own[k] = load(c.score + i + k * W);
      place[k] = zero();
    }
    for (int64_t j = 0; j < n; ++j) {
      const V other = set1(c.score[j]);
      for (int64_t k = 0; k < kPlaceVectors; ++k)
        place[k] = add(place[k], where_lt(own[k], other, set1(1.0f), zero()));
    }
    for (int64_t k = 0; k < kPlaceVectors; ++k) store(c.place + i + k * W, place[k]);
  }
}

// The best `count` of n candidates in order, in front; gives their number. No branch here could be
// guessed wrong.
inline int64_t keep_best(const Candidates& c, int64_t n, int64_t count) {
  find_places(c, n);
  for (int64_t i = 0; i < n; ++i) c.taken[i] = 0;
  for (int64_t i = 0; i < n; ++i) {
    // Equal ones come in the order in which they stand.
    const int64_t first = static_cast<int64_t>(c.place[i]);
    const int64_t to = min64(first + c.taken[first]++, count);
    c.sorted_score[to] = c.score[i];
    c.sorted_block[to] = c.block[i];
  }
  const int64_t kept = min64(n, count);
  for (int64_t i = 0; i < kept; ++i) {
    c.score[i] = c.sorted_score[i];
    c.block[i] = c.sorted_block[i];
  }
  return kept;
}

// Whether a score of a step is not at most `least`: any, where that is NaN.
inline bool any_above(const float* score, float least) {
  int32_t above = 0;
  for (int64_t lane = 0; lane < kScoreStep; ++lane) above |= !(score[lane] <= least);
  return above != 0;
}

// indices[0..count) = chosen blocks, -1 where there are fewer candidates. score, which is written,
// has score_room(candidates) floats.
inline void choose_blocks(const TopkRule& rule, float* score, int64_t candidates, int64_t count,
                          int32_t* indices, const Candidates& c) {
  force_scores(rule, candidates, score);
  for (int64_t j = candidates; j < score_room(candidates); ++j) score[j] = -__builtin_inff();
  const int64_t best = min64(count, candidates);
  int64_t n = 0;
  // The least score of the best blocks, once there are enough: a later block needs a greater one.
  float least = __builtin_nanf("");
  for (int64_t first = 0; first < candidates; first += kScoreStep) {
    if (!any_above(score + first, least)) continue;
    for (int64_t j = first; j < min64(first + kScoreStep, candidates); ++j) {
      c.score[n] = score[j];
      c.block[n] = static_cast<int32_t>(j);
      n += !(score[j] <= least);
    }
    if (n + kScoreStep <= c.room) continue;
    n = keep_best(c, n, best);
    least = c.score[best - 1];
  }
  n = keep_best(c, n, best);
  for (int64_t i = 0; i < count; ++i) indices[i] = i < n ? c.block[i] : -1;
}

}  // namespace
}  // namespace nsa::cpu
