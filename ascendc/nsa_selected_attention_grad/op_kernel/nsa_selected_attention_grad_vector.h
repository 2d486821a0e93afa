// A vector core of NsaSelectedAttentionGrad: the lists of selected blocks and of the queries that
// select a block, Dvec of every row, P and dS = P (dP - Dvec) of every step, and the rounding of
// the gradients. Each of the two of a block has half of the rows.
#pragma once

#include "ascendc/attention/block_inversion.h"
#include "ascendc/attention/row_grads.h"
#include "ascendc/attention/selected_rows.h"
#include "ascendc/attention/selection_sort.h"
#include "ascendc/nsa_selected_attention_grad/op_kernel/nsa_selected_attention_grad_cube.h"

namespace nsa::ascend {

template <typename T>
class NsaSelectedAttentionGradVector {
 public:
  __aicore__ inline void Init(AscendC::TPipe* pipe,
                              const NsaSelectedAttentionGradTilingData* tiling,
                              const NsaSelectedAttentionGradArguments& g) {
    t_ = tiling;
    g_ = g;
    core_ = AscendC::GetSubBlockIdx();
    group_ = static_cast<int32_t>(t_->selection.group);
    dim_ = static_cast<int32_t>(t_->dim);
    value_dim_ = static_cast<int32_t>(t_->value_dim);
    const int64_t widest = Max(dim_, value_dim_);
    part_rows_ = NsaSelectedAttentionGradBuffers::PartRows(widest);
    SetTensors(NsaSelectedAttentionGradWorkspace(*t_));
    InitBuffers(pipe, NsaSelectedAttentionGradBuffers(widest));
    rows_.Init(&t_->selection, g.workspace);
  }

  // The lists of this core's share of the queries, and Dvec of its share of the rows. All cores'
  // lists are needed by CountQueries, all counts by ListQueries, everything by Process.
  __aicore__ inline void SortLists() {
    WorkItems tiles;
    tiles.Init(&t_->queries, &t_->mask, g_.query_ends, g_.key_ends, nullptr, g_.offsets);
    auto memory = inputs_.template AllocTensor<float>();
    SelectionSort().Run(g_.indices, g_.workspace, t_->selection, &tiles, memory);
    inputs_.FreeTensor(memory);
    const int64_t cores = AscendC::GetBlockNum() * AscendC::GetTaskRation();
    const int64_t core = AscendC::GetBlockIdx(), rows = t_->query_tokens * t_->query_heads;
    const int32_t width = RoundUp(value_dim_, kRepeatFloats);
    const auto most = static_cast<int32_t>(Min(
        kSelectedGradMostRows, RoundDown(kSelectedGradFloats * 8 / (12 * width), kRowMultiple)));
    const int64_t end = rows * (core + 1) / cores;
    for (int64_t row = rows * core / cores; row < end; row += most)
      RowSums(row, PassRows(static_cast<int32_t>(Min(most, end - row)), value_dim_));
  }
  __aicore__ inline void CountQueries() {
    auto memory = inputs_.template AllocTensor<float>();
    Inversion(memory).Count();
    inputs_.FreeTensor(memory);
  }
  __aicore__ inline void ListQueries() {
    auto memory = inputs_.template AllocTensor<float>();
    Inversion(memory).List();
    inputs_.FreeTensor(memory);
  }

  __aicore__ inline void Process() {
    QueryGradients();
    BlockGradients();
  }

