// Where the rows of a segment lie and which keys each of its queries may see.
#pragma once

#include "cpu/types.h"

namespace nsa::cpu {

// Visible keys of query i: the interval [lo(i), hi(i)), both non-decreasing in i. Every mask that
// is not given as a tensor has this form.
struct RowRange {
  int64_t kv_len = 0;
  int64_t back = kFar;         // lo(i) = i - back
  int64_t ahead = kFar;        // hi(i) = i + ahead + 1
  int64_t always = 0;          // keys below this one are visible in any case (prefix)
  int64_t compress_block = 0;  // l; with compress_stride s > 0 key c ends at token c s + l - 1
  int64_t compress_stride = 0;
  int64_t position = 0;  // of query 0, for the compressed form

  static constexpr int64_t kFar = int64_t{1} << 48;

  int64_t lo(int64_t i) const { return min64(max64(i - back, 0), kv_len); }
  int64_t hi(int64_t i) const {
    int64_t end = max64(i + ahead + 1, always);
    if (compress_stride > 0) {
      int64_t last = position + i - compress_block + 1;  // c s <= last
      end = min64(end, last < 0 ? 0 : last / compress_stride + 1);
    }
    return min64(max64(end, 0), kv_len);
  }
};

struct RowStrides {  // in elements, between tokens and between heads
  int64_t row, head;
};

// One packed sequence (TND) or one batch entry. Offsets are in elements, of row 0 and head 0.
struct Segment {
  int64_t index;  // b
  int64_t q, k, v, o;
  int64_t stat;  // in floats, softmax_max and softmax_sum
  int64_t q_len, kv_len;
  RowRange range;
  int64_t pse, mask, drop;  // offsets into the bias tensors; drop in bits
  RowStrides pse_strides;   // row stride 0: one row for all queries
  int64_t slope_shift;      // kv_start_idx - q_start_idx
};

}  // namespace nsa::cpu
