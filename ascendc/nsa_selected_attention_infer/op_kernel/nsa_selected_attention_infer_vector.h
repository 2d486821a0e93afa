// A vector core's part of NsaSelectedAttentionInfer: the softmax of every part, of which each of
// the two cores of a block has half of the rows; then the sums of the parts, which all cores share.
#pragma once

#include "ascendc/attention/handover.h"
#include "ascendc/attention/row_store.h"
#include "ascendc/nsa_selected_attention_infer/op_kernel/nsa_selected_attention_infer_cube.h"

namespace nsa::ascend {

template <typename T>
class NsaSelectedAttentionInferVector {
 public:
  __aicore__ inline void Init(AscendC::TPipe* pipe,
                              const NsaSelectedAttentionInferTilingData* tiling,
                              const NsaSelectedAttentionInferArguments& g) {
    t_ = tiling;
    core_ = AscendC::GetBlockIdx();
    cores_ = 2 * AscendC::GetBlockNum();
    const int64_t block = core_ / 2, blocks = AscendC::GetBlockNum();
    const NsaSelectedAttentionInferWorkspace bytes(*t_);
    GM_ADDR mine = g.workspace + block * bytes.block;
    scores_.SetGlobalBuffer(reinterpret_cast<__gm__ float*>(mine));
    probabilities_.SetGlobalBuffer(reinterpret_cast<__gm__ T*>(mine + kSlots * bytes.scores));
    outputs_.SetGlobalBuffer(
        reinterpret_cast<__gm__ float*>(g.workspace + bytes.OutputsBegin(blocks)));
    statistics_.SetGlobalBuffer(reinterpret_cast<__gm__ float*>(
        g.workspace + bytes.StatisticsBegin(blocks, t_->wave_cells * t_->parts)));
    out_.SetGlobalBuffer(reinterpret_cast<__gm__ T*>(g.output));
    slot_elements_ = bytes.scores / 4;
    half_rows_ = HalfRows(t_->group);
    merged_rows_ = NsaSelectedAttentionInferBuffers::MergedRows(t_->value_dim);
    InitBuffers(pipe, NsaSelectedAttentionInferBuffers(t_->group, t_->part_keys, t_->value_dim));
    parts_.Init(t_, g, block, blocks, false);
    cell_keys_.Init(t_, g);
  }

  __aicore__ inline void Process() {
    int64_t step = 0;
    ForWaves(*t_, [&](int64_t first, int64_t cells) __aicore__ {
      parts_.StartWave(first, cells);
      SelectedInferPart part{};
      while (parts_.Next(&part)) Softmax(part, step++);
      AscendC::SyncAll<false>();
      Merge(first, cells);
      if (first + cells < t_->queries * t_->heads) AscendC::SyncAll<false>();
    });
  }

 private:
  __aicore__ inline void InitBuffers(AscendC::TPipe* pipe,
                                     const NsaSelectedAttentionInferBuffers& bytes) {
    pipe->InitBuffer(inputs_, 2, bytes.inputs);
    pipe->InitBuffer(statistics_in_, 1, bytes.statistics);
    pipe->InitBuffer(statistics_out_, 1, bytes.statistics);
    pipe->InitBuffer(results_out_, 1, bytes.probabilities);
    pipe->InitBuffer(sum_buffer_, bytes.sum);
    pipe->InitBuffer(folded_buffer_, bytes.folded);
    pipe->InitBuffer(spread_buffer_, bytes.spread);
    pipe->InitBuffer(rows_buffer_, bytes.rows);
    pipe->InitBuffer(state_buffer_, bytes.state);
    folded_ = folded_buffer_.template Get<float>();
    spread_ = spread_buffer_.template Get<float>();
    maximum_ = rows_buffer_.template Get<float>();
    total_ = maximum_[static_cast<uint32_t>(half_rows_)];
    // Instructions over eight rows also read rows that a group does not have.
    AscendC::Duplicate(folded_, 0.0f, half_rows_ * (kRepeatFloats + kBlockFloats));
    AscendC::Duplicate(maximum_, 0.0f, 2 * half_rows_);
    AscendC::PipeBarrier<PIPE_V>();
  }