 private:
  __aicore__ inline void SetTensors(const NsaSelectedAttentionGradWorkspace& bytes) {
    GM_ADDR mine = g_.workspace + bytes.parts_begin + AscendC::GetBlockIdx() / 2 * bytes.each;
    counts_ = g_.workspace + bytes.counts_begin;
    block_queries_ = g_.workspace + bytes.queries_begin;
    queries_.SetGlobalBuffer(reinterpret_cast<__gm__ int32_t*>(block_queries_));
    row_sums_.SetGlobalBuffer(reinterpret_cast<__gm__ float*>(g_.workspace + bytes.row_sums_begin));
    scores_.SetGlobalBuffer(reinterpret_cast<__gm__ float*>(mine));
    product_grads_.SetGlobalBuffer(
        reinterpret_cast<__gm__ float*>(mine + bytes.product_grads_begin));
    probabilities_.SetGlobalBuffer(reinterpret_cast<__gm__ T*>(mine + bytes.probabilities_begin));
    score_grads_.SetGlobalBuffer(reinterpret_cast<__gm__ T*>(mine + bytes.score_grads_begin));
    sums_.SetGlobalBuffer(reinterpret_cast<__gm__ float*>(mine + bytes.sums_begin));
    slot_scores_ = bytes.scores / 4;
    slot_sums_ = bytes.sums / 4;
    max_.SetGlobalBuffer(reinterpret_cast<__gm__ float*>(g_.softmax_max));
    sum_.SetGlobalBuffer(reinterpret_cast<__gm__ float*>(g_.softmax_sum));
    sum_grad_.SetGlobalBuffer(reinterpret_cast<__gm__ float*>(g_.softmax_sum_grad));
    output_.SetGlobalBuffer(reinterpret_cast<__gm__ T*>(g_.output));
    output_grad_.SetGlobalBuffer(reinterpret_cast<__gm__ T*>(g_.output_grad));
    query_grad_.SetGlobalBuffer(reinterpret_cast<__gm__ T*>(g_.query_grad));
    key_grad_.SetGlobalBuffer(reinterpret_cast<__gm__ T*>(g_.key_grad));
    value_grad_.SetGlobalBuffer(reinterpret_cast<__gm__ T*>(g_.value_grad));
  }

  __aicore__ inline void InitBuffers(AscendC::TPipe* pipe,
                                     const NsaSelectedAttentionGradBuffers& bytes) {
    pipe->InitBuffer(inputs_, 2, bytes.inputs);
    pipe->InitBuffer(outputs_, 2, bytes.outputs);
    pipe->InitBuffer(parts_in_, 2, bytes.part);
    pipe->InitBuffer(result_out_, 1, bytes.result);
    pipe->InitBuffer(row_sums_out_, 1, kSelectedGradMostRows * kBlockBytes);
    pipe->InitBuffer(row_sums_buffer_, kSelectedGradMostRows * 4);
    pipe->InitBuffer(folded_buffer_, bytes.folded);
    // Instructions over eight rows also read rows that a pass does not have.
    AscendC::Duplicate(folded_buffer_.template Get<float>(), 0.0f,
                       kSelectedGradMostRows * (kRepeatFloats + kBlockFloats));
    AscendC::Duplicate(row_sums_buffer_.template Get<float>(), 0.0f, kSelectedGradMostRows);
    AscendC::PipeBarrier<PIPE_V>();
  }

  __aicore__ inline BlockInversion Inversion(const AscendC::LocalTensor<float>& memory) {
    BlockInversion inversion;
    inversion.Init(&t_->blocks, &t_->mask, &t_->selection, g_.query_ends, g_.key_ends, g_.offsets,
                   g_.workspace, counts_, block_queries_, memory);
    return inversion;
  }

  // Dvec of the rows of all tokens and heads from `row` on.
  __aicore__ inline void RowSums(int64_t row, const PassRows& g) {
    auto inputs = inputs_.template AllocTensor<float>();
    const auto raw = inputs.template ReinterpretCast<T>();
    const auto floats = static_cast<uint32_t>(g.floats());
    CopyRowsIn(raw, output_[row * value_dim_], value_dim_, g.rows, g.keys, g.width);
    CopyRowsIn(raw[floats], output_grad_[row * value_dim_], value_dim_, g.rows, g.keys, g.width);
    inputs_.EnQue(inputs);
    inputs = inputs_.template DeQue<float>();
    const auto sums = row_sums_buffer_.template Get<float>();
    DotRows(sums, raw, raw[floats], inputs[floats], inputs[2 * floats],
            folded_buffer_.template Get<float>(), kSelectedGradMostRows, g);
    inputs_.FreeTensor(inputs);
    if (t_->sum_grad != 0) AddSumGrads(sums, row, g.rows);
    auto blocks = row_sums_out_.template AllocTensor<float>();
    SpreadRows(blocks, sums, RoundUp(g.rows, kRowMultiple));
    row_sums_out_.EnQue(blocks);
    blocks = row_sums_out_.template DeQue<float>();
    AscendC::DataCopy(row_sums_[row * kBlockFloats], blocks,
                      static_cast<uint32_t>(g.rows * kBlockFloats));
    row_sums_out_.FreeTensor(blocks);
  }

