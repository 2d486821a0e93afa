// A vector core of FlashAttentionScoreGrad: Dvec of every row, then P and dS = P (dP - Dvec) of
// every step, and the rounding of the gradients. Each of the two of a block has half of the rows.
#pragma once

#include "ascendc/attention/grad_steps.h"
#include "ascendc/attention/handover.h"
#include "ascendc/attention/row_grads.h"
#include "ascendc/attention/row_mask.h"
#include "ascendc/attention/score_bias.h"
#include "ascendc/attention/sink_grad.h"
#include "ascendc/flash_attention_score_grad/op_kernel/flash_attention_score_grad_bias.h"
#include "ascendc/flash_attention_score_grad/op_kernel/flash_attention_score_grad_cube.h"

namespace nsa::ascend {

template <typename T>
class FlashAttentionScoreGradVector {
 public:
  __aicore__ inline void Init(AscendC::TPipe* pipe, const FlashAttentionScoreGradTilingData* tiling,
                              const FlashAttentionScoreGradArguments& g) {
    t_ = tiling;
    g_ = g;
    core_ = AscendC::GetSubBlockIdx();
    dim_ = static_cast<int32_t>(t_->dim);
    value_dim_ = static_cast<int32_t>(t_->value_dim);
    tile_rows_ = static_cast<int32_t>(t_->queries.tile_rows);
    const int32_t widest = static_cast<int32_t>(Max(dim_, value_dim_));
    part_rows_ = FlashAttentionScoreGradBuffers::PartRows(widest);
    const FlashAttentionScoreGradWorkspace bytes(tile_rows_, dim_, value_dim_, sizeof(T),
                                                 t_->pse_tile);
    GM_ADDR mine = g_.workspace + FlashAttentionScoreGradWorkspace::SharedBytes(*t_) +
                   AscendC::GetBlockIdx() / 2 * bytes.Total();
    SetTensors(bytes, mine);
    InitBuffers(pipe, FlashAttentionScoreGradBuffers(widest, sizeof(T), t_->bias));
    const int64_t part_floats = Min(part_rows_ * RoundUp(widest, 16), kFoldedFloats);
    bias_grad_.Init(pipe, t_, g.workspace, mine + bytes.pse_begin, g.pse_grad,
                    folded_buffer_.template Get<float>(), static_cast<int32_t>(part_floats));
    key_parts_.Init(t_, g.workspace, dim_, value_dim_, sizeof(T));
    row_mask_.Init(mask_buffer_.template Get<float>(), kGradMostRows);
    bias_.Init(&t_->bias, t_->queries.heads, g.pse, g.mask, g.drop, g.q_starts, g.kv_starts,
               row_mask_.Columns(), bias_buffer_.template Get<float>(), kGradPassRows,
               kGradMostRows);
  }

  // The statistics of this core's share of all rows, which cost the same whatever they see. All
  // cores' are needed by Process.
  __aicore__ inline void Prepare() {
    const WorkTiling& work = t_->queries;
    const int64_t most =
        Min(kGradMostRows, kGradPassFloats / 2 / RoundUp(value_dim_, kRepeatFloats));
    const int64_t passes = (work.queries + most - 1) / most;
    const int64_t all = (work.packed != 0 ? 1 : work.segments) * work.heads * passes;
    const int64_t cores = AscendC::GetBlockNum() * 2, core = AscendC::GetBlockIdx();
    WorkItem item{};
    for (int64_t at = all * core / cores; at < all * (core + 1) / cores; ++at) {
      item.segment = at / passes / work.heads;
      item.head = at / passes % work.heads;
      const int64_t row = at % passes * most;
      Statistics(item, row,
                 PassRows(static_cast<int32_t>(Min(most, work.queries - row)), value_dim_));
    }
    ClearTheRest();
  }

