// A vector core of FlashAttentionScore: the online softmax, masks and biases, and the sum of the
// steps' outputs. Each of the two has half of the rows of every tile.
#pragma once

#include "ascendc/attention/handover.h"
#include "ascendc/attention/online_softmax.h"
#include "ascendc/attention/row_mask.h"
#include "ascendc/attention/row_store.h"
#include "ascendc/attention/score_bias.h"
#include "ascendc/attention/work_items.h"
#include "ascendc/flash_attention_score/op_kernel/flash_attention_score_tiling.h"

namespace nsa::ascend {

struct FlashAttentionScoreArguments {
  GM_ADDR pse;
  GM_ADDR drop;
  GM_ADDR q_starts;
  GM_ADDR kv_starts;
  GM_ADDR mask;
  GM_ADDR prefix;
  GM_ADDR query_ends;
  GM_ADDR key_ends;
  GM_ADDR sink;
  GM_ADDR softmax_max;
  GM_ADDR softmax_sum;
  GM_ADDR output;
  GM_ADDR workspace;
};

template <typename T>
class FlashAttentionScoreVector {
 public:
  __aicore__ inline void Init(AscendC::TPipe* pipe, const FlashAttentionScoreTilingData* tiling,
                              const FlashAttentionScoreArguments& g) {
    t_ = tiling;
    core_ = AscendC::GetSubBlockIdx();
    columns_ = RoundUp(static_cast<int32_t>(t_->value_dim), kBlockBytes / sizeof(T));
    pass_rows_ = static_cast<int32_t>(t_->pass_rows);
    const auto tile_rows = static_cast<int32_t>(t_->work.tile_rows);
    const auto value_dim = static_cast<int32_t>(t_->value_dim);
    part_rows_ = FlashAttentionScoreBuffers::PartRows(value_dim);
    half_rows_ = HalfRows(tile_rows);
    const FlashAttentionScoreWorkspace bytes(tile_rows, value_dim, sizeof(T));
    GM_ADDR mine = g.workspace + AscendC::GetBlockIdx() / 2 * bytes.Total();
    scores_.SetGlobalBuffer(reinterpret_cast<__gm__ float*>(mine));
    probabilities_.SetGlobalBuffer(reinterpret_cast<__gm__ T*>(mine + bytes.probabilities_begin));
    parts_.SetGlobalBuffer(reinterpret_cast<__gm__ float*>(mine + bytes.output_begin));
    out_.SetGlobalBuffer(reinterpret_cast<__gm__ T*>(g.output));
    max_out_.SetGlobalBuffer(reinterpret_cast<__gm__ float*>(g.softmax_max));
    sum_out_.SetGlobalBuffer(reinterpret_cast<__gm__ float*>(g.softmax_sum));
    sink_.SetGlobalBuffer(reinterpret_cast<__gm__ float*>(g.sink));
    InitBuffers(pipe,
                FlashAttentionScoreBuffers(tile_rows, pass_rows_, value_dim, sizeof(T), t_->bias));
    row_mask_.Init(mask_buffer_.template Get<float>(), pass_rows_);
    bias_.Init(&t_->bias, t_->work.heads, g.pse, g.mask, g.drop, g.q_starts, g.kv_starts,
               row_mask_.Columns(), bias_buffer_.template Get<float>(), pass_rows_, pass_rows_);
    ahead_.Init(&t_->work, &t_->mask, g.query_ends, g.key_ends, g.prefix);
    behind_.Init(&t_->work, &t_->mask, g.query_ends, g.key_ends, g.prefix);
  }

  __aicore__ inline void Process() {
    KeyStep step{};
    for (int64_t i = 0, left = 1; left > 0; ++i) {
      left = 0;
      if (ahead_.Next(&step)) {
        Softmax(step);
        left = 1;
      }
      if (i < kStepsAhead) {
        left = 1;
      } else if (behind_.Next(&step)) {
        Accumulate(step);
        left = 1;
      }
    }
  }