  // Adds the gradient of softmax_sum to Dvec of `rows` rows from `row` on.
  __aicore__ inline void AddSumGrads(const AscendC::LocalTensor<float>& dvec, int64_t row,
                                     int32_t rows) {
    constexpr uint32_t kFloats = kSelectedGradMostRows * kBlockFloats;
    const auto count = static_cast<uint32_t>(rows * kBlockFloats);
    auto grads = inputs_.template AllocTensor<float>();
    AscendC::DataCopy(grads, sum_grad_[row * kBlockFloats], count);
    AscendC::DataCopy(grads[kFloats], sum_[row * kBlockFloats], count);
    inputs_.EnQue(grads);
    grads = inputs_.template DeQue<float>();
    const auto sums = grads[2 * kFloats], scratch = grads[3 * kFloats];
    FirstOfBlocks(sums, grads[kFloats], scratch, rows);
    SubtractSumGrads(dvec, sums, grads, scratch, rows);
    inputs_.FreeTensor(grads);
  }

  __aicore__ inline int64_t Slot(int64_t step) const { return step % kSlots * slot_scores_; }
  // A row of all tokens' and heads' rows: of a query of a segment and one of the heads of a group.
  __aicore__ inline int64_t RowOf(const WorkItem& item, int64_t query, int32_t g) const {
    return (item.query_start + query) * t_->query_heads + item.head * group_ + g;
  }

  // Maximum, sum and Dvec of some rows of one query, behind the row `row` of a part.
  __aicore__ inline void LoadStatistics(const AscendC::LocalTensor<float>& inputs, int64_t from,
                                        int32_t row, int32_t rows) {
    const auto to = inputs[static_cast<uint32_t>(2 * kSelectedGradFloats + row * kBlockFloats)];
    const auto count = static_cast<uint32_t>(rows * kBlockFloats);
    constexpr uint32_t kNext = kSelectedGradMostRows * kBlockFloats;
    AscendC::DataCopy(to, max_[from * kBlockFloats], count);
    AscendC::DataCopy(to[kNext], sum_[from * kBlockFloats], count);
    AscendC::DataCopy(to[2 * kNext], row_sums_[from * kBlockFloats], count);
  }

  // P in the place of S and dS in that of dP.
  __aicore__ inline void Gradients(const AscendC::LocalTensor<float>& inputs, const PassRows& g) {
    const auto max = inputs[2 * kSelectedGradFloats];
    constexpr uint32_t kNext = kSelectedGradMostRows * kBlockFloats;
    Probabilities(inputs, max, max[kNext], g);
    ScoreGrads(inputs[kSelectedGradFloats], inputs, max[2 * kNext], g);
  }

  __aicore__ inline void Store(const AscendC::GlobalTensor<T>& to, int32_t pitch,
                               const AscendC::LocalTensor<T>& from, const PassRows& g) {
    constexpr int32_t kPerBlock = kBlockBytes / sizeof(T);
    const int32_t blocks = CeilDiv(g.keys, kPerBlock);
    AscendC::DataCopy(
        to, from,
        AscendC::DataCopyParams(static_cast<uint16_t>(g.rows), static_cast<uint16_t>(blocks),
                                static_cast<uint16_t>(g.width / kPerBlock - blocks),
                                static_cast<uint16_t>(pitch / kPerBlock - blocks)));
  }

  __aicore__ inline void QueryGradients() {
    WorkItems ahead, behind;
    ahead.Init(&t_->queries, &t_->mask, g_.query_ends, g_.key_ends, nullptr, g_.offsets);
    behind.Init(&t_->queries, &t_->mask, g_.query_ends, g_.key_ends, nullptr, g_.offsets);
    WorkItem item{};
    for (int64_t i = 0, left = 1; left > 0; ++i) {
      left = 0;
      if (ahead.Next(&item)) {
        QueryScoreGrads(item, i);
        left = 1;
      }
      const int64_t done = i - kStepsAhead;
      if (done < 0) {
        left = 1;
      } else if (behind.Next(&item)) {
        FinishQueries(item, done);
        left = 1;
      }
    }
  }

