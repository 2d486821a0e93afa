// Masks rows by their visible keys: scores become -infinity where a key is not to be seen.
#pragma once

#include "ascendc/attention/group_buffers.h"
#include "ascendc/attention/row_group.h"
#include "ascendc/common/pipe_order.h"

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
    AscendC::Duplicate(bounds_, 0.0f, 2 * rows);
    // Bits of rows that a group does not have are combined too.
    AscendC::Duplicate(bits_.ReinterpretCast<int16_t>(), static_cast<int16_t>(0), BitBytes(rows));
    AscendC::PipeBarrier<PIPE_V>();
  }

  // The columns 0, 1, ... of a step.
  __aicore__ inline AscendC::LocalTensor<float> Columns() const { return columns_; }

  // Rows row ... row + g.rows - 1 against keys key ... key + g.keys - 1; what a row does not see
  // becomes `hidden`. `heads` rows in a row are of one query.
  __aicore__ inline void Apply(const AscendC::LocalTensor<float>& scores,
                               const VisibleKeys& visible, int64_t row, int64_t key,
                               const RowGroup& g, int64_t heads = 1, float hidden = -Infinity()) {
    const bool upper = visible.High(row / heads) < key + g.keys;
    const bool lower = visible.Low((row + g.rows - 1) / heads) > key;
    if (!upper && !lower) return;
    if (row / heads == (row + g.rows - 1) / heads) {
      BoundsOfQuery(visible, row / heads, key);
    } else {
      BoundsOfRows(visible, row, key, g.rows, heads, upper, lower);
    }
    if (upper) Compare<AscendC::CMPMODE::LT>(bits_, blocks_, g);
    const auto more = bits_[static_cast<uint32_t>(BitBytes(rows_))];
    if (lower) {
      const auto low = blocks_[static_cast<uint32_t>(rows_ * kBlockFloats)];
      Compare<AscendC::CMPMODE::GE>(upper ? more : bits_, low, g);
    }
    AscendC::PipeBarrier<PIPE_V>();
    if (upper && lower) {
      const int32_t words = static_cast<int32_t>(BitsAt(static_cast<uint32_t>(g.width), g)) / 2;
      AscendC::And(bits_.ReinterpretCast<uint16_t>(), bits_.ReinterpretCast<uint16_t>(),
                   more.ReinterpretCast<uint16_t>(), words);
      AscendC::PipeBarrier<PIPE_V>();
    }
    ForRepeats(g.width, [&](uint32_t at, uint64_t lanes) {
      AscendC::Select(scores[at], bits_[BitsAt(at, g)], scores[at], hidden,
                      AscendC::SELMODE::VSEL_TENSOR_SCALAR_MODE, lanes, g.repeats(),
                      AscendC::BinaryRepeatParams(1, 1, 1, g.pitch(), g.pitch(), 0));
    });
    AscendC::PipeBarrier<PIPE_V>();
  }

 private:
  __aicore__ static constexpr int32_t BitBytes(int32_t rows) { return rows * kBitRowBytes; }
  // Eight bytes for each row, 64 columns after 64 columns.
  __aicore__ static inline uint32_t BitsAt(uint32_t column, const RowGroup& g) {
    return column / kRepeatFloats * static_cast<uint32_t>(RoundUp(g.rows, 4)) * 8;
  }
  __aicore__ static inline float Column(int64_t column) {
    return static_cast<float>(Min(Max(column, 0), kStepKeys));
  }

  // All rows are of one query: no scalar has to be written to the UB.
  __aicore__ inline void BoundsOfQuery(const VisibleKeys& visible, int64_t query, int64_t key) {
    const int32_t floats = rows_ * kBlockFloats;
    AscendC::Duplicate(blocks_, Column(visible.High(query) - key), floats);
    AscendC::Duplicate(blocks_[static_cast<uint32_t>(floats)], Column(visible.Low(query) - key),
                       floats);
    AscendC::PipeBarrier<PIPE_V>();
  }
  __aicore__ inline void BoundsOfRows(const VisibleKeys& visible, int64_t row, int64_t key,
                                      int32_t rows, int64_t heads, bool upper, bool lower) {
    Order<AscendC::HardEvent::V_S>();
    for (int32_t i = 0; i < rows; ++i) {
      const int64_t query = (row + i) / heads;
      if (upper) bounds_.SetValue(static_cast<uint32_t>(i), Column(visible.High(query) - key));
      if (lower)
        bounds_.SetValue(static_cast<uint32_t>(rows_ + i), Column(visible.Low(query) - key));
    }
    Order<AscendC::HardEvent::S_V>();
    SpreadRows(blocks_, bounds_, 2 * rows_);
  }

  template <AscendC::CMPMODE mode>
  __aicore__ inline void Compare(const AscendC::LocalTensor<uint8_t>& bits,
                                 const AscendC::LocalTensor<float>& bounds, const RowGroup& g) {
    ForRepeats(g.width, [&](uint32_t at, uint64_t lanes) {
      AscendC::Compare(bits[BitsAt(at, g)], columns_[at], bounds, mode, lanes, g.repeats(),
                       AscendC::BinaryRepeatParams(1, 1, 0, 8, 0, 1));
    });
  }

  int32_t rows_ = 0;
  AscendC::LocalTensor<float> columns_;  // 0, 1, ...
  AscendC::LocalTensor<float> bounds_;   // ends, then starts, of the rows of a group
  AscendC::LocalTensor<float> blocks_;   // the same, a data block each
  AscendC::LocalTensor<uint8_t> bits_;   // 1: to be seen; twice
};

}  // namespace nsa::ascend
