// The backward of output[row(b, i), h, :] = sum_{j<l} weight[j, h] * input[c_b + i*s + j, h, :].
// With t = c_b + i*s + j and dy = outputGrad[row(b, i), h, :]:
//
//   inputGrad[t, h, :] = sum over the (i, j) of token t:  weight[j, h] * dy
//   weightGrad[j, h]   = sum over the windows (b, i):  dot(input[t, h, :], dy)
#pragma once

#include "ascendc/common/zero_fill.h"
#include "ascendc/compress/head_weights.h"
#include "ascendc/nsa_compress_grad/op_kernel/nsa_compress_grad_steps.h"

namespace nsa::ascend {

// First phase: a core walks the tokens of its items once, a few slices of 16 at a time, and keeps
// the rows of outputGrad whose windows are open. It writes inputGrad and, for every item, a partial
// sum of weightGrad. The next step is on its way while one is computed.
template <typename T>
class NsaCompressGradKernel {
 public:
  __aicore__ inline void Init(AscendC::TPipe* pipe, GM_ADDR output_grad, GM_ADDR input,
                              GM_ADDR weight, GM_ADDR act_seq_len, GM_ADDR input_grad,
                              GM_ADDR partial, const NsaCompressGradTilingData* tiling) {
    t_ = tiling;
    shape_ = ShapeOf(*t_);
    core_ = static_cast<int32_t>(AscendC::GetBlockIdx());
    open_rows_ = OpenRows(t_->block_size, t_->stride, t_->step_slices);
    const int64_t row = RowSize(*t_);
    output_grad_.SetGlobalBuffer(reinterpret_cast<__gm__ T*>(output_grad), t_->rows * row);
    input_.SetGlobalBuffer(reinterpret_cast<__gm__ T*>(input), t_->tokens * row);
    input_grad_.SetGlobalBuffer(reinterpret_cast<__gm__ T*>(input_grad), t_->tokens * row);
    partial_.SetGlobalBuffer(reinterpret_cast<__gm__ float*>(partial),
                             static_cast<int64_t>(t_->chunks) * t_->block_size * t_->heads);
    InitBuffers(pipe, weight);
    steps_.Init(act_seq_len, *t_, core_, AscendC::GetBlockNum());
    cleared_.Init(act_seq_len, t_->segments, shape_);
  }

  __aicore__ inline void Process() {
    // Heads of fewer than 64 columns leave the rest of their repeats as it is here.
    AscendC::Duplicate(dots_.template Get<float>(), 0.0f,
                       kSliceTokens * t_->tile_heads * kRepeatFloats);
    AscendC::PipeBarrier<PIPE_V>();
    NsaCompressGradStep step{}, next{};
    bool more = steps_.Next(&next);
    if (more) Load(next);
    while (more) {
      step = next;
      more = steps_.Next(&next);
      if (more) Load(next);
      Compute(step);
    }
    ClearUncoveredTokens();
  }

 private:
  __aicore__ inline void InitBuffers(AscendC::TPipe* pipe, GM_ADDR weight) {
    const NsaCompressGradBuffers bytes(t_->block_size, t_->stride, t_->tile_heads, t_->dim,
                                       t_->step_slices);
    weights_.Init(pipe, weight, t_->block_size, t_->heads, t_->tile_heads);
    pipe->InitBuffer(input_in_, 2, bytes.step);
    pipe->InitBuffer(rows_in_, 2, bytes.rows);
    pipe->InitBuffer(input_grad_out_, 2, bytes.step);
    pipe->InitBuffer(partial_out_, 1, bytes.partial);
    pipe->InitBuffer(open_, bytes.open);
    pipe->InitBuffer(slice_, bytes.slice);
    pipe->InitBuffer(slice_grad_, bytes.slice);
    pipe->InitBuffer(dots_, bytes.dots);
    pipe->InitBuffer(blocks_, bytes.blocks);
    pipe->InitBuffer(grads_, bytes.grads);
    pipe->InitBuffer(scratch_, bytes.scratch);
  }

