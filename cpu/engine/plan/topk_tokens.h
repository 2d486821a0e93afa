// The largest of many scores, of which thousands are kept: larger ones first, ties to the smaller
// index. Scores come in steps, each once; those that cannot be among the best are dropped at once,
// and only now and then are the best of the others found, by the digits of their ranks. And top-k
// tokens by rising index, as whoever reads the tokens wants them.
#pragma once

#include "cpu/engine/simd/vec_math.h"
#include "cpu/engine/threads/scratch.h"
#include "cpu/types.h"

namespace nsa::cpu {
namespace {

// Scores of a step, at most.
constexpr int64_t kTopkStep = 128;
// Digits of a rank, the first one first, and their bins.
constexpr int kDigits = 3;
constexpr int kDigitShift[kDigits] = {21, 10, 0};
constexpr int kDigitBits[kDigits] = {11, 11, 10};
constexpr int64_t kBins = 1 << 11;
// Fewer top-k tokens than this are put in order by insertion.
constexpr int64_t kFewTopkTokens = 48;

// An integer that is larger where the score is: 0 of NaN, then -inf, and -0 is 0.
inline uint32_t rank_of(float score) {
  const float x = score + 0.0f;
  uint32_t bits;
  __builtin_memcpy(&bits, &x, 4);
  const uint32_t rank = bits >> 31 ? ~bits : bits | 0x80000000u;
  return x == x ? rank : 0;
}

inline float score_of(uint32_t rank) {
  if (rank == 0) return __builtin_nanf("");
  const uint32_t bits = rank >> 31 ? rank & 0x7fffffffu : ~rank;
  float score;
  __builtin_memcpy(&score, &bits, 4);
  return score;
}

// Scratch of a thread for any number of top-k lists, one after the other.
struct TopkSpace {
  int32_t* bins;   // [kBins]
  uint32_t* rank;  // [count]
  int32_t* index;  // [count]

  static TopkSpace carve(Arena& arena, int64_t count) {
    return {arena.take<int32_t>(kBins), arena.take<uint32_t>(count), arena.take<int32_t>(count)};
  }
};

// The best `count` scores of a row, and those since that may be among them, by rising index.
struct TopkTokens {
  uint32_t* rank;  // [room]
  int32_t* index;  // [room]
  int64_t count, room, n;
  uint32_t least;  // that a rank has to be to count

  static TopkTokens carve(Arena& arena, int64_t count) {
    TopkTokens p{};
    p.count = count;
    p.room = count + max64(count, 4 * kTopkStep);
    p.rank = arena.take<uint32_t>(p.room);
    p.index = arena.take<int32_t>(p.room);
    return p;
  }

  void clear() { n = least = 0; }

  // Scores of indices [first, first + step), step at most kTopkStep.
  void add(const float* score, int64_t first, int64_t step, const TopkSpace& space) {
    uint32_t ranks[kTopkStep];
    for (int64_t j = 0; j < step; ++j) ranks[j] = rank_of(score[j]);
    for (int64_t j = 0; j < step; ++j) {
      rank[n] = ranks[j];
      index[n] = static_cast<int32_t>(first + j);
      n += ranks[j] >= least;
    }
    if (n + kTopkStep > room) keep_best(space);
  }

  // Drops all but the best. A later score that is equal to the last of them is not better.
  void keep_best(const TopkSpace& space) {
    if (n <= count) return;
    int64_t equal;  // of those of this rank, how many are among the best
    const uint32_t last = rank_in_place(space, &equal);
    int64_t kept = 0;
    for (int64_t i = 0; i < n; ++i) {
      const uint32_t r = rank[i];
      const bool tie = r == last;
      rank[kept] = r;
      index[kept] = index[i];
      kept += r > last || (tie && equal > 0);
      equal -= tie;
    }
    n = count;
    least = last + 1;
  }

  // The best ones in order, n of them.
  void finish(const TopkSpace& space) {
    keep_best(space);
    if (n <= kFewTopkTokens) return insert_in_order();
    uint32_t *from = rank, *to = space.rank;
    int32_t *from_index = index, *to_index = space.index;
    for (int digit = kDigits - 1; digit >= 0; --digit) {
      move_by_digit(digit, from, from_index, to, to_index, space.bins);
      uint32_t* const r = from;
      int32_t* const x = from_index;
      from = to;
      from_index = to_index;
      to = r;
      to_index = x;
    }
    if (from == rank) return;
    __builtin_memcpy(rank, from, static_cast<size_t>(n) * 4);
    __builtin_memcpy(index, from_index, static_cast<size_t>(n) * 4);
  }

