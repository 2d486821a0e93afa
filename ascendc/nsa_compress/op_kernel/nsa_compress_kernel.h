// output[row(b, i), h, :] = sum_{j<l} weight[j, h] * input[c_b + i*s + j, h, :]
#pragma once

#include "ascendc/common/zero_fill.h"
#include "ascendc/compress/head_weights.h"
#include "ascendc/compress/sum_rows.h"
#include "ascendc/nsa_compress/op_kernel/nsa_compress_steps.h"

namespace nsa::ascend {

// A core walks its tokens once, a few slices of 16 at a time, and keeps the sums of the windows
// that are open. The next step is on its way while one is summed.
template <typename T>
class NsaCompressKernel {
 public:
  __aicore__ inline void Init(AscendC::TPipe* pipe, GM_ADDR input, GM_ADDR weight,
                              GM_ADDR act_seq_len, GM_ADDR output,
                              const NsaCompressTilingData* tiling) {
    t_ = tiling;
    shape_ = ShapeOf(*t_);
    core_ = static_cast<int32_t>(AscendC::GetBlockIdx());
    const int64_t row = RowSize(*t_);
    input_.SetGlobalBuffer(reinterpret_cast<__gm__ T*>(input), t_->tokens * row);
    output_.SetGlobalBuffer(reinterpret_cast<__gm__ T*>(output), t_->rows * row);
    const NsaCompressBuffers bytes(t_->block_size, t_->stride, t_->tile_heads, t_->dim,
                                   t_->step_slices);
    // First, and so at multiples of 512 bytes, which fixes the banks that they lie in.
    pipe->InitBuffer(slice_, bytes.slice);
    pipe->InitBuffer(sums_, bytes.sums);
    pipe->InitBuffer(products_, bytes.products);
    pipe->InitBuffer(steps_in_, 2, bytes.step);
    pipe->InitBuffer(rows_out_, 2, bytes.row);
    weights_.Init(pipe, weight, t_->block_size, t_->heads, t_->tile_heads);
    steps_.Init(act_seq_len, *t_, core_);
  }

  __aicore__ inline void Process() {
    NsaCompressStep step{}, next{};
    bool more = steps_.Next(&next);
    if (more) Load(next);
    while (more) {
      step = next;
      more = steps_.Next(&next);
      if (more) Load(next);
      Sum(step);
    }
    ClearRowsPastTheWindows();
  }

 private:
  __aicore__ inline void Load(const NsaCompressStep& step) {
    const int32_t heads = HeadsOfTile(*t_, step.tile);
    const int32_t head_blocks = t_->dim * static_cast<int32_t>(sizeof(T)) / kBlockBytes;
    AscendC::LocalTensor<T> x = steps_in_.template AllocTensor<T>();
    AscendC::DataCopy(
        x, input_[OffsetOf(*t_, step.token, step.tile)],
        AscendC::DataCopyParams(static_cast<uint16_t>(step.slices * kSliceTokens),
                                static_cast<uint16_t>(heads * head_blocks),
                                static_cast<uint16_t>((t_->heads - heads) * head_blocks), 0));
    steps_in_.EnQue(x);
  }

  __aicore__ inline void Sum(const NsaCompressStep& step) {
    const int32_t heads = HeadsOfTile(*t_, step.tile);
    if (step.tile != weights_tile_) {
      weights_.Load(step.tile * t_->tile_heads, heads, Products());
      weights_tile_ = step.tile;
    }
    const int32_t columns = heads * t_->dim;
    AscendC::LocalTensor<T> x = steps_in_.template DeQue<T>();         // [slices * 16, columns]
    AscendC::LocalTensor<float> slice = slice_.template Get<float>();  // [16, columns]
    for (int32_t i = 0; i < step.slices; ++i) {
      const int32_t values = kSliceTokens * columns;
      AscendC::Cast(slice, x[i * values], AscendC::RoundMode::CAST_NONE, values);
      AscendC::PipeBarrier<PIPE_V>();
      AddToOpenWindows(step, step.slice + i, heads);
    }
    steps_in_.FreeTensor(x);
  }