  // Copies `rows` rows of a head tile between a packed buffer and global memory, which has gaps.
  __aicore__ inline AscendC::DataCopyParams TileRows(int32_t rows, int32_t heads,
                                                     bool to_global) const {
    const int32_t head_blocks = t_->dim * static_cast<int32_t>(sizeof(T)) / kBlockBytes;
    const uint16_t gap = static_cast<uint16_t>((t_->heads - heads) * head_blocks);
    return AscendC::DataCopyParams(static_cast<uint16_t>(rows),
                                   static_cast<uint16_t>(heads * head_blocks), to_global ? 0 : gap,
                                   to_global ? gap : 0);
  }

  __aicore__ inline void Load(const NsaCompressGradStep& step) {
    const int32_t heads = HeadsOfTile(*t_, step.tile);
    AscendC::LocalTensor<T> x = input_in_.template AllocTensor<T>();
    AscendC::DataCopy(x, input_[OffsetOf(*t_, step.token, step.tile)],
                      TileRows(step.slices * kSliceTokens, heads, false));
    input_in_.EnQue(x);
    if (step.new_windows == 0) return;
    AscendC::LocalTensor<T> rows = rows_in_.template AllocTensor<T>();
    AscendC::DataCopy(rows, output_grad_[OffsetOf(*t_, step.row + step.new_window, step.tile)],
                      TileRows(step.new_windows, heads, false));
    rows_in_.EnQue(rows);
  }

  __aicore__ inline void Compute(const NsaCompressGradStep& step) {
    const int32_t heads = HeadsOfTile(*t_, step.tile);
    const int32_t columns = heads * t_->dim;
    if (step.tile != weights_tile_) {
      weights_.Load(step.tile * t_->tile_heads, heads, scratch_.template Get<float>());
      weights_tile_ = step.tile;
    }
    if (step.first) {
      AscendC::Duplicate(grads_.template Get<float>(), 0.0f, t_->block_size * heads * kBlockFloats);
    }
    if (step.new_windows != 0) OpenWindows(step, columns);

    AscendC::LocalTensor<T> x = input_in_.template DeQue<T>();  // [slices * 16, columns]
    AscendC::LocalTensor<T> dx = input_grad_out_.template AllocTensor<T>();  // the same
    for (int32_t i = 0; i < step.slices; ++i) {
      const int32_t values = kSliceTokens * columns;
      AscendC::Cast(slice_.template Get<float>(), x[i * values], AscendC::RoundMode::CAST_NONE,
                    values);
      AscendC::PipeBarrier<PIPE_V>();
      SliceGradients(step, step.slice + i, heads);
      AscendC::Cast(dx[i * values], slice_grad_.template Get<float>(),
                    AscendC::RoundMode::CAST_RINT, values);
      AscendC::PipeBarrier<PIPE_V>();
    }
    input_in_.FreeTensor(x);
    input_grad_out_.EnQue(dx);
    dx = input_grad_out_.template DeQue<T>();
    AscendC::DataCopy(input_grad_[OffsetOf(*t_, step.token, step.tile)], dx,
                      TileRows(step.slices * kSliceTokens, heads, true));
    input_grad_out_.FreeTensor(dx);
    if (step.last) StorePartial(step, heads);
  }

  // outputGrad of window i is in slot i % open_rows_.
  __aicore__ inline AscendC::LocalTensor<float> OpenRow(int64_t window, int32_t columns) {
    return open_.template Get<float>()[window % open_rows_ * columns];
  }

  __aicore__ inline void OpenWindows(const NsaCompressGradStep& step, int32_t columns) {
    AscendC::LocalTensor<T> rows = rows_in_.template DeQue<T>();  // [new windows, columns]
    for (int32_t i = 0; i < step.new_windows; ++i) {
      AscendC::Cast(OpenRow(step.new_window + i, columns), rows[i * columns],
                    AscendC::RoundMode::CAST_NONE, columns);
    }
    rows_in_.FreeTensor(rows);
  }

