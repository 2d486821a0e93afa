// Masks rows by their visible keys: scores become -infinity where a key is not to be seen.
#pragma once

#include "ascendc/attention/pass_buffers.h"
#include "ascendc/attention/pass_rows.h"

namespace nsa::ascend {

class RowMask {
 public:
  // `memory` holds RowMaskBytes(rows) bytes; `rows` is a multiple of 8.
  __aicore__ inline void Init(const AscendC::LocalTensor<float>& memory, int32_t rows) {
    rows_ = rows;
    columns_ = memory;
    bounds_ = memory[kStepKeys];
    blocks_ = bounds_[static_cast<uint32_t>(2 * rows)];
    bits_ = blocks_[static_cast<uint32_t>(2 * rows * kBlockFloats)].ReinterpretCast<uint8_t>();
    AscendC::CreateVecIndex(columns_, 0.0f, static_cast<uint32_t>(kStepKeys));
    // Bits of rows that a pass does not have are combined too.
    AscendC::Duplicate(bits_.ReinterpretCast<int16_t>(), static_cast<int16_t>(0), BitBytes(rows));
    AscendC::PipeBarrier<PIPE_V>();
  }

  // The columns 0, 1, ... of a step.
  __aicore__ inline AscendC::LocalTensor<float> Columns() const { return columns_; }

  // Rows row ... row + g.rows - 1 against keys key ... key + g.keys - 1.
  __aicore__ inline void Apply(const AscendC::LocalTensor<float>& scores,
                               const VisibleKeys& visible, int64_t row, int64_t key,
                               const PassRows& g) {
    const bool upper = visible.High(row) < key + g.keys;
    const bool lower = visible.Low(row + g.rows - 1) > key;
    if (!upper && !lower) return;
    // Outside of these columns all rows see everything.
    const auto begin =
        static_cast<int32_t>(lower ? 0 : Max(visible.High(row) - key, 0)) / kRepeatFloats;
    const int64_t hidden = Min(visible.Low(row + g.rows - 1) - key, g.width);
    const int32_t end = upper ? g.width : RoundUp(static_cast<int32_t>(hidden), kRepeatFloats);
    const Range columns{begin * kRepeatFloats, end};
    const auto starts = blocks_[static_cast<uint32_t>(rows_ * kBlockFloats)];
    if (upper) {
      SetBounds(blocks_, bounds_, g.rows,
                [&](int32_t i) __aicore__ { return visible.High(row + i) - key; });
    }
    if (lower) {
      SetBounds(starts, bounds_[static_cast<uint32_t>(rows_)], g.rows,
                [&](int32_t i) __aicore__ { return visible.Low(row + i) - key; });
    }
    AscendC::PipeBarrier<PIPE_V>();
    if (upper) Compare<AscendC::CMPMODE::LT>(bits_, blocks_, columns, g);
    const auto more = bits_[static_cast<uint32_t>(BitBytes(rows_))];
    if (lower) Compare<AscendC::CMPMODE::GE>(upper ? more : bits_, starts, columns, g);
    AscendC::PipeBarrier<PIPE_V>();
    if (upper && lower) {
      const int32_t words = static_cast<int32_t>(BitsAt(static_cast<uint32_t>(g.width), g)) / 2;
      AscendC::And(bits_.ReinterpretCast<uint16_t>(), bits_.ReinterpretCast<uint16_t>(),
                   more.ReinterpretCast<uint16_t>(), words);
      AscendC::PipeBarrier<PIPE_V>();
    }
    columns.ForEach([&](uint32_t at) __aicore__ {
      AscendC::Select(scores[at], bits_[BitsAt(at, g)], scores[at], -Infinity(),
                      AscendC::SELMODE::VSEL_TENSOR_SCALAR_MODE,
                      static_cast<uint64_t>(kRepeatFloats), g.repeats(),
                      AscendC::BinaryRepeatParams(1, 1, 1, g.pitch(), g.pitch(), 0));
    });
    AscendC::PipeBarrier<PIPE_V>();
  }

 private:
  // Whole repeats.
  struct Range {
    int32_t begin, end;

    template <typename Body>
    __aicore__ inline void ForEach(Body body) const {
      for (int32_t at = begin; at < end; at += kRepeatFloats) body(static_cast<uint32_t>(at));
    }
  };

  __aicore__ static constexpr int32_t BitBytes(int32_t rows) { return rows * kBitRowBytes; }
  // Eight bytes for each row, 64 columns after 64 columns.
  __aicore__ static inline uint32_t BitsAt(uint32_t column, const PassRows& g) {
    return column / kRepeatFloats * static_cast<uint32_t>(RoundUp(g.rows, 4)) * 8;
  }

  // blocks: bound(i) of each of `rows` rows, which is that of the row before or one more. So no
  // scalar has to be written to the UB: bounds that rise with every row are a ramp, and the others
  // lie in runs of equal ones.
  template <typename Bound>
  __aicore__ inline void SetBounds(const AscendC::LocalTensor<float>& blocks,
                                   const AscendC::LocalTensor<float>& bounds, int32_t rows,
                                   Bound bound) {
    const int64_t first = bound(0);
    if (rows > 1 && bound(rows - 1) - first == rows - 1) {
      const int32_t count = RoundUp(rows, kRowMultiple);
      AscendC::Adds(bounds, columns_, static_cast<float>(first), count);
      AscendC::PipeBarrier<PIPE_V>();
      AscendC::Brcb(blocks, bounds, static_cast<uint8_t>(count / kRowMultiple),
                    AscendC::BrcbRepeatParams(1, 8));
      return;
    }
    for (int32_t row = 0, end = 0; row < rows; row = end) {
      const int64_t here = bound(row);
      for (end = row + 1; end < rows && bound(end) == here;) ++end;
      AscendC::Duplicate(blocks[static_cast<uint32_t>(row * kBlockFloats)],
                         static_cast<float>(here), (end - row) * kBlockFloats);
    }
  }

  template <AscendC::CMPMODE mode>
  __aicore__ inline void Compare(const AscendC::LocalTensor<uint8_t>& bits,
                                 const AscendC::LocalTensor<float>& bounds, const Range& columns,
                                 const PassRows& g) {
    columns.ForEach([&](uint32_t at) __aicore__ {
      AscendC::Compare(bits[BitsAt(at, g)], columns_[at], bounds, mode,
                       static_cast<uint64_t>(kRepeatFloats), g.repeats(),
                       AscendC::BinaryRepeatParams(1, 1, 0, 8, 0, 1));
    });
  }

  int32_t rows_ = 0;
  AscendC::LocalTensor<float> columns_;  // 0, 1, ...
  AscendC::LocalTensor<float> bounds_;   // ends, then starts, of the rows of a pass
  AscendC::LocalTensor<float> blocks_;   // the same, a data block each
  AscendC::LocalTensor<uint8_t> bits_;   // 1: to be seen; twice
};

}  // namespace nsa::ascend
