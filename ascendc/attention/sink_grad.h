// The gradient of the sinks: for every head -sum over its rows of exp(sink - max) / sum * Dvec.
#pragma once

#include "ascendc/attention/attention_tiling.h"
#include "ascendc/attention/pass_rows.h"
#include "ascendc/common/pipe_order.h"

namespace nsa::ascend {

// A head is one vector core's, which adds its rows in their order.
class SinkGrad {
 public:
  static constexpr int32_t kRows = 2048;  // at a time
  // Their maximum, sum, Dvec, and the sum so far.
  static constexpr uint32_t kBytes = 4 * kRows * 4;

  // The maximum, the sum and Dvec, `floats` of each, lie as `strides` say, those of a head in a
  // row; `memory` holds kBytes bytes.
  __aicore__ inline void Run(const WorkTiling& work, const TensorStrides& strides,
                             const AscendC::GlobalTensor<float>& statistics, int64_t floats,
                             GM_ADDR sink, GM_ADDR sink_grad,
                             const AscendC::LocalTensor<float>& memory) {
    AscendC::GlobalTensor<float> sinks, grads;
    sinks.SetGlobalBuffer(reinterpret_cast<__gm__ float*>(sink));
    grads.SetGlobalBuffer(reinterpret_cast<__gm__ float*>(sink_grad));
    const int64_t cores = AscendC::GetBlockNum() * AscendC::GetTaskRation();
    const int64_t batch = work.packed != 0 ? 1 : work.segments;
    const auto total = memory[3 * kFloats];
    for (int64_t head = AscendC::GetBlockIdx(); head < work.heads; head += cores) {
      const float value = sinks.GetValue(static_cast<uint64_t>(head));
      AscendC::Duplicate(total, 0.0f, kFloats);
      AscendC::PipeBarrier<PIPE_V>();
      for (int64_t b = 0; b < batch; ++b) {
        for (int64_t row = 0; row < work.queries; row += kRows) {
          const int64_t at = b * strides.batch + row + head * strides.head;
          const auto rows = static_cast<int32_t>(Min(kRows, work.queries - row));
          Order<AscendC::HardEvent::V_MTE2>();
          CopyRowsIn(memory, statistics[at], floats, 3, rows, kRows);
          Order<AscendC::HardEvent::MTE2_V>();
          AddRows(memory, value, rows);
        }
      }
      Store(grads, head, memory);
    }
  }

 private:
  static constexpr uint32_t kFloats = kRows;

  __aicore__ inline static void AddRows(const AscendC::LocalTensor<float>& memory, float sink,
                                        int32_t count) {
    const auto max = memory, sum = memory[kFloats], row_sum = memory[2 * kFloats];
    const auto total = memory[3 * kFloats];
    AscendC::Muls(max, max, -1.0f, count);
    AscendC::PipeBarrier<PIPE_V>();
    AscendC::Adds(max, max, sink, count);
    AscendC::PipeBarrier<PIPE_V>();
    AscendC::Exp(max, max, count);
    AscendC::PipeBarrier<PIPE_V>();
    AscendC::Div(max, max, sum, count);
    AscendC::PipeBarrier<PIPE_V>();
    AscendC::Mul(max, max, row_sum, count);
    AscendC::PipeBarrier<PIPE_V>();
    AscendC::Add(total, total, max, count);
    AscendC::PipeBarrier<PIPE_V>();
  }

  __aicore__ inline static void Store(const AscendC::GlobalTensor<float>& grads, int64_t head,
                                      const AscendC::LocalTensor<float>& memory) {
    const auto total = memory[3 * kFloats];
    for (uint32_t half = kFloats / 2; half >= kRepeatFloats; half /= 2) {
      AscendC::Add(total, total, total[half], static_cast<int32_t>(half));
      AscendC::PipeBarrier<PIPE_V>();
    }
    Order<AscendC::HardEvent::MTE3_V>();
    AscendC::WholeReduceSum(memory, total, kRepeatFloats, 1, 1, 1, 8);
    AscendC::PipeBarrier<PIPE_V>();
    AscendC::Muls(memory, memory, -1.0f, 1);
    Order<AscendC::HardEvent::V_MTE3>();
    AscendC::DataCopyPad(grads[head], memory,
                         AscendC::DataCopyExtParams(1, sizeof(float), 0, 0, 0));
    // The memory is filled anew for the next head.
    Order<AscendC::HardEvent::MTE3_MTE2>();
    Order<AscendC::HardEvent::MTE3_V>();
  }
};

}  // namespace nsa::ascend