  __aicore__ inline void Process() {
    if (t_->sink != 0) SinkGradients();
    GradSteps ahead, behind;
    ahead.Init(&t_->queries, &t_->keys, &t_->mask, g_.query_ends, g_.key_ends, g_.prefix,
               g_.offsets);
    behind.Init(&t_->queries, &t_->keys, &t_->mask, g_.query_ends, g_.key_ends, g_.prefix,
                g_.offsets);
    GradStep step{};
    for (int64_t i = 0, left = 1; left > 0; ++i) {
      left = 0;
      if (ahead.Next(&step)) {
        const bool over_entries = bias_grad_.OverEntries() && !step.by_keys;
        const RowShare share(core_, step.item.rows);
        if (over_entries && step.first) bias_grad_.BeginTile(step, share, outputs_);
        if (!step.empty()) Probabilities(step);
        if (over_entries && step.last)
          bias_grad_.EndTile(step, share, bias_.PseOffset(step.item, step.item.row + share.begin),
                             bias_.PsePitch(step.item), parts_in_, result_out_);
        left = 1;
      }
      if (i < kStepsAhead) {
        left = 1;
      } else if (behind.Next(&step)) {
        if (step.last) Finish(step);
        left = 1;
      }
    }
    if (bias_grad_.OverQueries()) {
      AscendC::SyncAll();
      bias_grad_.Finish(parts_in_, result_out_);
    }
  }

  // dk and dv of the parts of all tiles of keys, when all cores have stored theirs.
  __aicore__ inline void FinishParts() {
    WorkItems items;
    items.Init(&t_->keys, &t_->mask, g_.query_ends, g_.key_ends, g_.prefix, g_.offsets);
    const auto room = static_cast<int32_t>(GradPassInputs(t_->bias, sizeof(T)).total / 4);
    WorkItem item{};
    while (items.Next(&item)) {
      const QuerySpan span =
          SpanOf(VisibleQueries{item.visible, item.queries}, item.row, item.rows);
      if (span.begin >= span.end) continue;
      const int64_t head = item.head / t_->key_parts;
      key_parts_.Finish(item, core_, false,
                        key_grad_[Offset(t_->key, item, item.key_start, item.row, head)],
                        t_->key.row, dim_, t_->bias.scale, room, part_rows_, inputs_, result_out_);
      key_parts_.Finish(item, core_, true,
                        value_grad_[Offset(t_->value, item, item.key_start, item.row, head)],
                        t_->value.row, value_dim_, 1.0f, room, part_rows_, inputs_, result_out_);
    }
  }

 private:
  static constexpr int32_t kFoldedFloats = kGradMostRows * (kRepeatFloats + kBlockFloats);

  __aicore__ inline void SetTensors(const FlashAttentionScoreGradWorkspace& bytes, GM_ADDR mine) {
    statistics_.SetGlobalBuffer(reinterpret_cast<__gm__ float*>(g_.workspace));
    scores_.SetGlobalBuffer(reinterpret_cast<__gm__ float*>(mine));
    product_grads_.SetGlobalBuffer(
        reinterpret_cast<__gm__ float*>(mine + bytes.product_grads_begin));
    probabilities_.SetGlobalBuffer(reinterpret_cast<__gm__ T*>(mine + bytes.probabilities_begin));
    score_grads_.SetGlobalBuffer(reinterpret_cast<__gm__ T*>(mine + bytes.score_grads_begin));
    sums_.SetGlobalBuffer(reinterpret_cast<__gm__ float*>(mine + bytes.sums_begin));
    sums_floats_ = bytes.sums / 4;
    max_.SetGlobalBuffer(reinterpret_cast<__gm__ float*>(g_.softmax_max));
    sum_.SetGlobalBuffer(reinterpret_cast<__gm__ float*>(g_.softmax_sum));
    sum_grad_.SetGlobalBuffer(reinterpret_cast<__gm__ float*>(g_.softmax_sum_grad));
    output_.SetGlobalBuffer(reinterpret_cast<__gm__ T*>(g_.output));
    output_grad_.SetGlobalBuffer(reinterpret_cast<__gm__ T*>(g_.output_grad));
    query_grad_.SetGlobalBuffer(reinterpret_cast<__gm__ T*>(g_.query_grad));
    key_grad_.SetGlobalBuffer(reinterpret_cast<__gm__ T*>(g_.key_grad));
    pse_grad_.SetGlobalBuffer(reinterpret_cast<__gm__ T*>(g_.pse_grad));
    value_grad_.SetGlobalBuffer(reinterpret_cast<__gm__ T*>(g_.value_grad));
  }

