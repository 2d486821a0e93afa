// cache[slot(b), h, :] = sum_{j<l} weight[j, h] * token_b[n - l + j, h, :], for the rows of the
// batch whose n tokens fill a window.
#pragma once

#include "ascendc/common/zero_fill.h"
#include "ascendc/compress/sum_rows.h"
#include "ascendc/nsa_compress_with_cache/op_kernel/nsa_compress_with_cache_steps.h"

namespace nsa::ascend {

// The next step is on its way while one is summed.
template <typename T>
class NsaCompressWithCacheKernel {
 public:
  __aicore__ inline void Init(AscendC::TPipe* pipe, GM_ADDR input, GM_ADDR weight,
                              GM_ADDR slot_mapping, GM_ADDR act_seq_len, GM_ADDR block_table,
                              GM_ADDR rows, GM_ADDR cache,
                              const NsaCompressWithCacheTilingData* tiling) {
    t_ = tiling;
    const int64_t row = RowSize(*t_);
    input_.SetGlobalBuffer(reinterpret_cast<__gm__ T*>(input),
                           t_->pages.pages * t_->pages.page * row);
    weight_.SetGlobalBuffer(reinterpret_cast<__gm__ T*>(weight), t_->block_size * t_->heads);
    rows_.SetGlobalBuffer(reinterpret_cast<__gm__ T*>(rows), t_->batch * row);
    cache_.SetGlobalBuffer(reinterpret_cast<__gm__ T*>(cache), t_->slots * row);
    const NsaCompressWithCacheBuffers bytes(t_->tile_heads, t_->dim);
    pipe->InitBuffer(slice_, bytes.slice);
    pipe->InitBuffer(products_, bytes.products);
    pipe->InitBuffer(sums_, bytes.sums);
    pipe->InitBuffer(spread_, bytes.spread);
    pipe->InitBuffer(zeros_, bytes.row);
    pipe->InitBuffer(steps_in_, 2, bytes.step);
    pipe->InitBuffer(weights_in_, 2, bytes.weight);
    pipe->InitBuffer(rows_out_, 2, bytes.row);
    steps_.Init(slot_mapping, act_seq_len, block_table, tiling, AscendC::GetBlockIdx(),
                AscendC::GetBlockNum());
  }

  __aicore__ inline void Process() {
    // The rows of the batch that fill no window are zeros in `rows`, and nowhere in the cache.
    ZeroFill<T> zeros;
    zeros.Start(zeros_.template Get<T>(), t_->tile_heads * t_->dim);
    const auto clear = [&](int64_t row, int32_t tile) __aicore__ {
      zeros.Fill(rows_, OffsetOf(*t_, row, tile), HeadsOfTile(*t_, tile) * t_->dim);
    };
    NsaCompressWithCacheStep step{}, next{};
    bool more = steps_.Next(&next, clear);
    if (more) Load(next);
    while (more) {
      step = next;
      more = steps_.Next(&next, clear);
      if (more) Load(next);
      Sum(step);
    }
    zeros.Finish();
  }

 private:
  __aicore__ inline void Load(const NsaCompressWithCacheStep& step) {
    const int32_t heads = HeadsOfTile(*t_, step.tile);
    const int32_t head_blocks = t_->dim * static_cast<int32_t>(sizeof(T)) / kBlockBytes;
    const int32_t columns = heads * t_->dim;
    const RowTokens& tokens = steps_.tokens();
    AscendC::LocalTensor<T> x = steps_in_.template AllocTensor<T>();  // [tokens, columns]
    for (int64_t done = 0, run = 0; done < step.tokens; done += run) {
      run = tokens.Run(step.token + done, step.tokens - done);
      const int64_t at = tokens.At(step.row, step.begin, step.token + done);
      AscendC::DataCopy(x[done * columns], input_[OffsetOf(*t_, at, step.tile)],
                        AscendC::DataCopyParams(
                            static_cast<uint16_t>(run), static_cast<uint16_t>(heads * head_blocks),
                            static_cast<uint16_t>((t_->heads - heads) * head_blocks), 0));
    }
    steps_in_.EnQue(x);

    AscendC::LocalTensor<T> weights = weights_in_.template AllocTensor<T>();  // [tokens, padded]
    const AscendC::DataCopyExtParams rows(
        static_cast<uint16_t>(step.tokens), static_cast<uint32_t>(heads * sizeof(T)),
        static_cast<uint32_t>((t_->heads - heads) * sizeof(T)), 0, 0);
    AscendC::DataCopyPadExtParams<T> padding;
    padding.isPad = true;
    padding.rightPadding = static_cast<uint8_t>(PaddedWeightHeads(heads) - heads);
    AscendC::DataCopyPad(weights, weight_[step.weight * t_->heads + step.tile * t_->tile_heads],
                         rows, padding);
    weights_in_.EnQue(weights);
  }

