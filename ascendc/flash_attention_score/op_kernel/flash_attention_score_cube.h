// The cube core of FlashAttentionScore: S = Q K^T, O = P V.
#pragma once

#include "ascendc/attention/handover.h"
#include "ascendc/attention/tile_product.h"
#include "ascendc/attention/work_items.h"
#include "ascendc/flash_attention_score/op_kernel/flash_attention_score_tiling.h"

namespace nsa::ascend {

// Scores are kStepsAhead steps ahead of the output, so that the vector cores always have some.
template <typename T>
class FlashAttentionScoreCube {
 public:
  __aicore__ inline void Init(AscendC::TPipe* pipe, const FlashAttentionScoreTilingData* tiling,
                              GM_ADDR query, GM_ADDR key, GM_ADDR value, GM_ADDR query_ends,
                              GM_ADDR key_ends, GM_ADDR prefix, GM_ADDR workspace) {
    t_ = tiling;
    tiles_ =
        CubeTiles(static_cast<int32_t>(t_->dim), static_cast<int32_t>(t_->value_dim), sizeof(T));
    value_columns_ = RoundUp(static_cast<int32_t>(t_->value_dim), kBlockBytes / sizeof(T));
    query_.SetGlobalBuffer(reinterpret_cast<__gm__ T*>(query));
    key_.SetGlobalBuffer(reinterpret_cast<__gm__ T*>(key));
    value_.SetGlobalBuffer(reinterpret_cast<__gm__ T*>(value));
    const FlashAttentionScoreWorkspace bytes(static_cast<int32_t>(t_->work.tile_rows),
                                             static_cast<int32_t>(t_->value_dim), sizeof(T));
    GM_ADDR mine = workspace + AscendC::GetBlockIdx() * bytes.Total();
    scores_.SetGlobalBuffer(reinterpret_cast<__gm__ float*>(mine));
    probabilities_.SetGlobalBuffer(reinterpret_cast<__gm__ T*>(mine + bytes.probabilities_begin));
    output_.SetGlobalBuffer(reinterpret_cast<__gm__ float*>(mine + bytes.output_begin));
    pipe->InitBuffer(l1_, 2 * (kQuerySlotBytes + kKeySlotBytes + kProbabilitySlotBytes));
    const auto l1 = l1_.template Get<T>();
    queries_.Start(l1, kQuerySlotBytes);
    keys_.Start(l1[2 * kQuerySlotBytes / sizeof(T)], kKeySlotBytes);
    blocks_.Start(l1[2 * (kQuerySlotBytes + kKeySlotBytes) / sizeof(T)], kProbabilitySlotBytes);
    product_.Start(pipe);
    ahead_.Init(&t_->work, &t_->mask, query_ends, key_ends, prefix);
    behind_.Init(&t_->work, &t_->mask, query_ends, key_ends, prefix);
  }

  __aicore__ inline void Process() {
    KeyStep step{};
    for (int64_t i = 0, left = 1; left > 0; ++i) {
      left = 0;
      if (ahead_.Next(&step)) {
        Scores(step);
        left = 1;
      }
      if (i < kStepsAhead) {
        left = 1;
      } else if (behind_.Next(&step)) {
        Output(step);
        left = 1;
      }
    }
    queries_.Finish();
    keys_.Finish();
    blocks_.Finish();
    product_.Finish();
  }

 private:
  __aicore__ inline int64_t KeyOffset(const TensorStrides& s, const KeyStep& step) const {
    const WorkItem& item = step.item;
    return (t_->work.packed != 0 ? 0 : item.segment * s.batch) +
           (item.key_start + step.key) * s.row + item.head / t_->work.group * s.head;
  }