 private:
  __aicore__ inline void InitBuffers(AscendC::TPipe* pipe,
                                     const FlashAttentionScoreBuffers& bytes) {
    pipe->InitBuffer(inputs_, 2, bytes.inputs);
    pipe->InitBuffer(probabilities_out_, static_cast<uint8_t>(bytes.probability_buffers),
                     bytes.probabilities);
    pipe->InitBuffer(parts_in_, 2, bytes.part);
    pipe->InitBuffer(result_out_, 1, bytes.result);
    pipe->InitBuffer(statistics_out_, 1, bytes.statistics_out);
    pipe->InitBuffer(output_buffer_, bytes.output);
    pipe->InitBuffer(statistics_buffer_, bytes.statistics);
    pipe->InitBuffer(folded_buffer_, bytes.folded);
    pipe->InitBuffer(spread_buffer_, bytes.spread);
    pipe->InitBuffer(mask_buffer_, bytes.mask);
    pipe->InitBuffer(bias_buffer_, static_cast<uint32_t>(Max(bytes.bias, kBlockBytes)));
    output_ = output_buffer_.template Get<float>();
    statistics_ = statistics_buffer_.template Get<float>();
    folded_ = folded_buffer_.template Get<float>();
    spread_ = spread_buffer_.template Get<float>();
    // Instructions over eight rows also read rows that a pass does not have.
    AscendC::Duplicate(folded_, 0.0f, pass_rows_ * (kRepeatFloats + kBlockFloats));
    AscendC::Duplicate(statistics_, 0.0f, 3 * kSlots * half_rows_);
    AscendC::PipeBarrier<PIPE_V>();
  }

  // P = exp(S - max) of a step for this core's rows; maximum and sum go on.
  __aicore__ inline void Softmax(const KeyStep& step) {
    const RowShare share(core_, step.item.rows);
    if (step.first) StartRows(step, share);
    if (step.keys == 0) return;
    Await<Handover::kScores>(step.index);
    const int64_t slot = step.index % kSlots * t_->work.tile_rows * kStepKeys;
    if (share.rows > 0) Load(step, share, 0, slot);
    for (int32_t at = 0; at < share.rows; at += pass_rows_) {
      if (at + pass_rows_ < share.rows) Load(step, share, at + pass_rows_, slot);
      SoftmaxPass(step, share, at, slot);
    }
    HandOver<Handover::kProbabilities>(step.index);
  }

  __aicore__ inline void StartRows(const KeyStep& step, const RowShare& share) {
    if (share.rows == 0) return;
    const int32_t rows = RoundUp(share.rows, kRowMultiple);
    float sink = kLowest;
    if (t_->sink != 0) sink = sink_.GetValue(static_cast<uint64_t>(step.item.head));
    AscendC::Duplicate(Maximum(step), sink, rows);
    AscendC::Duplicate(Sum(step), t_->sink != 0 ? 1.0f : 0.0f, rows);
    AscendC::PipeBarrier<PIPE_V>();
  }

  __aicore__ inline PassRows Pass(const KeyStep& step, const RowShare& share, int32_t at) const {
    return PassRows(static_cast<int32_t>(Min(pass_rows_, share.rows - at)), step.keys);
  }

  __aicore__ inline void Load(const KeyStep& step, const RowShare& share, int32_t at,
                              int64_t slot) {
    const PassRows g = Pass(step, share, at);
    auto inputs = inputs_.template AllocTensor<float>();
    const int64_t from = slot + (share.begin + at) * int64_t{kStepKeys};
    CopyRowsIn(inputs, scores_[from], kStepKeys, g.rows, g.keys, g.width);
    bias_.Load(inputs, step.item, step.item.row + share.begin + at, step.key, g);
    inputs_.EnQue(inputs);
  }