  __aicore__ inline void QueryScoreGrads(const WorkItem& item, int64_t tile) {
    const RowShare share(core_, item.rows * group_);
    rows_.Start(item, share.begin, share.rows);
    Await<Handover::kScores>(tile);
    SelectedPart next{share.begin, 0, 0, 0};
    bool more = FindPart(share, &next);
    if (more) LoadQueries(item, next, tile);
    while (more) {
      const SelectedPart part = next;
      next.column += next.columns;
      more = FindPart(share, &next);
      if (more) LoadQueries(item, next, tile);
      ComputeQueries(part, tile);
    }
    HandOver<Handover::kProbabilities>(tile);
  }

  // The part at a place, or the next that has something. False if there is none.
  __aicore__ inline bool FindPart(const RowShare& share, SelectedPart* part) const {
    for (; part->begin < share.begin + share.rows; part->begin += kSelectedGradRows) {
      part->rows =
          static_cast<int32_t>(Min(kSelectedGradRows, share.begin + share.rows - part->begin));
      const int32_t left = rows_.MostColumns(part->begin, part->rows) - part->column;
      part->columns = static_cast<int32_t>(Min(kSelectedGradColumns, left));
      if (left > 0) return true;
      part->column = 0;
    }
    return false;
  }

  __aicore__ inline void LoadQueries(const WorkItem& item, const SelectedPart& part, int64_t tile) {
    auto inputs = inputs_.template AllocTensor<float>();
    rows_.Load(inputs, scores_[Slot(tile)], part);
    rows_.Load(inputs[kSelectedGradFloats], product_grads_[Slot(tile)], part);
    rows_.ForQueries(
        part.begin, part.rows, [&](int32_t query, int32_t row, int32_t rows) __aicore__ {
          LoadStatistics(inputs, RowOf(item, item.row + query, (part.begin + row) % group_), row,
                         rows);
        });
    inputs_.EnQue(inputs);
  }

  __aicore__ inline void ComputeQueries(const SelectedPart& part, int64_t tile) {
    const PassRows g(part.rows, part.columns);
    auto inputs = inputs_.template DeQue<float>();
    const auto dp = inputs[kSelectedGradFloats];
    rows_.ScaleAndFill(inputs, t_->scale, -Infinity(), part);
    rows_.ScaleAndFill(dp, 1.0f, 0.0f, part);
    Gradients(inputs, g);
    rows_.CountRepeated(dp, part);
    auto outputs = outputs_.template AllocTensor<T>();
    RoundRows(outputs, dp, g.floats());
    inputs_.FreeTensor(inputs);
    outputs_.EnQue(outputs);
    outputs = outputs_.template DeQue<T>();
    const auto pitch = static_cast<int32_t>(t_->selection.columns);
    Store(score_grads_[Slot(tile) + int64_t{part.begin} * pitch + part.column], pitch, outputs, g);
    outputs_.FreeTensor(outputs);
  }

  __aicore__ inline void FinishQueries(const WorkItem& item, int64_t tile) {
    const RowShare share(core_, item.rows * group_);
    // The scores may be of a later tile.
    rows_.Start(item, share.begin, share.rows);
    Await<Handover::kPartialOutput>(tile);
    for (int32_t at = share.begin, end = at + share.rows; at < end; at += part_rows_) {
      const auto rows = static_cast<int32_t>(Min(part_rows_, end - at));
      auto part = parts_in_.template AllocTensor<float>();
      rows_.ForQueries(at, rows, [&](int32_t query, int32_t row, int32_t here) __aicore__ {
        if (rows_.Columns(query) == 0) return;
        AscendC::DataCopy(part[static_cast<uint32_t>(row * dim_)],
                          sums_[tile % kSlots * slot_sums_ + int64_t{at + row} * dim_],
                          static_cast<uint32_t>(here * dim_));
      });
      parts_in_.EnQue(part);
      part = parts_in_.template DeQue<float>();
      rows_.ForQueries(at, rows, [&](int32_t query, int32_t row, int32_t here) __aicore__ {
        if (rows_.Columns(query) > 0) return;
        AscendC::Duplicate(part[static_cast<uint32_t>(row * dim_)], 0.0f, here * dim_);
      });
      AscendC::PipeBarrier<PIPE_V>();
      auto result = Rounded(part, t_->scale, rows * dim_);
      rows_.ForQueries(at, rows, [&](int32_t query, int32_t row, int32_t here) __aicore__ {
        AscendC::DataCopy(query_grad_[RowOf(item, item.row + query, (at + row) % group_) * dim_],
                          result[static_cast<uint32_t>(row * dim_)],
                          static_cast<uint32_t>(here * dim_));
      });
      result_out_.FreeTensor(result);
    }
  }

