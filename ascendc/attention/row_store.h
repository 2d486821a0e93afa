// The end of a softmax: rows divided by their sums, rounded and stored.
#pragma once

#include "ascendc/attention/pass_rows.h"

namespace nsa::ascend {

// Sums of rows that saw nothing, which are 0, become FLT_MAX. `sums`: a data block for each of
// `rows`, a multiple of 8; `bits` holds `rows` bytes.
__aicore__ inline void MarkEmptyRows(const AscendC::LocalTensor<float>& sums,
                                     const AscendC::LocalTensor<uint8_t>& bits, int32_t rows) {
  const auto count = static_cast<uint32_t>(rows * kBlockFloats);
  AscendC::CompareScalar(bits, sums, 0.0f, AscendC::CMPMODE::NE, count);
  AscendC::PipeBarrier<PIPE_V>();
  AscendC::Select(sums, bits, sums, -kLowest, AscendC::SELMODE::VSEL_TENSOR_SCALAR_MODE, count);
  AscendC::PipeBarrier<PIPE_V>();
}

// x[row, :] /= sums[row]
__aicore__ inline void DivideRows(const AscendC::LocalTensor<float>& x,
                                  const AscendC::LocalTensor<float>& sums, int32_t rows,
                                  int32_t columns) {
  const auto pitch = static_cast<uint8_t>(columns / kBlockFloats);
  ForRepeats(columns, [&](uint32_t at, uint64_t lanes) __aicore__ {
    AscendC::Div(x[at], x[at], sums, lanes, static_cast<uint8_t>(rows),
                 AscendC::BinaryRepeatParams(1, 1, 0, pitch, pitch, 1));
  });
  AscendC::PipeBarrier<PIPE_V>();
}

// In the data type of the output.
template <typename T>
__aicore__ inline void RoundRows(const AscendC::LocalTensor<T>& to,
                                 const AscendC::LocalTensor<float>& from, int32_t count) {
  if constexpr (sizeof(T) == 4) {
    AscendC::Adds(to, from, 0.0f, count);
  } else {
    AscendC::Cast(to, from, AscendC::RoundMode::CAST_RINT, count);
  }
  AscendC::PipeBarrier<PIPE_V>();
}

// [rows, columns] of rows of `width` elements, whole data blocks, to rows `pitch` elements apart.
template <typename T>
__aicore__ inline void CopyRowsOut(const AscendC::GlobalTensor<T>& to, int64_t pitch,
                                   const AscendC::LocalTensor<T>& from, int32_t rows,
                                   int32_t columns, int32_t width) {
  constexpr int64_t kMostGap = 0xffffffff;
  constexpr auto kBytes = static_cast<uint32_t>(sizeof(T));
  const uint32_t length = static_cast<uint32_t>(columns) * kBytes;
  const uint32_t blocks = static_cast<uint32_t>(width) * kBytes / kBlockBytes;
  const uint32_t skipped = blocks - (length + kBlockBytes - 1) / kBlockBytes;
  const int64_t gap = rows > 1 ? (pitch - columns) * kBytes : 0;
  if (gap <= kMostGap) {
    AscendC::DataCopyPad(to, from,
                         AscendC::DataCopyExtParams(static_cast<uint16_t>(rows), length, skipped,
                                                    static_cast<uint32_t>(gap), 0));
    return;
  }
  for (int32_t row = 0; row < rows; ++row) {
    AscendC::DataCopyPad(to[row * pitch], from[static_cast<uint32_t>(row * width)],
                         AscendC::DataCopyExtParams(1, length, 0, 0, 0));
  }
}

// A data block for each row, to blocks `pitch` floats apart.
__aicore__ inline void CopyStatisticsOut(const AscendC::GlobalTensor<float>& to, int64_t pitch,
                                         const AscendC::LocalTensor<float>& from, int32_t rows) {
  AscendC::DataCopy(to, from,
                    AscendC::DataCopyParams(static_cast<uint16_t>(rows), 1, 0,
                                            static_cast<uint16_t>(pitch / kBlockFloats - 1)));
}

}  // namespace nsa::ascend