  __aicore__ inline void SoftmaxPass(const KeyStep& step, const RowShare& share, int32_t at,
                                     int64_t slot) {
    const PassRows g = Pass(step, share, at);
    const int64_t row = step.item.row + share.begin + at;
    auto scores = inputs_.template DeQue<float>();
    bias_.Apply(scores, step.item, row, step.key, g);
    row_mask_.Apply(scores, step.item.visible, row, step.key, g);
    const auto first = static_cast<uint32_t>(at);
    UpdateSoftmax(scores, Maximum(step)[first], Sum(step)[first], Factors(step)[first],
                  {folded_, spread_, pass_rows_}, g);
    bias_.PrepareDrop(scores, step.item, row, step.key, g);
    bias_.Drop(scores, scores, g);
    Store(scores, slot + (share.begin + at) * int64_t{kStepKeys}, g);
    inputs_.FreeTensor(scores);
  }

  __aicore__ inline void Store(const AscendC::LocalTensor<float>& x, int64_t to,
                               const PassRows& g) {
    constexpr int32_t kPerBlock = kBlockBytes / sizeof(T);
    auto p = probabilities_out_.template AllocTensor<T>();
    RoundRows(p, x, g.floats());
    probabilities_out_.EnQue(p);
    p = probabilities_out_.template DeQue<T>();
    const int32_t blocks = CeilDiv(g.keys, kPerBlock);
    AscendC::DataCopy(
        probabilities_[to], p,
        AscendC::DataCopyParams(static_cast<uint16_t>(g.rows), static_cast<uint16_t>(blocks),
                                static_cast<uint16_t>(g.width / kPerBlock - blocks),
                                static_cast<uint16_t>(kStepKeys / kPerBlock - blocks)));
    probabilities_out_.FreeTensor(p);
  }

  // O = O factor + the step's output; after the last step O and the statistics are stored.
  __aicore__ inline void Accumulate(const KeyStep& step) {
    const RowShare share(core_, step.item.rows);
    if (step.keys > 0) {
      Await<Handover::kPartialOutput>(step.index);
      for (int32_t at = 0; at < share.rows; at += part_rows_)
        AddPart(step, share, at, static_cast<int32_t>(Min(part_rows_, share.rows - at)));
    } else if (share.rows > 0) {
      AscendC::Duplicate(output_, 0.0f, share.rows * columns_);
      AscendC::PipeBarrier<PIPE_V>();
    }
    if (!step.last) return;
    for (int32_t at = 0; at < share.rows; at += part_rows_)
      StoreRows(step, share, at, static_cast<int32_t>(Min(part_rows_, share.rows - at)));
  }

  __aicore__ inline void AddPart(const KeyStep& step, const RowShare& share, int32_t at,
                                 int32_t rows) {
    const int64_t from = (step.index % kSlots * t_->work.tile_rows + share.begin + at) * columns_;
    auto part = parts_in_.template AllocTensor<float>();
    AscendC::DataCopy(part, parts_[from], static_cast<uint32_t>(rows * columns_));
    parts_in_.EnQue(part);
    const auto output = output_[static_cast<uint32_t>(at * columns_)];
    if (!step.first) {
      SpreadRows(spread_, Factors(step)[static_cast<uint32_t>(at)], RoundUp(rows, kRowMultiple));
      WithRowValue<true>(output, spread_, rows, columns_, columns_);
    }
    part = parts_in_.template DeQue<float>();
    if (step.first) {
      AscendC::Adds(output, part, 0.0f, rows * columns_);
    } else {
      AscendC::Add(output, output, part, rows * columns_);
    }
    AscendC::PipeBarrier<PIPE_V>();
    parts_in_.FreeTensor(part);
  }

