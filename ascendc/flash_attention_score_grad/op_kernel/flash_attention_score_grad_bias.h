// The gradient of a bias that is shared: dS added up over queries, over entries of the batch or
// both. Every sum has one order, whatever the number of cores.
//
// Over queries: a tile of keys adds the rows of a head that are one vector core's of the two, so
// there are two copies for every entry that shares the bias; Finish adds the copies.
// Over entries that share a matrix: a core has a tile of queries with its likes of all entries one
// after the other and adds them to a sum of its own, as wide as the keys.
#pragma once

#include "ascendc/attention/grad_steps.h"
#include "ascendc/attention/row_store.h"
#include "ascendc/attention/score_bias.h"
#include "ascendc/flash_attention_score_grad/op_kernel/flash_attention_score_grad_tiling.h"

namespace nsa::ascend {

template <typename T>
class SharedBiasGrad {
 public:
  // `block_share`: of the workspace. `folded` and the buffers of `parts` and `results` below hold
  // `part_floats` numbers.
  __aicore__ inline void Init(AscendC::TPipe* pipe, const FlashAttentionScoreGradTilingData* tiling,
                              GM_ADDR workspace, GM_ADDR block_share, GM_ADDR pse_grad,
                              const AscendC::LocalTensor<float>& folded, int32_t part_floats) {
    t_ = tiling;
    core_ = AscendC::GetSubBlockIdx();
    folded_ = folded;
    part_floats_ = RoundDown(part_floats, kRepeatFloats);
    factor_ = t_->bias.pse_before_scale != 0 ? t_->bias.scale : 1.0f;
    copies_.SetGlobalBuffer(reinterpret_cast<__gm__ float*>(
        workspace + FlashAttentionScoreGradWorkspace::StatisticsBytes(*t_)));
    tile_.SetGlobalBuffer(reinterpret_cast<__gm__ float*>(block_share) + core_ * t_->pse_tile / 2);
    pse_grad_.SetGlobalBuffer(reinterpret_cast<__gm__ T*>(pse_grad));
    pipe->InitBuffer(columns_buffer_, kTileRows * 4);
    columns_ = columns_buffer_.template Get<float>();
  }

  __aicore__ inline bool OverQueries() const { return t_->pse_copies > 0; }
  __aicore__ inline bool OverEntries() const { return t_->pse_tile > 0; }
  // Nothing is shared, or no gradient of a bias is asked for.
  __aicore__ inline bool Unused() const { return !OverQueries() && !OverEntries(); }

  // A tile of keys and the queries of one head.
  __aicore__ inline void BeginHead() {
    AscendC::Duplicate(columns_, 0.0f, kTileRows);
    AscendC::PipeBarrier<PIPE_V>();
  }
  __aicore__ inline void AddRows(const AscendC::LocalTensor<float>& ds, const PassRows& g) {
    ForRepeats(g.width, [&](uint32_t at, uint64_t) __aicore__ {
      // Every repeat adds a row to the same sums.
      AscendC::Add(columns_[at], ds[at], columns_[at], static_cast<uint64_t>(kRepeatFloats),
                   g.repeats(), AscendC::BinaryRepeatParams(1, 1, 1, 0, g.pitch(), 0));
    });
    AscendC::PipeBarrier<PIPE_V>();
  }
  // `at`: of the first key, in one copy.
  __aicore__ inline void EndHead(const GradStep& step, int64_t at) {
    const int64_t entry = t_->pse_copies > 2 ? step.item.segment : 0;
    Order<AscendC::HardEvent::V_MTE3>();
    CopyRowsOut(copies_[(2 * entry + core_) * t_->pse_grad + at], 0, columns_, 1, step.keys,
                kTileRows);
    Order<AscendC::HardEvent::MTE3_V>();
  }