  __aicore__ inline void InitBuffers(AscendC::TPipe* pipe,
                                     const FlashAttentionScoreGradBuffers& bytes) {
    pipe->InitBuffer(inputs_, static_cast<uint8_t>(t_->input_buffers), bytes.inputs);
    pipe->InitBuffer(outputs_, static_cast<uint8_t>(bytes.output_buffers), bytes.outputs);
    pipe->InitBuffer(parts_in_, 2, bytes.part);
    pipe->InitBuffer(result_out_, 1, bytes.result);
    pipe->InitBuffer(statistics_out_, 1, kGradMostRows * kBlockBytes);
    pipe->InitBuffer(statistics_buffer_, 3 * kGradMostRows * kBlockBytes);
    pipe->InitBuffer(folded_buffer_, bytes.folded);
    pipe->InitBuffer(mask_buffer_, bytes.mask);
    pipe->InitBuffer(bias_buffer_, bytes.bias);
    // Instructions over eight rows also read rows that a pass does not have.
    AscendC::Duplicate(folded_buffer_.template Get<float>(), 0.0f, kFoldedFloats);
    AscendC::PipeBarrier<PIPE_V>();
  }

  // Offset of the query `row` of an item's segment, or of the key.
  __aicore__ inline int64_t Offset(const TensorStrides& s, const WorkItem& item, int64_t start,
                                   int64_t row, int64_t head) const {
    return (t_->queries.packed != 0 ? 0 : item.segment * s.batch) + (start + row) * s.row +
           head * s.head;
  }
  __aicore__ inline int64_t QueryOffset(const TensorStrides& s, const WorkItem& item,
                                        int64_t row) const {
    return Offset(s, item, item.query_start, row, item.head);
  }

  __aicore__ inline void Statistics(const WorkItem& item, int64_t row, const PassRows& g) {
    auto inputs = inputs_.template AllocTensor<float>();
    const auto raw = inputs.template ReinterpretCast<T>();
    const int64_t at = QueryOffset(t_->output, item, row);
    const auto floats = static_cast<uint32_t>(g.floats());
    CopyRowsIn(raw, output_[at], t_->output.row, g.rows, g.keys, g.width);
    CopyRowsIn(raw[floats], output_grad_[at], t_->output.row, g.rows, g.keys, g.width);
    const auto max = inputs[GradPassInputs(t_->bias, sizeof(T)).statistics / 4];
    const auto sum = max[kGradMostRows * kBlockFloats];
    const int64_t statistics = QueryOffset(t_->statistics, item, row);
    const auto gap = static_cast<uint16_t>(t_->statistics.row / kBlockFloats - 1);
    const AscendC::DataCopyParams blocks(static_cast<uint16_t>(g.rows), 1, gap, 0);
    AscendC::DataCopy(max, max_[statistics], blocks);
    AscendC::DataCopy(sum, sum_[statistics], blocks);
    inputs_.EnQue(inputs);
    inputs = inputs_.template DeQue<float>();
    // Behind the two of T; their products take the place of the first.
    const auto x = inputs[kGradPassFloats * sizeof(T) / 4], y = x[kGradPassFloats / 2];
    const int32_t rows = RoundUp(g.rows, kRowMultiple);
    auto all = statistics_out_.template AllocTensor<float>();
    DotRows(all[static_cast<uint32_t>(2 * rows)], raw, raw[floats], x, y,
            folded_buffer_.template Get<float>(), kGradMostRows, g);
    FirstOfBlocks(all, max, x, g.rows);
    FirstOfBlocks(all[static_cast<uint32_t>(rows)], sum, y, g.rows);
    inputs_.FreeTensor(inputs);
    if (t_->sum_grad != 0) {
      auto grads = inputs_.template AllocTensor<float>();
      AscendC::DataCopy(grads, sum_grad_[statistics], blocks);
      inputs_.EnQue(grads);
      grads = inputs_.template DeQue<float>();
      SubtractSumGrads(all[static_cast<uint32_t>(2 * rows)], all[static_cast<uint32_t>(rows)],
                       grads, grads[kGradMostRows * kBlockFloats], g.rows);
      inputs_.FreeTensor(grads);
    }
    statistics_out_.EnQue(all);
    all = statistics_out_.template DeQue<float>();
    CopyRowsOut(statistics_[QueryOffset(t_->row_statistics, item, row)], t_->statistics_floats, all,
                3, g.rows, rows);
    statistics_out_.FreeTensor(all);
  }