  __aicore__ inline void SliceGradients(const NsaCompressGradStep& step, int64_t slice,
                                        int32_t heads) {
    const int32_t columns = heads * t_->dim;
    const int64_t first = shape_.FirstOver(slice);
    const int64_t last = shape_.LastOver(slice, step.windows);
    for (int64_t i = first; i <= last; ++i) {
      const int64_t within = slice - i * shape_.stride;  // which slice of the window this is
      const AscendC::LocalTensor<float> row = OpenRow(i, columns);
      const AscendC::LocalTensor<float> weights = weights_.Rows(within);
      for (int32_t d = 0; d < t_->dim; d += kRepeatFloats) {
        AddInputGrad(row, weights, heads, d, i == first);
        MultiplyByInput(row, heads, d);
        AscendC::PipeBarrier<PIPE_V>();
      }
      AddWeightGrad(within, heads);
    }
  }

  // slice_grad[t, h, d...] += weight[t, h] * outputGrad[i, h, d...]; the tokens are the repeats.
  __aicore__ inline void AddInputGrad(const AscendC::LocalTensor<float>& row,
                                      const AscendC::LocalTensor<float>& weights, int32_t heads,
                                      int32_t d, bool first) {
    const AscendC::LocalTensor<float> sum = slice_grad_.template Get<float>();  // [16, columns]
    const uint64_t lanes = static_cast<uint64_t>(Min(kRepeatFloats, t_->dim - d));
    const AscendC::BinaryRepeatParams strides(1, 1, 0,
                                              static_cast<uint8_t>(heads * t_->dim / kBlockFloats),
                                              0, static_cast<uint8_t>(heads));
    for (int32_t h = 0; h < heads; ++h) {
      const int32_t at = h * t_->dim + d;
      if (first) {
        AscendC::Mul(sum[at], row[at], weights[h * kBlockFloats], lanes, kSliceTokens, strides);
      } else {
        AscendC::MulAddDst(sum[at], row[at], weights[h * kBlockFloats], lanes, kSliceTokens,
                           strides);
      }
    }
  }

  // dots[t, h, 0..63] += slice[t, h, d...] * outputGrad[i, h, d...]; the tokens are the repeats.
  __aicore__ inline void MultiplyByInput(const AscendC::LocalTensor<float>& row, int32_t heads,
                                         int32_t d) {
    const AscendC::LocalTensor<float> dots = dots_.template Get<float>();    // [16, heads, 64]
    const AscendC::LocalTensor<float> slice = slice_.template Get<float>();  // [16, columns]
    const uint64_t lanes = static_cast<uint64_t>(Min(kRepeatFloats, t_->dim - d));
    const AscendC::BinaryRepeatParams strides(1, 1, 1, static_cast<uint8_t>(heads * kBlockFloats),
                                              static_cast<uint8_t>(heads * t_->dim / kBlockFloats),
                                              0);
    for (int32_t h = 0; h < heads; ++h) {
      const int32_t at = h * t_->dim + d;
      if (d == 0) {
        AscendC::Mul(dots[h * kRepeatFloats], slice[at], row[at], lanes, kSliceTokens, strides);
      } else {
        AscendC::MulAddDst(dots[h * kRepeatFloats], slice[at], row[at], lanes, kSliceTokens,
                           strides);
      }
    }
  }

  // grads[within * 16 + t, h, 0..7] += dots[t, h, :], eight neighbouring lanes added to one.
  __aicore__ inline void AddWeightGrad(int64_t within, int32_t heads) {
    const AscendC::LocalTensor<float> dots = dots_.template Get<float>();
    const AscendC::LocalTensor<float> blocks = blocks_.template Get<float>();  // [16, heads, 8]
    const int32_t rows = kSliceTokens * heads;
    for (int32_t row = 0; row < rows; row += kMaxRepeats) {
      AscendC::BlockReduceSum(blocks[row * kBlockFloats], dots[row * kRepeatFloats],
                              static_cast<int32_t>(Min(kMaxRepeats, rows - row)), kRepeatFloats, 1,
                              1, kBlockFloats);
    }
    AscendC::PipeBarrier<PIPE_V>();
    const AscendC::LocalTensor<float> sum =
        grads_.template Get<float>()[within * rows * kBlockFloats];
    AscendC::Add(sum, sum, blocks, rows * kBlockFloats);
    AscendC::PipeBarrier<PIPE_V>();
  }