  // P = exp(S - max), and the maximum and the sum of every row of the part.
  __aicore__ inline void Softmax(const SelectedInferPart& part, int64_t step) {
    const RowShare share(core_ % 2, t_->group);
    Await<Handover::kScores>(step);
    if (share.rows > 0) {
      const RowGroup g(share.rows, part.keys);
      const int64_t at = step % kSlots * slot_elements_ + int64_t{share.begin} * t_->part_keys;
      const int32_t padded = RoundUp(share.rows, kRowUnit);
      auto x = inputs_.template AllocTensor<float>();
      CopyRowsIn(x, scores_[at], t_->part_keys, g.rows, g.keys, g.width);
      inputs_.EnQue(x);
      x = inputs_.template DeQue<float>();
      ScaleRows(x, t_->scale, g);
      FillTail(x, -Infinity(), g);
      ReduceRows<true>(maximum_, x, folded_, half_rows_, g);
      AscendC::Maxs(maximum_, maximum_, kLowest, padded);
      AscendC::PipeBarrier<PIPE_V>();
      SpreadRows(spread_, maximum_, padded);
      WithRowValue<false>(x, spread_, g.rows, g.width, g.width);
      AscendC::Exp(x, x, g.floats());
      AscendC::PipeBarrier<PIPE_V>();
      ReduceRows<false>(total_, x, folded_, half_rows_, g);
      StoreStatistics(part, share, padded);
      auto p = results_out_.template AllocTensor<T>();
      RoundRows(p, x, g.floats());
      inputs_.FreeTensor(x);
      results_out_.EnQue(p);
      p = results_out_.template DeQue<T>();
      CopyRowsOut(probabilities_[at], t_->part_keys, p, g.rows, g.keys, g.width);
      results_out_.FreeTensor(p);
    }
    HandOver<Handover::kProbabilities>(step);
  }

  __aicore__ inline void StoreStatistics(const SelectedInferPart& part, const RowShare& share,
                                         int32_t padded) {
    auto blocks = statistics_out_.template AllocTensor<float>();
    const auto sums = blocks[static_cast<uint32_t>(padded * kBlockFloats)];
    SpreadRows(blocks, maximum_, padded);
    SpreadRows(sums, total_, padded);
    statistics_out_.EnQue(blocks);
    blocks = statistics_out_.template DeQue<float>();
    const int64_t at = (part.slot * 2 * t_->group + share.begin) * kBlockFloats;
    CopyStatisticsOut(statistics_[at], kBlockFloats, blocks, share.rows);
    CopyStatisticsOut(statistics_[at + int64_t{t_->group} * kBlockFloats], kBlockFloats,
                      blocks[static_cast<uint32_t>(padded * kBlockFloats)], share.rows);
    statistics_out_.FreeTensor(blocks);
  }

  // The outputs of the wave's cells, some rows of a cell at a time.
  __aicore__ inline void Merge(int64_t first, int64_t cells) {
    const int64_t chunks = CeilDiv(t_->group, merged_rows_);
    const int64_t begin = cells * chunks * core_ / cores_;
    const int64_t end = cells * chunks * (core_ + 1) / cores_;
    for (int64_t i = begin; i < end; ++i) {
      const int64_t cell = first + i / chunks;
      if (cell != cell_) cell_keys_.Start(cell, false);
      cell_ = cell;
      const auto row = static_cast<int32_t>(i % chunks) * merged_rows_;
      MergeRows(cell, (cell - first) * t_->parts, row,
                static_cast<int32_t>(Min(merged_rows_, t_->group - row)));
    }
  }