  __aicore__ inline void SinkGradients() {
    auto memory = inputs_.template AllocTensor<float>();
    SinkGrad().Run(t_->queries, t_->row_statistics, statistics_, t_->statistics_floats, g_.sink,
                   g_.sink_grad, memory);
    inputs_.FreeTensor(memory);
  }

  // This core's share of `count` elements from `begin` on becomes 0.
  template <typename E>
  __aicore__ inline void ClearShare(GM_ADDR tensor, int64_t begin, int64_t count) {
    const int64_t cores = AscendC::GetBlockNum() * 2, core = AscendC::GetBlockIdx();
    const int64_t end = begin + count * (core + 1) / cores;
    const int64_t most = kGradMostRows * kBlockBytes / static_cast<int64_t>(sizeof(E));
    AscendC::GlobalTensor<E> to;
    to.SetGlobalBuffer(reinterpret_cast<__gm__ E*>(tensor));
    auto zeros = statistics_out_.template AllocTensor<float>();
    AscendC::Duplicate(zeros, 0.0f, kGradMostRows * kBlockFloats);
    statistics_out_.EnQue(zeros);
    zeros = statistics_out_.template DeQue<float>();
    for (int64_t at = begin + count * core / cores; at < end; at += most) {
      const auto bytes = static_cast<uint32_t>(Min(most, end - at) * sizeof(E));
      AscendC::DataCopyPad(to[at], zeros.template ReinterpretCast<E>(),
                           AscendC::DataCopyExtParams(1, bytes, 0, 0, 0));
    }
    statistics_out_.FreeTensor(zeros);
  }

  // Zeroes the outputs that no tile writes: gradients of keys behind the last segment, which
  // compressed keys may have; of the bias of hidden scores; and the single elements of unused
  // outputs.
  __aicore__ inline void ClearTheRest() {
    const int64_t spare = t_->key_tokens - t_->segment_tokens;
    if (spare > 0) {
      ClearShare<T>(g_.key_grad, t_->segment_tokens * t_->key.row, spare * t_->key.row);
      ClearShare<T>(g_.value_grad, t_->segment_tokens * t_->value.row, spare * t_->value.row);
    }
    if (bias_grad_.OverQueries()) {
      ClearShare<float>(g_.workspace, FlashAttentionScoreGradWorkspace::StatisticsBytes(*t_) / 4,
                        t_->pse_copies * t_->pse_grad);
    } else if (!bias_grad_.OverEntries()) {
      ClearShare<T>(g_.pse_grad, 0, Max(1, t_->pse_grad));
    }
    if (t_->sink == 0) ClearShare<float>(g_.sink_grad, 0, 1);
  }

  __aicore__ inline int32_t Pitch(const GradStep& step) const {
    return step.by_keys ? tile_rows_ : kStepKeys;
  }
  __aicore__ inline int64_t Slot(const GradStep& step) const {
    return step.index % kSlots * tile_rows_ * kStepKeys;
  }
  __aicore__ inline static int32_t RowsOfPass(const GradStep& step) {
    const int32_t width = RoundUp(step.keys, kRepeatFloats);
    return static_cast<int32_t>(
        Min(kGradMostRows, RoundDown(kGradPassFloats / width, kRowMultiple)));
  }

  __aicore__ inline void Probabilities(const GradStep& step) {
    Await<Handover::kScores>(step.index);
    const RowShare share(core_, step.rows);
    const int32_t rows = RowsOfPass(step);
    const bool early = t_->input_buffers > 1;
    const bool over_queries = bias_grad_.OverQueries() && step.by_keys;
    if (over_queries && step.head_first) bias_grad_.BeginHead();
    if (early && share.rows > 0) Load(step, share, 0, rows);
    for (int32_t at = 0; at < share.rows; at += rows) {
      const int32_t load = early ? at + rows : at;
      if (load < share.rows) Load(step, share, load, rows);
      Pass(step, share, at, rows);
    }
    HandOver<Handover::kProbabilities>(step.index);
    if (over_queries && step.head_last)
      bias_grad_.EndHead(step, bias_.PseOffset(step.item, 0) + step.key);
  }