  // partial[chunk, j, h] = the eight lanes of grads[j, h] added up: a repeat takes up to eight
  // heads of one j, so that the rows of the result begin at whole blocks.
  __aicore__ inline void StorePartial(const NsaCompressGradStep& step, int32_t heads) {
    const int32_t row_blocks = CeilDiv(heads, kBlockFloats);
    AscendC::LocalTensor<float> sums = partial_out_.template AllocTensor<float>();
    const AscendC::LocalTensor<float> grads = grads_.template Get<float>();
    for (int32_t h = 0; h < heads; h += kBlockFloats) {
      const int32_t some = static_cast<int32_t>(Min(kBlockFloats, heads - h));
      AscendC::BlockReduceSum(sums[h], grads[h * kBlockFloats], t_->block_size, some * kBlockFloats,
                              row_blocks, 1, heads);
    }
    AscendC::PipeBarrier<PIPE_V>();
    partial_out_.EnQue(sums);
    sums = partial_out_.template DeQue<float>();
    const int64_t row = step.chunk * t_->block_size;
    const AscendC::DataCopyExtParams rows(
        static_cast<uint16_t>(t_->block_size), static_cast<uint32_t>(heads * sizeof(float)), 0,
        static_cast<uint32_t>((t_->heads - heads) * sizeof(float)), 0);
    AscendC::DataCopyPad(partial_[row * t_->heads + step.tile * t_->tile_heads], sums, rows);
    partial_out_.FreeTensor(sums);
  }

  // Every core clears its share of the tokens that no window covers: the end of a segment. Where
  // whole segments have no window, neighbouring ends are one.
  __aicore__ inline void ClearUncoveredTokens() {
    const int64_t cores = AscendC::GetBlockNum();
    const int64_t begin = ShareBegin(t_->uncovered, core_, cores);
    const int64_t end = ShareBegin(t_->uncovered, core_ + 1, cores);
    if (begin == end) return;
    const int64_t row = RowSize(*t_);
    ZeroFill<T> zeros;
    zeros.Start(slice_grad_.template Get<T>(), kSliceTokens * t_->tile_heads * t_->dim);
    cleared_.Start(t_->clear_segment[core_], 0, 0);
    int64_t before = t_->clear_before[core_];  // uncovered tokens of earlier segments
    int64_t from = 0, to = 0;                  // tokens to clear that are not written yet
    while (true) {
      const int64_t first = cleared_.begin + cleared_.slices * kSliceTokens;
      const int64_t length = cleared_.end - first;
      const int64_t a = first + Max(begin - before, 0);
      const int64_t b = first + Min(end - before, length);
      if (a < b) {
        if (a != to) {
          zeros.Fill(input_grad_, from * row, (to - from) * row);
          from = a;
        }
        to = b;
      }
      before += length;
      if (before >= end) break;
      cleared_.Next();
    }
    zeros.Fill(input_grad_, from * row, (to - from) * row);
    zeros.Finish();
  }

  const NsaCompressGradTilingData* t_ = nullptr;
  WindowShape shape_{};
  int32_t core_ = 0;
  int32_t open_rows_ = 0;
  int32_t weights_tile_ = -1;  // whose weight is loaded
  NsaCompressGradSteps steps_;
  SegmentCursor cleared_;
  HeadWeights<T> weights_;
  AscendC::GlobalTensor<T> output_grad_, input_, input_grad_;
  AscendC::GlobalTensor<float> partial_;  // [chunks, l, N]
  AscendC::TQue<AscendC::TPosition::VECIN, 2> input_in_, rows_in_;
  AscendC::TQue<AscendC::TPosition::VECOUT, 2> input_grad_out_;
  AscendC::TQue<AscendC::TPosition::VECOUT, 1> partial_out_;
  AscendC::TBuf<AscendC::TPosition::VECCALC> open_, slice_, dots_, blocks_, grads_, scratch_;
  AscendC::TBuf<AscendC::TPosition::VECOUT> slice_grad_;  // holds zeros at the end
};

}  // namespace nsa::ascend
