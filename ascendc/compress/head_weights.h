// The weight [l, N] of a head tile in the form in which a vector instruction multiplies rows by it.
#pragma once

#include "ascendc/common/pipe_order.h"
#include "ascendc/compress/compress_shape.h"
#include "kernel_operator.h"

namespace nsa::ascend {

// Every weight in all eight lanes of a data block: with a block stride of 0 such a block multiplies
// a whole repeat, so one instruction weighs the rows of many heads.
template <typename T>
class HeadWeights {
 public:
  __aicore__ inline void Init(AscendC::TPipe* pipe, GM_ADDR weight, int32_t block_size,
                              int32_t heads, int32_t tile_heads) {
    weight_.SetGlobalBuffer(reinterpret_cast<__gm__ T*>(weight),
                            static_cast<uint64_t>(block_size) * heads);
    block_size_ = block_size;
    heads_ = heads;
    pipe->InitBuffer(raw_, RawWeightBytes(block_size, tile_heads));
    pipe->InitBuffer(spread_, WeightBytes(block_size, tile_heads));
  }

  // `scratch`: WeightScratchBytes(heads). The heads are first_head ... first_head + heads - 1.
  __aicore__ inline void Load(int32_t first_head, int32_t heads,
                              AscendC::LocalTensor<float> scratch) {
    const int32_t padded = PaddedWeightHeads(heads);
    const int32_t row_bytes = heads * static_cast<int32_t>(sizeof(T));
    tile_heads_ = heads;
    AscendC::LocalTensor<T> raw = raw_.template Get<T>();                       // [l, padded]
    AscendC::LocalTensor<float> spread = spread_.template Get<float>();         // [l, heads, 8]
    const AscendC::LocalTensor<float> values = scratch;                         // [16, padded]
    const AscendC::LocalTensor<float> blocks = scratch[kSliceTokens * padded];  // [16, padded, 8]

    Order<AscendC::HardEvent::V_MTE2>();
    const AscendC::DataCopyExtParams rows(
        static_cast<uint16_t>(block_size_), static_cast<uint32_t>(row_bytes),
        static_cast<uint32_t>((heads_ - heads) * sizeof(T)), 0, 0);
    AscendC::DataCopyPadExtParams<T> padding;
    padding.isPad = true;
    padding.rightPadding = static_cast<uint8_t>(padded - heads);
    AscendC::DataCopyPad(raw, weight_[first_head], rows, padding);
    Order<AscendC::HardEvent::MTE2_V>();

    for (int32_t row = 0; row < block_size_; row += kSliceTokens) {
      AscendC::Cast(values, raw[row * padded], AscendC::RoundMode::CAST_NONE,
                    kSliceTokens * padded);
      AscendC::PipeBarrier<PIPE_V>();
      AscendC::Brcb(blocks, values, static_cast<uint8_t>(kSliceTokens * padded / kBlockFloats),
                    AscendC::BrcbRepeatParams(1, kBlockFloats));
      AscendC::PipeBarrier<PIPE_V>();
      // The padding of every row is left behind.
      AscendC::DataCopy(spread[row * heads * kBlockFloats], blocks,
                        AscendC::DataCopyParams(kSliceTokens, static_cast<uint16_t>(heads),
                                                static_cast<uint16_t>(padded - heads), 0));
      AscendC::PipeBarrier<PIPE_V>();
    }
  }

  // [16, heads, 8]: the rows that weigh a slice which is the `slice`-th of its window.
  __aicore__ inline AscendC::LocalTensor<float> Rows(int64_t slice) {
    return spread_.template Get<float>()[slice * kSliceTokens * tile_heads_ * kBlockFloats];
  }

 private:
  AscendC::GlobalTensor<T> weight_;
  AscendC::TBuf<AscendC::TPosition::VECIN> raw_;
  AscendC::TBuf<AscendC::TPosition::VECCALC> spread_;
  int32_t block_size_ = 0, heads_ = 0, tile_heads_ = 0;
};

}  // namespace nsa::ascend