  __aicore__ inline void StoreRows(const KeyStep& step, const RowShare& share, int32_t at,
                                   int32_t rows) {
    const WorkItem& item = step.item;
    const int32_t padded = RoundUp(rows, kRowMultiple);
    const auto output = output_[static_cast<uint32_t>(at * columns_)];
    auto blocks = statistics_out_.template AllocTensor<float>();
    auto sums = blocks[static_cast<uint32_t>(part_rows_ * kBlockFloats)];
    SpreadRows(blocks, Maximum(step)[static_cast<uint32_t>(at)], padded);
    SpreadRows(sums, Sum(step)[static_cast<uint32_t>(at)], padded);
    MarkEmptyRows(sums, folded_.template ReinterpretCast<uint8_t>(), padded);
    DivideRows(output, sums, rows, columns_);
    if (t_->bias.inv_keep != 1.0f) {
      AscendC::Muls(output, output, t_->bias.inv_keep, rows * columns_);
      AscendC::PipeBarrier<PIPE_V>();
    }
    auto result = result_out_.template AllocTensor<T>();
    RoundRows(result, output, rows * columns_);
    statistics_out_.EnQue(blocks);
    result_out_.EnQue(result);
    blocks = statistics_out_.template DeQue<float>();
    sums = blocks[static_cast<uint32_t>(part_rows_ * kBlockFloats)];
    const int64_t first = item.row + share.begin + at;
    const int64_t statistics = Offset(t_->statistics, item, first);
    CopyStatisticsOut(max_out_[statistics], t_->statistics.row, blocks, rows);
    CopyStatisticsOut(sum_out_[statistics], t_->statistics.row, sums, rows);
    statistics_out_.FreeTensor(blocks);
    result = result_out_.template DeQue<T>();
    CopyRowsOut(out_[Offset(t_->output, item, first)], t_->output.row, result, rows,
                static_cast<int32_t>(t_->value_dim), columns_);
    result_out_.FreeTensor(result);
  }

  // Offset of a row of an item's segment.
  __aicore__ inline int64_t Offset(const TensorStrides& s, const WorkItem& item,
                                   int64_t row) const {
    return (t_->work.packed != 0 ? 0 : item.segment * s.batch) + (item.query_start + row) * s.row +
           item.head * s.head;
  }
  // Maxima of the rows of a tile. The softmax may be two tiles ahead of the output.
  __aicore__ inline AscendC::LocalTensor<float> Maximum(const KeyStep& step) const {
    return statistics_[static_cast<uint32_t>(step.tile % kSlots * 2 * half_rows_)];
  }
  __aicore__ inline AscendC::LocalTensor<float> Sum(const KeyStep& step) const {
    return statistics_[static_cast<uint32_t>((step.tile % kSlots * 2 + 1) * half_rows_)];
  }
  // Factors that rescale the earlier steps of the rows of a step.
  __aicore__ inline AscendC::LocalTensor<float> Factors(const KeyStep& step) const {
    return statistics_[static_cast<uint32_t>((2 * kSlots + step.index % kSlots) * half_rows_)];
  }

  const FlashAttentionScoreTilingData* t_ = nullptr;
  int64_t core_ = 0;  // of the block's two
  int32_t columns_ = 0, pass_rows_ = 0, part_rows_ = 0, half_rows_ = 0;
  KeySteps ahead_, behind_;  // of the softmax, of the output
  RowMask row_mask_;
  ScoreBias<T> bias_;
  AscendC::GlobalTensor<float> scores_, parts_, max_out_, sum_out_, sink_;
  AscendC::GlobalTensor<T> probabilities_, out_;
  AscendC::TQue<AscendC::TPosition::VECIN, 2> inputs_, parts_in_;
  AscendC::TQue<AscendC::TPosition::VECOUT, 2> probabilities_out_;
  AscendC::TQue<AscendC::TPosition::VECOUT, 1> result_out_, statistics_out_;
  AscendC::TBuf<AscendC::TPosition::VECCALC> output_buffer_, statistics_buffer_, folded_buffer_,
      spread_buffer_, mask_buffer_, bias_buffer_;
  AscendC::LocalTensor<float> output_;      // [rows, columns]
  AscendC::LocalTensor<float> statistics_;  // of three tiles [2, rows], of three steps [rows]
  AscendC::LocalTensor<float> folded_, spread_;
};

}  // namespace nsa::ascend