  __aicore__ inline void Scores(const KeyStep& step) {
    if (step.keys == 0) return;
    const WorkItem& item = step.item;
    if (step.first) {
      const int64_t at = (t_->work.packed != 0 ? 0 : item.segment * t_->query.batch) +
                         (item.query_start + item.row) * t_->query.row + item.head * t_->query.head;
      tile_ = CopyRows(queries_.BeginFill(), query_[at], t_->query.row, item.rows,
                       static_cast<int32_t>(t_->dim));
      queries_.EndFill();
      queries_.BeginUse();
    }
    const auto scores = scores_[step.index % kSlots * t_->work.tile_rows * kStepKeys];
    const int64_t at = KeyOffset(t_->key, step);
    for (int32_t block = 0; block < step.keys; block += tiles_.key_rows) {
      const int32_t rows = static_cast<int32_t>(Min(tiles_.key_rows, step.keys - block));
      L1Matrix<T> keys = CopyRows(keys_.BeginFill(), key_[at + block * t_->key.row], t_->key.row,
                                  rows, static_cast<int32_t>(t_->dim));
      keys_.EndFill();
      keys_.BeginUse();
      for (keys.row = 0; keys.row < rows; keys.row += kTileKeys) {
        const int32_t columns = static_cast<int32_t>(Min(kTileKeys, rows - keys.row));
        product_.BeginResult();
        product_.template Add<Form::kStraight, Form::kStraight>(tile_, keys, item.rows, columns,
                                                                static_cast<int32_t>(t_->dim));
        product_.Store(scores[block + keys.row], kStepKeys, item.rows, columns);
      }
      keys_.EndUse();
    }
    if (step.last) queries_.EndUse();
    HandOver<Handover::kScores>(step.index);
  }

  __aicore__ inline L1Matrix<T> CopyValues(const KeyStep& step, int32_t block, int32_t rows) {
    const auto matrix =
        CopyRows(keys_.BeginFill(), value_[KeyOffset(t_->value, step) + block * t_->value.row],
                 t_->value.row, rows, static_cast<int32_t>(t_->value_dim));
    keys_.EndFill();
    return matrix;
  }

  __aicore__ inline void Output(const KeyStep& step) {
    if (step.keys == 0) return;
    const int64_t slot = step.index % kSlots;
    const auto probabilities = probabilities_[slot * t_->work.tile_rows * kStepKeys];
    product_.BeginResult();
    for (int32_t block = 0; block < step.keys; block += tiles_.value_rows) {
      const int32_t rows = static_cast<int32_t>(Min(tiles_.value_rows, step.keys - block));
      const L1Matrix<T> values = CopyValues(step, block, rows);
      // The first values are on their way while the vector cores still work.
      if (block == 0) Await<Handover::kProbabilities>(step.index);
      const L1Matrix<T> p =
          CopyRows(blocks_.BeginFill(), probabilities[block], kStepKeys, step.item.rows, rows);
      blocks_.EndFill();
      keys_.BeginUse();
      blocks_.BeginUse();
      product_.template Add<Form::kStraight, Form::kTransposed>(p, values, step.item.rows,
                                                                value_columns_, rows);
      keys_.EndUse();
      blocks_.EndUse();
    }
    product_.Store(output_[slot * t_->work.tile_rows * value_columns_], value_columns_,
                   step.item.rows, value_columns_);
    HandOver<Handover::kPartialOutput>(step.index);
  }

  const FlashAttentionScoreTilingData* t_ = nullptr;
  CubeTiles tiles_{16, 16, sizeof(T)};
  int32_t value_columns_ = 0;
  KeySteps ahead_, behind_;  // of the scores, of the output
  AscendC::GlobalTensor<T> query_, key_, value_, probabilities_;
  AscendC::GlobalTensor<float> scores_, output_;
  AscendC::TBuf<AscendC::TPosition::A1> l1_;
  L1Ring<T, 2, 0> queries_;
  L1Ring<T, 2, 2> keys_;  // and values
  L1Ring<T, 2, 4> blocks_;
  L1Matrix<T> tile_{};
  TileProduct<T> product_;
};

}  // namespace nsa::ascend