  __aicore__ inline void Sum(const NsaCompressWithCacheStep& step) {
    const int32_t heads = HeadsOfTile(*t_, step.tile);
    const int32_t columns = heads * t_->dim;
    SpreadWeights(step.tokens, heads);
    AscendC::LocalTensor<T> x = steps_in_.template DeQue<T>();
    AscendC::LocalTensor<float> slice = slice_.template Get<float>();
    AscendC::Cast(slice, x, AscendC::RoundMode::CAST_NONE, step.tokens * columns);
    AscendC::PipeBarrier<PIPE_V>();
    steps_in_.FreeTensor(x);
    AscendC::LocalTensor<float> products = products_.template Get<float>();  // [16, columns]
    AscendC::LocalTensor<float> sums = sums_.template Get<float>();
    Weigh(step.tokens, heads);
    if (step.tokens < kSliceTokens) {
      AscendC::Duplicate(products[step.tokens * columns], 0.0F,
                         (kSliceTokens - step.tokens) * columns);
      AscendC::PipeBarrier<PIPE_V>();
    }
    FoldToTwo(products, columns);
    if (step.weight == 0) {
      AscendC::Add(sums, products, products[columns], columns);
    } else {
      AscendC::Add(products, products, products[columns], columns);
      AscendC::PipeBarrier<PIPE_V>();
      AscendC::Add(sums, sums, products, columns);
    }
    AscendC::PipeBarrier<PIPE_V>();
    if (step.last) Store(step, columns);
  }

  // Every weight of the step into all eight lanes of a data block, which with a block stride of 0
  // multiplies a whole repeat.
  __aicore__ inline void SpreadWeights(int32_t tokens, int32_t heads) {
    const int32_t padded = PaddedWeightHeads(heads);
    AscendC::LocalTensor<T> weights = weights_in_.template DeQue<T>();
    const AscendC::LocalTensor<float> values = products_.template Get<float>();
    const AscendC::LocalTensor<float> blocks = values[kSliceTokens * padded];  // [16, padded, 8]
    AscendC::Cast(values, weights, AscendC::RoundMode::CAST_NONE, tokens * padded);
    AscendC::PipeBarrier<PIPE_V>();
    weights_in_.FreeTensor(weights);
    AscendC::Brcb(blocks, values, static_cast<uint8_t>(tokens * padded / kBlockFloats),
                  AscendC::BrcbRepeatParams(1, kBlockFloats));
    AscendC::PipeBarrier<PIPE_V>();
    // The padding of every row is left behind.
    AscendC::DataCopy(
        spread_.template Get<float>(), blocks,
        AscendC::DataCopyParams(static_cast<uint16_t>(tokens), static_cast<uint16_t>(heads),
                                static_cast<uint16_t>(padded - heads), 0));
    AscendC::PipeBarrier<PIPE_V>();
  }

  // products[t, h, :] = slice[t, h, :] * spread[t, h]. Token and head are one index: that of the
  // repeats.
  __aicore__ inline void Weigh(int32_t tokens, int32_t heads) {
    const AscendC::LocalTensor<float> products = products_.template Get<float>();
    const AscendC::LocalTensor<float> slice = slice_.template Get<float>();
    const AscendC::LocalTensor<float> weights = spread_.template Get<float>();
    const uint8_t pitch = static_cast<uint8_t>(t_->dim / kBlockFloats);
    const int32_t rows = tokens * heads;
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

  __aicore__ inline void Store(const NsaCompressWithCacheStep& step, int32_t columns) {
    AscendC::LocalTensor<T> row = rows_out_.template AllocTensor<T>();
    AscendC::Cast(row, sums_.template Get<float>(), AscendC::RoundMode::CAST_RINT, columns);
    rows_out_.EnQue(row);
    row = rows_out_.template DeQue<T>();
    AscendC::DataCopy(cache_[OffsetOf(*t_, step.slot, step.tile)], row,
                      static_cast<uint32_t>(columns));
    AscendC::DataCopy(rows_[OffsetOf(*t_, step.row, step.tile)], row,
                      static_cast<uint32_t>(columns));
    rows_out_.FreeTensor(row);
  }

  const NsaCompressWithCacheTilingData* t_ = nullptr;
  NsaCompressWithCacheSteps steps_;
  AscendC::GlobalTensor<T> input_, weight_, rows_, cache_;
  AscendC::TQue<AscendC::TPosition::VECIN, 2> steps_in_, weights_in_;
  AscendC::TQue<AscendC::TPosition::VECOUT, 2> rows_out_;
  AscendC::TBuf<AscendC::TPosition::VECOUT> zeros_;
  AscendC::TBuf<AscendC::TPosition::VECCALC> slice_, products_, sums_, spread_;
};

}  // namespace nsa::ascend
