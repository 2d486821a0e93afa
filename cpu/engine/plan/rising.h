// Numbers that are not negative, put in rising order.
#pragma once

#include "cpu/engine/threads/scratch.h"
#include "cpu/types.h"

namespace nsa::cpu {
namespace {

constexpr int kRisingBits = 11;
constexpr int64_t kRisingBins = 1 << kRisingBits;
constexpr int64_t kFewNumbers = 48;  // less are put in order by insertion

struct RisingSpace {
  int32_t* bins;   // [kRisingBins]
  int32_t* moved;  // [count]

  static RisingSpace carve(Arena& arena, int64_t count) {
    return {arena.take<int32_t>(kRisingBins), arena.take<int32_t>(count)};
  }
};

inline void put_in_order(int32_t* x, int64_t n, const RisingSpace& space) {
  if (n <= kFewNumbers) {
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
