// Vector instructions over a few rows of scores: rows in a row in the Unified Buffer, each padded
// to whole repeats.
#pragma once

#include "ascendc/attention/attention_sizes.h"
#include "kernel_operator.h"

namespace nsa::ascend {

constexpr float kLowest = -3.402823466e+38F;  // -FLT_MAX
constexpr uint32_t kInfinityBits = 0x7f800000;

// [rows, width] floats of which the first `keys` of a row mean something.
struct PassRows {
  int32_t rows;
  int32_t keys;
  int32_t width;  // a multiple of 64

  __aicore__ inline PassRows(int32_t rows_in, int32_t keys_in)
      : rows(rows_in), keys(keys_in), width(RoundUp(keys_in, kRepeatFloats)) {}
  __aicore__ inline uint8_t repeats() const { return static_cast<uint8_t>(rows); }
  __aicore__ inline uint8_t pitch() const { return static_cast<uint8_t>(width / kBlockFloats); }
  __aicore__ inline int32_t floats() const { return rows * width; }
};

__aicore__ inline float Infinity() {
  union {
    uint32_t bits;
    float value;
  } infinity{kInfinityBits};
  return infinity.value;
}

// body(column, lanes) for every 64 columns of `keys`.
template <typename Body>
__aicore__ inline void ForRepeats(int32_t keys, Body body) {
  for (int32_t at = 0; at < keys; at += kRepeatFloats)
    body(static_cast<uint32_t>(at), static_cast<uint64_t>(Min(kRepeatFloats, keys - at)));
}

// [rows, columns] of global memory, `pitch` elements from row to row, to rows of `width` elements.
template <typename T>
__aicore__ inline void CopyRowsIn(const AscendC::LocalTensor<T>& to,
                                  const AscendC::GlobalTensor<T>& from, int64_t pitch, int32_t rows,
                                  int32_t columns, int32_t width) {
  constexpr int64_t kMostGap = 0xffffffff;
  constexpr auto kBytes = static_cast<uint32_t>(sizeof(T));
  const uint32_t length = static_cast<uint32_t>(columns) * kBytes;
  const uint32_t blocks = static_cast<uint32_t>(width) * kBytes / kBlockBytes;
  const uint32_t gap = blocks - (length + kBlockBytes - 1) / kBlockBytes;
  const int64_t skipped = rows > 1 ? (pitch - columns) * kBytes : 0;
  if (skipped <= kMostGap) {
    AscendC::DataCopyPad(to, from,
                         AscendC::DataCopyExtParams(static_cast<uint16_t>(rows), length,
                                                    static_cast<uint32_t>(skipped), gap, 0),
                         AscendC::DataCopyPadExtParams<T>());
    return;
  }
  for (int32_t row = 0; row < rows; ++row) {
    AscendC::DataCopyPad(to[static_cast<uint32_t>(row * width)], from[row * pitch],
                         AscendC::DataCopyExtParams(1, length, 0, 0, 0),
                         AscendC::DataCopyPadExtParams<T>());
  }
}

// Up to 64 columns of every row in float; `one_row`: of one row for all rows.
template <typename T>
__aicore__ inline void RowsToFloat(const AscendC::LocalTensor<float>& to,
                                   const AscendC::LocalTensor<T>& from, uint64_t lanes,
                                   const PassRows& g, bool one_row = false) {
  const auto pitch = static_cast<uint8_t>(one_row ? 0 : g.width * sizeof(T) / kBlockBytes);
  const AscendC::UnaryRepeatParams strides(1, 1, g.pitch(), pitch);
  if constexpr (sizeof(T) == 4) {
    AscendC::Adds(to, from, 0.0f, lanes, g.repeats(), strides);
  } else {
    AscendC::Cast(to, from, AscendC::RoundMode::CAST_NONE, lanes, g.repeats(), strides);
  }
}

// A bit for each of `count` bytes of a mask, a multiple of 128: 1 where it is 0, which is where it
// does not mask. `values` holds as many halves.
__aicore__ inline void BitsOfZeros(const AscendC::LocalTensor<uint8_t>& bits,
                                   const AscendC::LocalTensor<half>& values,
                                   const AscendC::LocalTensor<uint8_t>& mask, uint32_t count) {
  AscendC::Cast(values, mask, AscendC::RoundMode::CAST_NONE, count);
  AscendC::PipeBarrier<PIPE_V>();
  AscendC::CompareScalar(bits, values, static_cast<half>(0.0f), AscendC::CMPMODE::EQ, count);
  AscendC::PipeBarrier<PIPE_V>();
}

// x *= factor, what means something of it.
__aicore__ inline void ScaleRows(const AscendC::LocalTensor<float>& x, float factor,
                                 const PassRows& g) {
  if (g.keys == g.width) {
    AscendC::Muls(x, x, factor, g.floats());
  } else {
    ForRepeats(g.keys, [&](uint32_t at, uint64_t lanes) __aicore__ {
      AscendC::Muls(x[at], x[at], factor, lanes, g.repeats(),
                    AscendC::UnaryRepeatParams(1, 1, g.pitch(), g.pitch()));
    });
  }
  AscendC::PipeBarrier<PIPE_V>();
}

// Fills every row beyond its last key.
__aicore__ inline void FillTail(const AscendC::LocalTensor<float>& x, float value,
                                const PassRows& g) {
  if (g.keys == g.width) return;
  const int32_t begin = g.width - kRepeatFloats;
  uint64_t lanes[2] = {~uint64_t{0} << (g.keys - begin), 0};
  AscendC::Duplicate(x[static_cast<uint32_t>(begin)], value, lanes, g.repeats(), 1, g.pitch());
  AscendC::PipeBarrier<PIPE_V>();
}

// The columns [begin, end) of `rows` rows of `width` columns, at most 2040.
template <typename V>
__aicore__ inline void FillColumns(const AscendC::LocalTensor<V>& x, V value, int64_t begin,
                                   int64_t end, int32_t rows, int32_t width) {
  static_assert(sizeof(V) == 4, "64 lanes of a repeat");
  constexpr int64_t kLanes = kRepeatFloats;
  if (begin >= end) return;
  for (int64_t at = begin / kLanes * kLanes; at < end; at += kLanes) {
    uint64_t lanes[2] = {~uint64_t{0}, 0};
    if (begin > at) lanes[0] &= ~uint64_t{0} << (begin - at);
    if (end - at < kLanes) lanes[0] &= ~(~uint64_t{0} << (end - at));
    AscendC::Duplicate(x[static_cast<uint32_t>(at)], value, lanes, static_cast<uint8_t>(rows), 1,
                       static_cast<uint8_t>(width / kBlockFloats));
  }
}

// x[row, :] = x[row, :] - y[row] or x[row, :] * y[row], y a data block for each row.
template <bool multiply>
__aicore__ inline void WithRowValue(const AscendC::LocalTensor<float>& x,
                                    const AscendC::LocalTensor<float>& y, int32_t rows,
                                    int32_t columns, int32_t pitch) {
  const auto blocks = static_cast<uint8_t>(pitch / kBlockFloats);
  const AscendC::BinaryRepeatParams strides(1, 1, 0, blocks, blocks, 1);
  ForRepeats(columns, [&](uint32_t at, uint64_t lanes) __aicore__ {
    if constexpr (multiply) {
      AscendC::Mul(x[at], x[at], y, lanes, static_cast<uint8_t>(rows), strides);
    } else {
      AscendC::Sub(x[at], x[at], y, lanes, static_cast<uint8_t>(rows), strides);
    }
  });
  AscendC::PipeBarrier<PIPE_V>();
}

// A data block of each of `rows` values, a multiple of 8.
__aicore__ inline void SpreadRows(const AscendC::LocalTensor<float>& to,
                                  const AscendC::LocalTensor<float>& from, int32_t rows) {
  AscendC::Brcb(to, from, static_cast<uint8_t>(rows / kRowMultiple),
                AscendC::BrcbRepeatParams(1, 8));
  AscendC::PipeBarrier<PIPE_V>();
}

// to[row] = the largest of a row or its sum. `folded` holds [rows, 64] and then [rows, 8] floats, a
// multiple of 8 rows of them, all of which held a value before.
template <bool maximum>
__aicore__ inline void ReduceRows(const AscendC::LocalTensor<float>& to,
                                  const AscendC::LocalTensor<float>& x,
                                  const AscendC::LocalTensor<float>& folded, int32_t folded_rows,
                                  const PassRows& g) {
  const auto fold = [&](const auto& sum, const auto& a, uint8_t pitch_a, uint32_t at) __aicore__ {
    const AscendC::BinaryRepeatParams strides(1, 1, 1, 8, pitch_a, g.pitch());
    if constexpr (maximum) {
      AscendC::Max(sum, a, x[at], kRepeatFloats, g.repeats(), strides);
    } else {
      AscendC::Add(sum, a, x[at], kRepeatFloats, g.repeats(), strides);
    }
    AscendC::PipeBarrier<PIPE_V>();
  };
  const auto reduce = [](const AscendC::LocalTensor<float>& a, const AscendC::LocalTensor<float>& b,
                         int32_t repeats, int32_t pitch) __aicore__ {
    if constexpr (maximum) {
      AscendC::BlockReduceMax(a, b, repeats, kRepeatFloats, 1, 1, pitch);
    } else {
      AscendC::BlockReduceSum(a, b, repeats, kRepeatFloats, 1, 1, pitch);
    }
    AscendC::PipeBarrier<PIPE_V>();
  };
  const auto parts = folded[static_cast<uint32_t>(folded_rows * kRepeatFloats)];
  if (g.width == kRepeatFloats) {
    reduce(parts, x, g.rows, g.pitch());
  } else if (g.width == kRepeatFloats * kBlockFloats) {
    // Eight columns in one, then eight of those: no instruction reads two sources, whose banks
    // meet.
    constexpr int32_t kMostRows = kMaxRepeats / kBlockFloats;
    for (int32_t row = 0; row < g.rows; row += kMostRows) {
      reduce(folded[static_cast<uint32_t>(row * kRepeatFloats)],
             x[static_cast<uint32_t>(row * g.width)],
             static_cast<int32_t>(Min(kMostRows, g.rows - row)) * kBlockFloats, kBlockFloats);
    }
    reduce(parts, folded, g.rows, kBlockFloats);
  } else {
    fold(folded, x, g.pitch(), kRepeatFloats);
    for (int32_t at = 2 * kRepeatFloats; at < g.width; at += kRepeatFloats)
      fold(folded, folded, 8, static_cast<uint32_t>(at));
    reduce(parts, folded, g.rows, 8);
  }
  reduce(to, parts, CeilDiv(g.rows, kRowMultiple), 8);
}

}  // namespace nsa::ascend