  // A part of a gradient in the type of the result, ready to be stored.
  __aicore__ inline AscendC::LocalTensor<T> Rounded(AscendC::LocalTensor<float>& part, float factor,
                                                    int32_t count) {
    AscendC::Muls(part, part, factor, count);
    AscendC::PipeBarrier<PIPE_V>();
    auto result = result_out_.template AllocTensor<T>();
    RoundRows(result, part, count);
    parts_in_.FreeTensor(part);
    result_out_.EnQue(result);
    return result_out_.template DeQue<T>();
  }

  __aicore__ inline void BlockGradients() {
    const int32_t most = BlockStepQueries(group_);
    BlockSteps ahead, behind;
    ahead.Init(most, &t_->blocks, &t_->mask, g_.query_ends, g_.key_ends, g_.offsets, counts_);
    behind.Init(most, &t_->blocks, &t_->mask, g_.query_ends, g_.key_ends, g_.offsets, counts_);
    BlockStep step{};
    for (int64_t i = 0, left = 1; left > 0; ++i) {
      left = 0;
      if (ahead.Next(&step)) {
        if (step.queries > 0) BlockScoreGrads(step);
        left = 1;
      }
      if (i < kStepsAhead) {
        left = 1;
      } else if (behind.Next(&step)) {
        if (step.last) FinishBlock(step);
        left = 1;
      }
    }
  }

  __aicore__ inline void BlockScoreGrads(const BlockStep& step) {
    Await<Handover::kScores>(step.index);
    const RowShare share(core_, step.queries * group_);
    const int32_t end = share.begin + share.rows;
    const auto pass_at = [&](int32_t at) __aicore__ {
      return PassRows(static_cast<int32_t>(Min(kSelectedGradMostRows, end - at)),
                      step.tile.item.rows);
    };
    if (share.rows > 0) LoadBlock(step, share.begin, pass_at(share.begin));
    for (int32_t at = share.begin; at < end; at += kSelectedGradMostRows) {
      const int32_t next = at + kSelectedGradMostRows;
      if (next < end) LoadBlock(step, next, pass_at(next));
      ComputeBlock(step, at, pass_at(at));
    }
    HandOver<Handover::kProbabilities>(step.index);
  }

  __aicore__ inline int64_t QueryOf(const BlockStep& step, int32_t query) const {
    return queries_.GetValue(static_cast<uint64_t>(step.first_query + query));
  }

  __aicore__ inline void LoadBlock(const BlockStep& step, int32_t at, const PassRows& g) {
    auto inputs = inputs_.template AllocTensor<float>();
    const int64_t from = Slot(step.index) + int64_t{at} * kMostBlockKeys;
    CopyRowsIn(inputs, scores_[from], kMostBlockKeys, g.rows, g.keys, g.width);
    CopyRowsIn(inputs[kSelectedGradFloats], product_grads_[from], kMostBlockKeys, g.rows, g.keys,
               g.width);
    ForQueryRows(group_, at, g.rows, [&](int32_t query, int32_t row, int32_t rows) __aicore__ {
      LoadStatistics(inputs, RowOf(step.tile.item, QueryOf(step, query), (at + row) % group_), row,
                     rows);
    });
    inputs_.EnQue(inputs);
  }

