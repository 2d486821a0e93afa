// weightGrad[j, h] = sum over the chunks of partial[chunk, j, h]
#pragma once

#include "ascendc/common/pipe_order.h"
#include "ascendc/compress/sum_rows.h"
#include "ascendc/nsa_compress_grad/op_kernel/nsa_compress_grad_tiling.h"

namespace nsa::ascend {

// Second phase of NsaCompressGrad, after all cores have written their partial sums. The additions
// are the same for any number of cores: 16 chunks by halving, then one such sum after the other.
template <typename T>
class WeightGradSum {
 public:
  __aicore__ inline void Init(AscendC::TPipe* pipe, GM_ADDR partial, GM_ADDR weight_grad,
                              const NsaCompressGradTilingData& tiling) {
    chunks_ = tiling.chunks;
    size_ = tiling.block_size * tiling.heads;
    partial_.SetGlobalBuffer(reinterpret_cast<__gm__ float*>(partial),
                             static_cast<int64_t>(chunks_) * size_);
    weight_grad_.SetGlobalBuffer(reinterpret_cast<__gm__ T*>(weight_grad), size_);
    pipe->InitBuffer(rows_in_, 2, kSliceTokens * kSumColumns * sizeof(float));
    pipe->InitBuffer(sum_, kSumColumns * sizeof(float));
    pipe->InitBuffer(sum_out_, 2, kSumColumns * sizeof(T));
  }

  // The columns of a core come in blocks of 16, one data block of the result: l * N is a multiple.
  __aicore__ inline void Process() {
    const int64_t core = AscendC::GetBlockIdx();
    const int64_t cores = AscendC::GetBlockNum();
    const int64_t blocks = size_ / kSliceTokens;
    const int64_t end = ShareBegin(blocks, core + 1, cores) * kSliceTokens;
    for (int64_t column = ShareBegin(blocks, core, cores) * kSliceTokens; column < end;
         column += kSumColumns) {
      SumColumns(static_cast<int32_t>(column),
                 static_cast<int32_t>(Min(kSumColumns, end - column)));
    }
  }

 private:
  __aicore__ inline int32_t Rows(int32_t chunk) const {
    return static_cast<int32_t>(Min(kSliceTokens, chunks_ - chunk));
  }

  __aicore__ inline void Load(int32_t chunk, int32_t column, int32_t columns) {
    AscendC::LocalTensor<float> rows = rows_in_.AllocTensor<float>();
    AscendC::DataCopy(
        rows, partial_[static_cast<int64_t>(chunk) * size_ + column],
        AscendC::DataCopyParams(static_cast<uint16_t>(Rows(chunk)),
                                static_cast<uint16_t>(columns / kBlockFloats),
                                static_cast<uint16_t>((size_ - columns) / kBlockFloats), 0));
    rows_in_.EnQue(rows);
  }

  __aicore__ inline void SumColumns(int32_t column, int32_t columns) {
    const AscendC::LocalTensor<float> sum = sum_.Get<float>();
    AscendC::Duplicate(sum, 0.0f, columns);
    if (chunks_ > 0) Load(0, column, columns);
    for (int32_t chunk = 0; chunk < chunks_; chunk += kSliceTokens) {
      if (chunk + kSliceTokens < chunks_) Load(chunk + kSliceTokens, column, columns);
      AscendC::LocalTensor<float> rows = rows_in_.DeQue<float>();  // [16, columns]
      const int32_t loaded = Rows(chunk) * columns;
      if (loaded < kSliceTokens * columns) {
        AscendC::Duplicate(rows[loaded], 0.0f, kSliceTokens * columns - loaded);
      }
      AscendC::PipeBarrier<PIPE_V>();
      FoldToTwo(rows, columns);
      AscendC::Add(rows, rows, rows[columns], columns);
      AscendC::PipeBarrier<PIPE_V>();
      AscendC::Add(sum, sum, rows, columns);
      AscendC::PipeBarrier<PIPE_V>();
      rows_in_.FreeTensor(rows);
    }
    AscendC::PipeBarrier<PIPE_V>();
    AscendC::LocalTensor<T> result = sum_out_.template AllocTensor<T>();
    AscendC::Cast(result, sum, AscendC::RoundMode::CAST_RINT, columns);
    AscendC::PipeBarrier<PIPE_V>();
    sum_out_.EnQue(result);
    result = sum_out_.template DeQue<T>();
    AscendC::DataCopy(weight_grad_[column], result, static_cast<uint32_t>(columns));
    sum_out_.FreeTensor(result);
  }

  int32_t chunks_ = 0;
  int32_t size_ = 0;                      // l * N
  AscendC::GlobalTensor<float> partial_;  // [chunks, l * N]
  AscendC::GlobalTensor<T> weight_grad_;  // [l * N]
  AscendC::TQue<AscendC::TPosition::VECIN, 2> rows_in_;
  AscendC::TQue<AscendC::TPosition::VECOUT, 2> sum_out_;
  AscendC::TBuf<AscendC::TPosition::VECCALC> sum_;
};

}  // namespace nsa::ascend