  // sum_i exp(m_i - m) O_i / sum_i exp(m_i - m) l_i over the parts, in the order of the keys.
  __aicore__ inline void MergeRows(int64_t cell, int64_t slot, int32_t row, int32_t rows) {
    const auto blocks = static_cast<uint32_t>(merged_rows_ * kBlockFloats);
    const auto state = state_buffer_.template Get<float>();
    const auto max = state, total = state[blocks], old = state[2 * blocks], now = state[3 * blocks];
    const auto sum = sum_buffer_.template Get<float>();
    AscendC::Duplicate(max, kLowest, static_cast<int32_t>(blocks));
    AscendC::Duplicate(total, 0.0f, static_cast<int32_t>(blocks));
    AscendC::Duplicate(sum, 0.0f, rows * t_->value_dim);
    AscendC::PipeBarrier<PIPE_V>();
    const int64_t parts = (cell_keys_.total() + t_->part_keys - 1) / t_->part_keys;
    for (int64_t part = slot; part < slot + parts; ++part) {
      const int32_t count = rows * kBlockFloats;
      auto statistics = statistics_in_.template AllocTensor<float>();
      for (int32_t which = 0; which < 2; ++which) {
        AscendC::DataCopy(statistics[which * blocks],
                          statistics_[((part * 2 + which) * t_->group + row) * kBlockFloats],
                          static_cast<uint32_t>(count));
      }
      statistics_in_.EnQue(statistics);
      auto x = inputs_.template AllocTensor<float>();
      AscendC::DataCopy(x, outputs_[(part * t_->group + row) * t_->value_dim],
                        static_cast<uint32_t>(rows * t_->value_dim));
      inputs_.EnQue(x);
      statistics = statistics_in_.template DeQue<float>();
      // old: the factor of what there is, now: that of the part.
      AscendC::Max(now, max, statistics, count);
      AscendC::PipeBarrier<PIPE_V>();
      AscendC::Sub(old, max, now, count);
      AscendC::PipeBarrier<PIPE_V>();
      AscendC::Adds(max, now, 0.0f, count);
      AscendC::PipeBarrier<PIPE_V>();
      AscendC::Sub(now, statistics, max, count);
      AscendC::Exp(old, old, count);
      AscendC::PipeBarrier<PIPE_V>();
      AscendC::Exp(now, now, count);
      AscendC::Mul(total, total, old, count);
      AscendC::PipeBarrier<PIPE_V>();
      AscendC::MulAddDst(total, statistics[blocks], now, count);
      AscendC::PipeBarrier<PIPE_V>();
      statistics_in_.FreeTensor(statistics);
      x = inputs_.template DeQue<float>();
      WithRowValue<true>(sum, old, rows, t_->value_dim, t_->value_dim);
      WithRowValue<true>(x, now, rows, t_->value_dim, t_->value_dim);
      AscendC::Add(sum, sum, x, rows * t_->value_dim);
      AscendC::PipeBarrier<PIPE_V>();
      inputs_.FreeTensor(x);
    }
    MarkEmptyRows(total, old.template ReinterpretCast<uint8_t>(), merged_rows_);
    DivideRows(sum, total, rows, t_->value_dim);
    auto result = results_out_.template AllocTensor<T>();
    RoundRows(result, sum, rows * t_->value_dim);
    results_out_.EnQue(result);
    result = results_out_.template DeQue<T>();
    AscendC::DataCopy(out_[(cell * t_->group + row) * t_->value_dim], result,
                      static_cast<uint32_t>(rows * t_->value_dim));
    results_out_.FreeTensor(result);
  }

  const NsaSelectedAttentionInferTilingData* t_ = nullptr;
  int64_t core_ = 0, cores_ = 1, slot_elements_ = 0, cell_ = -1;
  int32_t half_rows_ = 0, merged_rows_ = 0;
  SelectedInferParts parts_;
  SelectedKeys cell_keys_;  // of the cell whose parts are added up
  AscendC::GlobalTensor<float> scores_, outputs_, statistics_;
  AscendC::GlobalTensor<T> probabilities_, out_;
  AscendC::TQue<AscendC::TPosition::VECIN, 2> inputs_;
  AscendC::TQue<AscendC::TPosition::VECIN, 1> statistics_in_;
  AscendC::TQue<AscendC::TPosition::VECOUT, 1> results_out_, statistics_out_;
  AscendC::TBuf<AscendC::TPosition::VECCALC> sum_buffer_, folded_buffer_, spread_buffer_,
      rows_buffer_, state_buffer_;
  AscendC::LocalTensor<float> folded_, spread_, maximum_, total_;
};

}  // namespace nsa::ascend