  __aicore__ inline void Load(const GradStep& step, const RowShare& share, int32_t at,
                              int32_t rows) {
    const PassRows g(static_cast<int32_t>(Min(rows, share.rows - at)), step.keys);
    const GradPassInputs place(t_->bias, sizeof(T));
    const int64_t row = step.row + share.begin + at;
    const int64_t from = Slot(step) + int64_t{share.begin + at} * Pitch(step);
    auto inputs = inputs_.template AllocTensor<float>();
    CopyRowsIn(inputs, scores_[from], Pitch(step), g.rows, g.keys, g.width);
    CopyRowsIn(inputs[place.product_grad / 4], product_grads_[from], Pitch(step), g.rows, g.keys,
               g.width);
    CopyRowsIn(inputs[place.statistics / 4],
               statistics_[QueryOffset(t_->row_statistics, step.item, row)], t_->statistics_floats,
               3, g.rows, RoundUp(g.rows, kRowMultiple));
    bias_.Load(inputs, step.item, row, step.key, g);
    inputs_.EnQue(inputs);
  }

  __aicore__ inline void Pass(const GradStep& step, const RowShare& share, int32_t at,
                              int32_t rows) {
    const PassRows g(static_cast<int32_t>(Min(rows, share.rows - at)), step.keys);
    const GradPassInputs place(t_->bias, sizeof(T));
    const int64_t row = step.row + share.begin + at;
    auto p = inputs_.template DeQue<float>();
    const auto dp = p[place.product_grad / 4];
    const auto max = statistics_buffer_.template Get<float>();
    const int32_t padded = RoundUp(g.rows, kRowMultiple);
    const auto sum = max[static_cast<uint32_t>(padded * kBlockFloats)];
    const auto row_sum = max[static_cast<uint32_t>(2 * padded * kBlockFloats)];
    SpreadRows(max, p[place.statistics / 4], 3 * padded);
    // P = exp(S - max) / sum
    bias_.Apply(p, step.item, row, step.key, g);
    row_mask_.Apply(p, step.item.visible, row, step.key, g);
    nsa::ascend::Probabilities(p, max, sum, g);
    // dS = P (dP - Dvec), dP of what dropout keeps
    FillTail(dp, 0.0f, g);
    bias_.PrepareDrop(p, step.item, row, step.key, g);
    Drop(dp, p, g);
    ScoreGrads(dp, p, row_sum, g);
    auto outputs = outputs_.template AllocTensor<T>();
    RoundRows(outputs, dp, g.floats());
    if (step.by_keys) {
      if (bias_grad_.OverQueries()) bias_grad_.AddRows(dp, g);
      Drop(p, p, g);
      RoundRows(outputs[kGradPassFloats], p, g.floats());
    } else if (StoresPseGrad()) {
      if (t_->bias.pse_before_scale != 0) ScaleRows(dp, t_->bias.scale, g);
      RoundRows(outputs[kGradPassFloats], dp, g.floats());
    }
    outputs_.EnQue(outputs);
    Store(step, row, Slot(step) + int64_t{share.begin + at} * Pitch(step), g);
    if (bias_grad_.OverEntries() && !step.by_keys) bias_grad_.AddTo(step, at, dp, g, outputs_);
    inputs_.FreeTensor(p);
  }

  // Every element of the bias belongs to one score: dS is its gradient.
  __aicore__ inline bool StoresPseGrad() const { return t_->pse_grad > 0 && bias_grad_.Unused(); }

  __aicore__ inline void Drop(const AscendC::LocalTensor<float>& x,
                              const AscendC::LocalTensor<float>& inputs, const PassRows& g) {
    if (t_->bias.inv_keep != 1.0f) {
      AscendC::Muls(x, x, t_->bias.inv_keep, g.floats());
      AscendC::PipeBarrier<PIPE_V>();
    }
    bias_.Drop(x, inputs, g);
  }

  __aicore__ inline void Store(const GradStep& step, int64_t row, int64_t to, const PassRows& g) {
    constexpr int32_t kPerBlock = kBlockBytes / sizeof(T);
    const int32_t blocks = CeilDiv(g.keys, kPerBlock);
    const AscendC::DataCopyParams params(static_cast<uint16_t>(g.rows),
                                         static_cast<uint16_t>(blocks),
                                         static_cast<uint16_t>(g.width / kPerBlock - blocks),
                                         static_cast<uint16_t>(Pitch(step) / kPerBlock - blocks));
    auto outputs = outputs_.template DeQue<T>();
    AscendC::DataCopy(score_grads_[to], outputs, params);
    if (step.by_keys) {
      AscendC::DataCopy(probabilities_[to], outputs[kGradPassFloats], params);
    } else if (StoresPseGrad()) {
      CopyRowsOut(pse_grad_[bias_.PseOffset(step.item, row) + step.key], bias_.PsePitch(step.item),
                  outputs[kGradPassFloats], g.rows, g.keys, g.width);
    }
    outputs_.FreeTensor(outputs);
  }

