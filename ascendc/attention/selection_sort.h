// Sorts the block indices of every query into the lists of selection.h, on the vector cores.
#pragma once

#include "ascendc/attention/selection.h"
#include "ascendc/common/pipe_order.h"

namespace nsa::ascend {

class SelectionSort {
 public:
  // This core's share of the lists; `memory` holds kSortBytes.
  __aicore__ inline void Run(GM_ADDR indices, GM_ADDR lists, const SelectionTiling& selection,
                             const AscendC::LocalTensor<float>& memory) {
    constexpr uint32_t kFloats = kSortRows * kMostSelected;
    count_ = static_cast<int32_t>(selection.block_count);
    from_.SetGlobalBuffer(reinterpret_cast<__gm__ int32_t*>(indices));
    to_.SetGlobalBuffer(reinterpret_cast<__gm__ int32_t*>(lists));
    raw_ = memory.ReinterpretCast<int32_t>();
    values_ = memory[kFloats];
    pairs_ = memory[2 * kFloats];
    bits_ = memory[4 * kFloats].ReinterpretCast<uint8_t>();
    const int64_t cores = AscendC::GetBlockNum() * AscendC::GetTaskRation();
    const int64_t core = AscendC::GetBlockIdx();
    const int64_t end = selection.rows * (core + 1) / cores;
    for (int64_t row = selection.rows * core / cores; row < end; row += kSortRows)
      Sort(row, static_cast<int32_t>(Min(kSortRows, end - row)));
  }

 private:
  __aicore__ inline void Load(int64_t row, int32_t rows) {
    const int32_t padded = RoundUp(count_, kBlockFloats);
    AscendC::Duplicate(raw_, -1, RoundUp(rows, 2) * kMostSelected);
    Order<AscendC::HardEvent::V_MTE2>();
    AscendC::DataCopyPad(
        raw_, from_[row * count_],
        AscendC::DataCopyExtParams(static_cast<uint16_t>(rows), static_cast<uint32_t>(count_ * 4),
                                   0, static_cast<uint32_t>(kMostSelected - padded) / kBlockFloats,
                                   0),
        AscendC::DataCopyPadExtParams<int32_t>(true, 0, static_cast<uint8_t>(padded - count_), -1));
    Order<AscendC::HardEvent::MTE2_V>();
  }

  __aicore__ inline void Sort(int64_t row, int32_t rows) {
    // Bits come in repeats of two lists.
    const int32_t count = RoundUp(rows, 2) * kMostSelected;
    Load(row, rows);
    AscendC::Cast(values_, raw_, AscendC::RoundMode::CAST_RINT, static_cast<uint32_t>(count));
    AscendC::PipeBarrier<PIPE_V>();
    AscendC::CompareScalar(bits_, values_, 0.0f, AscendC::CMPMODE::GE,
                           static_cast<uint32_t>(count));
    AscendC::PipeBarrier<PIPE_V>();
    AscendC::Select(values_, bits_, values_, static_cast<float>(kNoBlock),
                    AscendC::SELMODE::VSEL_TENSOR_SCALAR_MODE, static_cast<uint32_t>(count));
    AscendC::PipeBarrier<PIPE_V>();
    // The instruction puts the largest first.
    AscendC::Muls(values_, values_, -1.0f, count);
    AscendC::PipeBarrier<PIPE_V>();
    AscendC::Sort32(pairs_, values_, raw_.ReinterpretCast<uint32_t>(), count / kMostSelected);
    AscendC::PipeBarrier<PIPE_V>();
    uint64_t kept = 0;
    constexpr uint8_t kEvenOnes = 1;
    AscendC::GatherMask(values_, pairs_, kEvenOnes, true, static_cast<uint32_t>(2 * count),
                        AscendC::GatherMaskParams(1, 1, 0, 0), kept);
    AscendC::PipeBarrier<PIPE_V>();
    AscendC::Muls(values_, values_, -1.0f, count);
    AscendC::PipeBarrier<PIPE_V>();
    AscendC::Cast(raw_, values_, AscendC::RoundMode::CAST_RINT, static_cast<uint32_t>(count));
    Order<AscendC::HardEvent::V_MTE3>();
    AscendC::DataCopy(to_[row * kMostSelected], raw_, static_cast<uint32_t>(rows * kMostSelected));
    Order<AscendC::HardEvent::MTE3_V>();
  }

  int32_t count_ = 0;
  AscendC::GlobalTensor<int32_t> from_, to_;
  AscendC::LocalTensor<int32_t> raw_;   // [rows, 32]
  AscendC::LocalTensor<float> values_;  // [rows, 32]
  AscendC::LocalTensor<float> pairs_;   // [rows, 32, 2]
  AscendC::LocalTensor<uint8_t> bits_;
};

}  // namespace nsa::ascend
