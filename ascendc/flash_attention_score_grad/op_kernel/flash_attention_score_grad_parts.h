// Where a tile of keys is several cores' to sum, each with some heads of its group: dk and dv of
// every part in float, and their sums in the order of the parts. How many parts there are follows
// from the shapes alone.
#pragma once

#include "ascendc/attention/grad_steps.h"
#include "ascendc/attention/row_store.h"
#include "ascendc/flash_attention_score_grad/op_kernel/flash_attention_score_grad_tiling.h"

namespace nsa::ascend {

class KeyParts {
 public:
  __aicore__ inline void Init(const FlashAttentionScoreGradTilingData* tiling, GM_ADDR workspace,
                              int32_t dim, int32_t value_dim, int32_t element_bytes) {
    t_ = tiling;
    const auto multiple = static_cast<int32_t>(kBlockBytes) / element_bytes;
    dim_ = RoundUp(dim, multiple);
    value_dim_ = RoundUp(value_dim, multiple);
    GM_ADDR begin = workspace + FlashAttentionScoreGradWorkspace::PartsBegin(*t_);
    keys_.SetGlobalBuffer(reinterpret_cast<__gm__ float*>(begin));
    values_.SetGlobalBuffer(
        reinterpret_cast<__gm__ float*>(begin + t_->key_parts * t_->key_rows * dim_ * 4));
  }

  __aicore__ inline bool Used() const { return t_->key_parts > 1; }
  __aicore__ inline bool IsFirst(const GradStep& step) const {
    return step.item.head % t_->queries.group < t_->keys.group;
  }

  // The sums of a step's tile.
  __aicore__ inline AscendC::GlobalTensor<float> Keys(const GradStep& step) const {
    return keys_[RowOf(step.item, step.item.head / t_->keys.group, step.item.row) * dim_];
  }
  __aicore__ inline AscendC::GlobalTensor<float> Values(const GradStep& step) const {
    return values_[RowOf(step.item, step.item.head / t_->keys.group, step.item.row) * value_dim_];
  }

  // Adds up the parts of rows of a tile, which has a share of its rows with each part of its heads:
  // to[row] = factor * the sum. `room`: floats of a buffer of `inputs`.
  template <typename T, typename Inputs, typename Results>
  __aicore__ inline void Finish(const WorkItem& item, int64_t core, bool of_values,
                                const AscendC::GlobalTensor<T>& to, int64_t pitch, int32_t columns,
                                float factor, int32_t room, int32_t most, Inputs& inputs,
                                Results& results) {
    const int32_t padded = of_values ? value_dim_ : dim_;
    const auto parts = static_cast<int32_t>(t_->key_parts);
    const auto share = static_cast<int32_t>(item.head % parts * 2 + core);
    const int32_t end = item.rows * (share + 1) / (2 * parts);
    const auto step = static_cast<int32_t>(Min(most, room / (parts * padded)));
    const auto& from = of_values ? values_ : keys_;
    const int64_t head = item.head / parts * parts;
    for (int32_t at = item.rows * share / (2 * parts); at < end; at += step) {
      const auto rows = static_cast<int32_t>(Min(step, end - at));
      const int32_t count = rows * padded;
      auto sums = inputs.template AllocTensor<float>();
      auto result = results.template AllocTensor<T>();
      CopyRowsIn(sums, from[RowOf(item, head, item.row + at) * padded], t_->key_rows * padded,
                 parts, count, count);
      inputs.EnQue(sums);
      sums = inputs.template DeQue<float>();
      for (int32_t part = 1; part < parts; ++part) {
        AscendC::Add(sums, sums, sums[static_cast<uint32_t>(part * count)], count);
        AscendC::PipeBarrier<PIPE_V>();
      }
      AscendC::Muls(sums, sums, factor, count);
      AscendC::PipeBarrier<PIPE_V>();
      RoundRows(result, sums, count);
      inputs.FreeTensor(sums);
      results.EnQue(result);
      result = results.template DeQue<T>();
      CopyRowsOut(to[at * pitch], pitch, result, rows, columns, padded);
      results.FreeTensor(result);
    }
  }

 private:
  // `head`: of a tile, a part of a key head.
  __aicore__ inline int64_t RowOf(const WorkItem& item, int64_t head, int64_t row) const {
    const int64_t parts = t_->key_parts, heads = t_->keys.heads / parts;
    const int64_t keys = t_->key_rows / heads;
    const int64_t start = t_->keys.packed != 0 ? item.key_start : item.segment * t_->keys.keys;
    return (head % parts * heads + head / parts) * keys + start + row;
  }

  const FlashAttentionScoreGradTilingData* t_ = nullptr;
  int32_t dim_ = 0, value_dim_ = 0;
  AscendC::GlobalTensor<float> keys_, values_;
};

}  // namespace nsa::ascend