  __aicore__ inline void AddToOpenWindows(const NsaCompressStep& step, int64_t slice,
                                          int32_t heads) {
    const int32_t columns = heads * t_->dim;
    const int64_t open = CeilDiv(shape_.block, shape_.stride);
    AscendC::LocalTensor<float> products = Products();
    const int64_t last = shape_.LastOver(slice, step.window_end);
    for (int64_t i = Max(step.window_begin, shape_.FirstOver(slice)); i <= last; ++i) {
      const int64_t within = slice - i * shape_.stride;  // which slice of the window this is
      AscendC::LocalTensor<float> sum = sums_.template Get<float>()[i % open * columns];
      Weigh(products, weights_.Rows(within), heads);
      FoldToTwo(products, columns);
      if (within == 0) {
        AscendC::Add(sum, products, products[columns], columns);
      } else {
        AscendC::Add(products, products, products[columns], columns);
        AscendC::PipeBarrier<PIPE_V>();
        AscendC::Add(sum, sum, products, columns);
      }
      AscendC::PipeBarrier<PIPE_V>();
      if (within == shape_.block - 1) Store(sum, OffsetOf(*t_, step.row + i, step.tile), columns);
    }
  }

  // [16, columns], half a round of the banks after slice_ and sums_: a repeat then reads and writes
  // different banks, and reads its two sources from different ones.
  __aicore__ inline AscendC::LocalTensor<float> Products() {
    return products_.template Get<float>()[kHalfRound / sizeof(float)];
  }

  // products[t, h, :] = slice[t, h, :] * weight[t, h]. Token and head are one index: that of the
  // repeats.
  __aicore__ inline void Weigh(const AscendC::LocalTensor<float>& products,
                               const AscendC::LocalTensor<float>& weights, int32_t heads) {
    const AscendC::LocalTensor<float> slice = slice_.template Get<float>();
    const uint8_t pitch = static_cast<uint8_t>(t_->dim / kBlockFloats);
    const int32_t rows = kSliceTokens * heads;
    for (int32_t row = 0; row < rows; row += kMaxRepeats) {
      const uint8_t repeats = static_cast<uint8_t>(Min(kMaxRepeats, rows - row));
      for (int32_t d = 0; d < t_->dim; d += kRepeatFloats) {
        const uint64_t lanes = static_cast<uint64_t>(Min(kRepeatFloats, t_->dim - d));
        const int32_t at = row * t_->dim + d;
        AscendC::Mul(products[at], slice[at], weights[row * kBlockFloats], lanes, repeats,
                     AscendC::BinaryRepeatParams(1, 1, 0, pitch, pitch, 1));
      }
    }
    AscendC::PipeBarrier<PIPE_V>();
  }

  __aicore__ inline void Store(const AscendC::LocalTensor<float>& sum, int64_t offset,
                               int32_t columns) {
    AscendC::LocalTensor<T> row = rows_out_.template AllocTensor<T>();
    AscendC::Cast(row, sum, AscendC::RoundMode::CAST_RINT, columns);
    rows_out_.EnQue(row);
    row = rows_out_.template DeQue<T>();
    AscendC::DataCopy(output_[offset], row, static_cast<uint32_t>(columns));
    rows_out_.FreeTensor(row);
  }

  // Every core clears its share of the rows that no window fills.
  __aicore__ inline void ClearRowsPastTheWindows() {
    const int64_t spare = t_->rows - t_->windows;
    const int64_t cores = AscendC::GetBlockNum();
    const int64_t begin = spare * core_ / cores;
    const int64_t end = spare * (core_ + 1) / cores;
    if (begin == end) return;
    const int64_t row = RowSize(*t_);
    ZeroFill<T> zeros;
    zeros.Start(slice_.template Get<T>(), kSliceTokens * t_->tile_heads * t_->dim);
    zeros.Fill(output_, (t_->windows + begin) * row, (end - begin) * row);
    zeros.Finish();
  }

  const NsaCompressTilingData* t_ = nullptr;
  WindowShape shape_{};
  int32_t core_ = 0;
  int32_t weights_tile_ = -1;  // whose weight is loaded
  NsaCompressSteps steps_;
  HeadWeights<T> weights_;
  AscendC::GlobalTensor<T> input_, output_;
  AscendC::TQue<AscendC::TPosition::VECIN, 2> steps_in_;
  AscendC::TQue<AscendC::TPosition::VECOUT, 2> rows_out_;
  AscendC::TBuf<AscendC::TPosition::VECOUT> slice_;  // holds zeros at the end
  AscendC::TBuf<AscendC::TPosition::VECCALC> products_, sums_;
};

}  // namespace nsa::ascend
