// Which keys a query may see: the masks that are computed from the mode.
#pragma once

#include "ascendc/common/machine.h"

namespace nsa::ascend {

constexpr int64_t kUnbounded = int64_t{1} << 40;

// A band around the diagonal: query i sees the keys i - back ... i + ahead.
struct Band {
  int64_t back;          // kUnbounded: every earlier key
  int64_t ahead;         // kUnbounded: every later key
  int64_t bottom_right;  // 1: the diagonal ends at the last query and the last key, otherwise it
                         // starts at the first ones
};

// Visible keys of query i of a segment: [Low(i), High(i)), both non-decreasing in i.
struct VisibleKeys {
  int64_t keys = 0;  // of the segment
  int64_t back = kUnbounded;
  int64_t ahead = kUnbounded;
  int64_t prefix = 0;          // keys below this one are visible in any case
  int64_t compress_block = 0;  // l; with a stride s > 0 key c ends at token c s + l - 1
  int64_t compress_stride = 0;
  int64_t position = 0;  // of query 0, for compressed keys

  // Query 0 stands at position `offset` instead of 0.
  __aicore__ inline void StartAt(int64_t offset) {
    position = offset;
    if (compress_stride == 0 && ahead < kUnbounded) ahead += offset;
  }
  __aicore__ inline int64_t Low(int64_t i) const { return Min(Max(i - back, 0), keys); }
  __aicore__ inline int64_t High(int64_t i) const {
    int64_t end = Max(i + ahead + 1, prefix);
    if (compress_stride > 0) {
      const int64_t last = position + i - compress_block + 1;  // c s <= last
      end = Min(end, last < 0 ? 0 : last / compress_stride + 1);
    }
    return Min(Max(end, 0), keys);
  }
};

// The transpose of VisibleKeys: queries that see key k of a segment: [Low(k), High(k)), both
// non-decreasing in k.
struct VisibleQueries {
  VisibleKeys keys;
  int64_t queries;  // of the segment

  __aicore__ inline int64_t Low(int64_t k) const {
    int64_t first = k < keys.prefix ? 0 : Max(k - keys.ahead, 0);
    if (keys.compress_stride > 0) {
      // Where the key's window ends after the last query, k s may be no int64.
      const int64_t last = keys.position + queries - keys.compress_block;
      if (last < 0 || k > last / keys.compress_stride) return queries;
      const int64_t end = k * keys.compress_stride + keys.compress_block - 1;
      first = Max(first, end - keys.position);
    }
    return Min(first, queries);
  }
  __aicore__ inline int64_t High(int64_t k) const {
    return Min(Max(k + keys.back + 1, 0), queries);
  }
};

__aicore__ inline VisibleKeys VisibleInBand(const Band& band, int64_t queries, int64_t keys,
                                            int64_t prefix) {
  VisibleKeys visible;
  const int64_t shift = band.bottom_right != 0 ? keys - queries : 0;
  visible.keys = keys;
  if (band.back < kUnbounded) visible.back = band.back - shift;
  if (band.ahead < kUnbounded) visible.ahead = band.ahead + shift;
  visible.prefix = prefix;
  return visible;
}

// Queries that see any key of a tile.
struct QuerySpan {
  int64_t begin, end;
};
__aicore__ inline QuerySpan SpanOf(const VisibleQueries& visible, int64_t row, int32_t rows) {
  const int64_t begin = visible.Low(row);
  return {begin, Max(begin, visible.High(row + rows - 1))};
}

// Keys that a tile of queries has to look at, from a multiple of 16 on.
struct KeySpan {
  int64_t begin, end;
};
__aicore__ inline KeySpan SpanOf(const VisibleKeys& visible, int64_t row, int32_t rows) {
  const int64_t low = visible.Low(row), high = visible.High(row + rows - 1);
  if (low >= high) return {0, 0};
  return {low / 16 * 16, high};
}

}  // namespace nsa::ascend