  // A tile of queries, in the order of the entries. `zeros`: a queue of stores.
  template <typename Queue>
  __aicore__ inline void BeginTile(const GradStep& step, const RowShare& share, Queue& zeros) {
    if (step.item.segment > 0) {
      // Waits until the additions of earlier entries are complete.
      AscendC::PipeBarrier<PIPE_MTE3>();
      return;
    }
    constexpr int64_t kFloats = kGradPassFloats / 2;
    auto source = zeros.template AllocTensor<float>();
    AscendC::Duplicate(source, 0.0f, static_cast<int32_t>(kFloats));
    zeros.EnQue(source);
    auto ready = zeros.template DeQue<float>();
    const int64_t end = share.rows * t_->pse_pitch;
    for (int64_t at = 0; at < end; at += kFloats)
      AscendC::DataCopy(tile_[at], ready, static_cast<uint32_t>(Min(kFloats, end - at)));
    zeros.FreeTensor(ready);
    AscendC::PipeBarrier<PIPE_MTE3>();
  }
  // Rows from this core's `row` on; `stores`: a queue with room for a pass in float.
  template <typename Queue>
  __aicore__ inline void AddTo(const GradStep& step, int64_t row,
                               const AscendC::LocalTensor<float>& ds, const PassRows& g,
                               Queue& stores) {
    const int32_t blocks = CeilDiv(g.keys, kBlockFloats);
    auto copy = stores.template AllocTensor<float>();
    AscendC::Adds(copy, ds, 0.0f, g.floats());
    stores.EnQue(copy);
    auto ready = stores.template DeQue<float>();
    AscendC::SetAtomicAdd<float>();
    CopyRowsOut(tile_[row * t_->pse_pitch + step.key], t_->pse_pitch, ready, g.rows,
                blocks * kBlockFloats, g.width);
    AscendC::SetAtomicNone();
    stores.FreeTensor(ready);
  }
  // After the last entry. `at`: of this core's first row, `pitch` elements from row to row.
  template <typename Parts, typename Results>
  __aicore__ inline void EndTile(const GradStep& step, const RowShare& share, int64_t at,
                                 int64_t pitch, Parts& parts, Results& results) {
    if (step.item.segment + 1 < t_->queries.segments) return;
    Order<AscendC::HardEvent::MTE3_MTE2>();
    // Several whole rows, or some columns of one.
    const auto width = static_cast<int32_t>(Min(t_->pse_pitch, part_floats_));
    const int32_t most = part_floats_ / width;
    for (int32_t row = 0; row < share.rows; row += most) {
      const auto rows = static_cast<int32_t>(Min(most, share.rows - row));
      for (int64_t key = 0; key < t_->pse_pitch; key += width) {
        const auto floats = static_cast<int32_t>(Min(width, t_->pse_pitch - key));
        const auto keys = static_cast<int32_t>(Min(floats, t_->queries.keys - key));
        auto part = parts.template AllocTensor<float>();
        CopyRowsIn(part, tile_[row * t_->pse_pitch + key], t_->pse_pitch, rows, floats, floats);
        parts.EnQue(part);
        part = parts.template DeQue<float>();
        auto result = Rounded(part, rows * floats, results);
        parts.FreeTensor(part);
        CopyRowsOut(pse_grad_[at + row * pitch + key], pitch, result, rows, keys, floats);
        results.FreeTensor(result);
      }
    }
  }

  // When all cores have stored their copies.
  template <typename Parts, typename Results>
  __aicore__ inline void Finish(Parts& parts, Results& results) {
    const int64_t cores = AscendC::GetBlockNum() * 2;
    for (int64_t at = AscendC::GetBlockIdx() * part_floats_; at < t_->pse_grad;
         at += cores * part_floats_) {
      const auto count = static_cast<int32_t>(Min(part_floats_, t_->pse_grad - at));
      const int32_t floats = RoundUp(count, kBlockFloats);
      for (int64_t copy = 0; copy < t_->pse_copies; ++copy) {
        auto part = parts.template AllocTensor<float>();
        CopyRowsIn(part, copies_[copy * t_->pse_grad + at], 0, 1, count, floats);
        parts.EnQue(part);
        part = parts.template DeQue<float>();
        if (copy == 0) {
          AscendC::Adds(folded_, part, 0.0f, floats);
        } else {
          AscendC::Add(folded_, folded_, part, floats);
        }
        AscendC::PipeBarrier<PIPE_V>();
        parts.FreeTensor(part);
      }
      auto result = Rounded(folded_, floats, results);
      CopyRowsOut(pse_grad_[at], 0, result, 1, count, part_floats_);
      results.FreeTensor(result);
    }
  }

 private:
  template <typename Results>
  __aicore__ inline AscendC::LocalTensor<T> Rounded(const AscendC::LocalTensor<float>& sum,
                                                    int32_t count, Results& results) {
    if (factor_ != 1.0f) {
      AscendC::Muls(sum, sum, factor_, count);
      AscendC::PipeBarrier<PIPE_V>();
    }
    auto result = results.template AllocTensor<T>();
    RoundRows(result, sum, count);
    results.EnQue(result);
    return results.template DeQue<T>();
  }

  const FlashAttentionScoreGradTilingData* t_ = nullptr;
  int64_t core_ = 0;  // of the block's two
  int32_t part_floats_ = 0;
  float factor_ = 1;
  AscendC::GlobalTensor<float> copies_, tile_;
  AscendC::GlobalTensor<T> pse_grad_;
  AscendC::TBuf<AscendC::TPosition::VECCALC> columns_buffer_;
  AscendC::LocalTensor<float> columns_, folded_;
};

}  // namespace nsa::ascend