  // The gradients of a tile whose sums are complete.
  __aicore__ inline void Finish(const GradStep& step) {
    // Parts are added up in the end, but those of a tile that no query sees.
    if (step.by_keys && key_parts_.Used() && !(step.empty() && key_parts_.IsFirst(step))) return;
    if (!step.empty()) Await<Handover::kPartialOutput>(step.tile);
    const WorkItem& item = step.item;
    const int64_t sums = step.tile % kSlots * sums_floats_;
    if (!step.by_keys) {
      FinishRows(step, sums, query_grad_[QueryOffset(t_->query, item, item.row)], t_->query.row,
                 dim_, t_->bias.scale);
      return;
    }
    const int64_t head = item.head / t_->queries.group;
    FinishRows(step, sums, key_grad_[Offset(t_->key, item, item.key_start, item.row, head)],
               t_->key.row, dim_, t_->bias.scale);
    FinishRows(step, sums + int64_t{tile_rows_} * RoundUp(dim_, 16),
               value_grad_[Offset(t_->value, item, item.key_start, item.row, head)], t_->value.row,
               value_dim_, 1.0f);
  }

  __aicore__ inline void FinishRows(const GradStep& step, int64_t sums,
                                    const AscendC::GlobalTensor<T>& to, int64_t pitch,
                                    int32_t columns, float factor) {
    const int32_t padded = RoundUp(columns, kBlockBytes / sizeof(T));
    const RowShare share(core_, step.item.rows);
    for (int32_t at = 0; at < share.rows; at += part_rows_) {
      const int32_t rows = static_cast<int32_t>(Min(part_rows_, share.rows - at));
      auto result = result_out_.template AllocTensor<T>();
      auto part = parts_in_.template AllocTensor<float>();
      if (step.empty()) {
        parts_in_.FreeTensor(part);
        AscendC::Duplicate(result.template ReinterpretCast<int16_t>(), static_cast<int16_t>(0),
                           rows * padded * static_cast<int32_t>(sizeof(T)) / 2);
      } else {
        AscendC::DataCopy(part, sums_[sums + int64_t{share.begin + at} * padded],
                          static_cast<uint32_t>(rows * padded));
        parts_in_.EnQue(part);
        part = parts_in_.template DeQue<float>();
        AscendC::Muls(part, part, factor, rows * padded);
        AscendC::PipeBarrier<PIPE_V>();
        RoundRows(result, part, rows * padded);
        parts_in_.FreeTensor(part);
      }
      result_out_.EnQue(result);
      result = result_out_.template DeQue<T>();
      CopyRowsOut(to[(share.begin + at) * pitch], pitch, result, rows, columns, padded);
      result_out_.FreeTensor(result);
    }
  }

  const FlashAttentionScoreGradTilingData* t_ = nullptr;
  FlashAttentionScoreGradArguments g_{};
  int64_t core_ = 0;  // of the block's two
  int32_t dim_ = 0, value_dim_ = 0, tile_rows_ = 0, part_rows_ = 0;
  int64_t sums_floats_ = 0;
  KeyParts key_parts_;
  RowMask row_mask_;
  ScoreBias<T> bias_;
  SharedBiasGrad<T> bias_grad_;
  AscendC::GlobalTensor<float> statistics_, scores_, product_grads_, sums_, max_, sum_, sum_grad_;
  AscendC::GlobalTensor<T> probabilities_, score_grads_, output_, output_grad_;
  AscendC::GlobalTensor<T> query_grad_, key_grad_, value_grad_, pse_grad_;
  AscendC::TQue<AscendC::TPosition::VECIN, 2> inputs_, parts_in_;
  AscendC::TQue<AscendC::TPosition::VECOUT, 2> outputs_;
  AscendC::TQue<AscendC::TPosition::VECOUT, 1> result_out_, statistics_out_;
  AscendC::TBuf<AscendC::TPosition::VECCALC> statistics_buffer_, folded_buffer_, mask_buffer_,
      bias_buffer_;
};

}  // namespace nsa::ascend