 private:
  static uint32_t digit_of(uint32_t rank, int digit) {
    return rank >> kDigitShift[digit] & ((1u << kDigitBits[digit]) - 1);
  }

  // The rank of the last of the best, when all are in order, and how many have that and are among
  // them: digit by digit, of those that have the digits before.
  uint32_t rank_in_place(const TopkSpace& space, int64_t* equal) const {
    uint32_t found = 0;
    int64_t left = count;
    for (int digit = 0; digit < kDigits; ++digit) {
      const int above = kDigitShift[digit] + kDigitBits[digit];
      for (int64_t b = 0; b < kBins; ++b) space.bins[b] = 0;
      for (int64_t i = 0; i < n; ++i) {
        const bool same = digit == 0 || rank[i] >> above == found >> above;
        space.bins[digit_of(rank[i], digit)] += same;
      }
      uint32_t bin = (1u << kDigitBits[digit]) - 1;
      for (; space.bins[bin] < left; --bin) left -= space.bins[bin];
      found |= bin << kDigitShift[digit];
    }
    *equal = left;
    return found;
  }

  void insert_in_order() {
    for (int64_t i = 1; i < n; ++i) {
      const uint32_t r = rank[i];
      const int32_t x = index[i];
      int64_t to = i;
      for (; to > 0 && rank[to - 1] < r; --to) {
        rank[to] = rank[to - 1];
        index[to] = index[to - 1];
      }
      rank[to] = r;
      index[to] = x;
    }
  }

  // By falling digit, equal ones as they are.
  void move_by_digit(int digit, const uint32_t* from, const int32_t* from_index, uint32_t* to,
                     int32_t* to_index, int32_t* bins) const {
    for (int64_t b = 0; b < kBins; ++b) bins[b] = 0;
    for (int64_t i = 0; i < n; ++i) ++bins[digit_of(from[i], digit)];
    int32_t before = 0;
    for (int64_t b = (int64_t{1} << kDigitBits[digit]) - 1; b >= 0; --b) {
      const int32_t here = bins[b];
      bins[b] = before;
      before += here;
    }
    for (int64_t i = 0; i < n; ++i) {
      const int32_t place = bins[digit_of(from[i], digit)]++;
      to[place] = from[i];
      to_index[place] = from_index[i];
    }
  }
};

constexpr int kRisingBits = 11;
constexpr int64_t kRisingBins = 1 << kRisingBits;
constexpr int64_t kFewRanks = 48;  // less are put in order by insertion

struct RisingSpace {
  int32_t* bins;   // [kRisingBins]
  int32_t* moved;  // [count]

  static RisingSpace carve(Arena& arena, int64_t count) {
    return {arena.take<int32_t>(kRisingBins), arena.take<int32_t>(count)};
  }
};

inline void put_in_order(int32_t* x, int64_t n, const RisingSpace& space) {
  if (n <= kFewRanks) {
    for (int64_t i = 1; i < n; ++i) {
      const int32_t number = x[i];
      int64_t to = i;
      for (; to > 0 && x[to - 1] > number; --to) x[to] = x[to - 1];
      x[to] = number;
    }
    return;
  }
  int32_t largest = 0;
  for (int64_t i = 0; i < n; ++i) largest = largest > x[i] ? largest : x[i];
  int32_t *from = x, *to = space.moved;
  for (int shift = 0; shift < 32 && largest >> shift != 0; shift += kRisingBits) {
    for (int64_t b = 0; b < kRisingBins; ++b) space.bins[b] = 0;
    const auto bin = [&](int64_t i) { return from[i] >> shift & (kRisingBins - 1); };
    for (int64_t i = 0; i < n; ++i) ++space.bins[bin(i)];
    int32_t before = 0;
    for (int64_t b = 0; b < kRisingBins; ++b) {
      const int32_t here = space.bins[b];
      space.bins[b] = before;
      before += here;
    }
    for (int64_t i = 0; i < n; ++i) to[space.bins[bin(i)]++] = from[i];
    int32_t* const done = to;
    to = from;
    from = done;
  }
  if (from != x) __builtin_memcpy(x, from, static_cast<size_t>(n) * 4);
}

}  // namespace
}  // namespace nsa::cpu