  __aicore__ inline void ComputeBlock(const BlockStep& step, int32_t at, const PassRows& g) {
    const WorkItem& item = step.tile.item;
    const auto visible = [&](int32_t query) __aicore__ {
      return static_cast<int32_t>(Min(g.keys, item.visible.High(QueryOf(step, query)) - item.row));
    };
    auto inputs = inputs_.template DeQue<float>();
    const auto dp = inputs[kSelectedGradFloats];
    ScaleAndFill(inputs, t_->scale, -Infinity(), group_, at, g, visible);
    ScaleAndFill(dp, 1.0f, 0.0f, group_, at, g, visible);
    Gradients(inputs, g);
    auto outputs = outputs_.template AllocTensor<T>();
    RoundRows(outputs, dp, g.floats());
    RoundRows(outputs[kSelectedGradFloats], inputs, g.floats());
    inputs_.FreeTensor(inputs);
    outputs_.EnQue(outputs);
    outputs = outputs_.template DeQue<T>();
    const int64_t to = Slot(step.index) + int64_t{at} * kMostBlockKeys;
    Store(score_grads_[to], kMostBlockKeys, outputs, g);
    Store(probabilities_[to], kMostBlockKeys, outputs[kSelectedGradFloats], g);
    outputs_.FreeTensor(outputs);
  }

  // The gradients of a block whose sums are complete.
  __aicore__ inline void FinishBlock(const BlockStep& step) {
    const bool empty = step.queries == 0;
    if (!empty) Await<Handover::kPartialOutput>(step.tile_index);
    const WorkItem& item = step.tile.item;
    const int64_t sums = step.tile_index % kSlots * slot_sums_;
    const int64_t row = (item.key_start + item.row) * t_->selection.heads + item.head;
    FinishRows(item.rows, empty, sums, key_grad_[row * dim_], dim_, t_->scale);
    FinishRows(item.rows, empty, sums + t_->selection.block_size * dim_,
               value_grad_[row * value_dim_], value_dim_, 1.0f);
  }

  __aicore__ inline void FinishRows(int32_t count, bool empty, int64_t sums,
                                    const AscendC::GlobalTensor<T>& to, int32_t columns,
                                    float factor) {
    const RowShare share(core_, count);
    const int64_t pitch = t_->selection.heads * columns;
    for (int32_t at = share.begin, end = at + share.rows; at < end; at += part_rows_) {
      const auto rows = static_cast<int32_t>(Min(part_rows_, end - at));
      auto part = parts_in_.template AllocTensor<float>();
      if (!empty) {
        AscendC::DataCopy(part, sums_[sums + int64_t{at} * columns],
                          static_cast<uint32_t>(rows * columns));
      }
      parts_in_.EnQue(part);
      part = parts_in_.template DeQue<float>();
      if (empty) {
        AscendC::Duplicate(part, 0.0f, rows * columns);
        AscendC::PipeBarrier<PIPE_V>();
      }
      auto result = Rounded(part, factor, rows * columns);
      CopyRowsOut(to[at * pitch], pitch, result, rows, columns, columns);
      result_out_.FreeTensor(result);
    }
  }

  const NsaSelectedAttentionGradTilingData* t_ = nullptr;
  NsaSelectedAttentionGradArguments g_{};
  GM_ADDR counts_ = nullptr;
  GM_ADDR block_queries_ = nullptr;
  int64_t core_ = 0;  // of the block's two
  int32_t group_ = 1, dim_ = 0, value_dim_ = 0, part_rows_ = 0;
  int64_t slot_scores_ = 0, slot_sums_ = 0;
  SelectedRows rows_;
  AscendC::GlobalTensor<int32_t> queries_;  // of all blocks
  AscendC::GlobalTensor<float> row_sums_, scores_, product_grads_, sums_, max_, sum_, sum_grad_;
  AscendC::GlobalTensor<T> probabilities_, score_grads_, output_, output_grad_;
  AscendC::GlobalTensor<T> query_grad_, key_grad_, value_grad_;
  AscendC::TQue<AscendC::TPosition::VECIN, 2> inputs_, parts_in_;
  AscendC::TQue<AscendC::TPosition::VECOUT, 2> outputs_;
  AscendC::TQue<AscendC::TPosition::VECOUT, 1> result_out_, row_sums_out_;
  AscendC::TBuf<AscendC::TPosition::VECCALC> row_sums_buffer_, folded_buffer_;
};

}  // namespace nsa::ascend
