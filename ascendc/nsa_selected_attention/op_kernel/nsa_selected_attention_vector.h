// A vector core of NsaSelectedAttention: the lists of selected blocks, the softmax of every row
// over what its query selects, and the division of the output. Each of the two of a block has half
// of the rows of every tile.
#pragma once

#include "ascendc/attention/handover.h"
#include "ascendc/attention/row_store.h"
#include "ascendc/attention/selected_rows.h"
#include "ascendc/attention/selection_sort.h"
#include "ascendc/nsa_selected_attention/op_kernel/nsa_selected_attention_cube.h"

namespace nsa::ascend {

template <typename T>
class NsaSelectedAttentionVector {
 public:
  __aicore__ inline void Init(AscendC::TPipe* pipe, const NsaSelectedAttentionTilingData* tiling,
                              const NsaSelectedAttentionArguments& g) {
    t_ = tiling;
    indices_ = g.indices;
    workspace_ = g.workspace;
    core_ = AscendC::GetSubBlockIdx();
    group_ = static_cast<int32_t>(t_->selection.group);
    value_dim_ = static_cast<int32_t>(t_->value_dim);
    pass_rows_ = static_cast<int32_t>(t_->pass_rows);
    tile_rows_ = static_cast<int32_t>(t_->work.tile_rows) * group_;
    part_rows_ = NsaSelectedAttentionBuffers::PartRows(value_dim_);
    half_rows_ = HalfRows(tile_rows_);
    const NsaSelectedAttentionWorkspace bytes(tile_rows_, t_->selection.columns, value_dim_);
    GM_ADDR mine = g.workspace + SelectionBytes(t_->selection.rows) +
                   AscendC::GetBlockIdx() / 2 * bytes.Total();
    scores_.SetGlobalBuffer(reinterpret_cast<__gm__ float*>(mine));
    probabilities_.SetGlobalBuffer(reinterpret_cast<__gm__ T*>(mine + bytes.probabilities_begin));
    parts_.SetGlobalBuffer(reinterpret_cast<__gm__ float*>(mine + bytes.output_begin));
    out_.SetGlobalBuffer(reinterpret_cast<__gm__ T*>(g.output));
    max_out_.SetGlobalBuffer(reinterpret_cast<__gm__ float*>(g.softmax_max));
    sum_out_.SetGlobalBuffer(reinterpret_cast<__gm__ float*>(g.softmax_sum));
    InitBuffers(
        pipe, NsaSelectedAttentionBuffers(tile_rows_, pass_rows_,
                                          static_cast<int32_t>(t_->selection.columns), value_dim_));
    rows_.Init(&t_->selection, g.workspace);
    ahead_.Init(&t_->work, &t_->mask, g.query_ends, g.key_ends, nullptr, g.offsets);
    behind_.Init(&t_->work, &t_->mask, g.query_ends, g.key_ends, nullptr, g.offsets);
  }

  // The lists of this core's share of the queries of its block. All of these are needed by Process.
  __aicore__ inline void Prepare() {
    WorkItems tiles = ahead_;
    auto memory = inputs_.template AllocTensor<float>();
    SelectionSort().Run(indices_, workspace_, t_->selection, &tiles, memory);
    inputs_.FreeTensor(memory);
  }

  __aicore__ inline void Process() {
    WorkItem item{};
    for (int64_t i = 0, left = 1; left > 0; ++i) {
      left = 0;
      if (ahead_.Next(&item)) {
        Softmax(item, i);
        left = 1;
      }
      const int64_t tile = i - kStepsAhead;
      if (tile < 0) {
        left = 1;
      } else if (behind_.Next(&item)) {
        Output(item, tile);
        left = 1;
      }
    }
  }

 private:
  __aicore__ inline void InitBuffers(AscendC::TPipe* pipe,
                                     const NsaSelectedAttentionBuffers& bytes) {
    pipe->InitBuffer(inputs_, 2, bytes.inputs);
    pipe->InitBuffer(probabilities_out_, 2, bytes.probabilities);
    pipe->InitBuffer(parts_in_, 2, bytes.part);
    pipe->InitBuffer(result_out_, 1, bytes.result);
    pipe->InitBuffer(statistics_out_, 1, bytes.statistics_out);
    pipe->InitBuffer(statistics_buffer_, bytes.statistics);
    pipe->InitBuffer(folded_buffer_, bytes.folded);
    pipe->InitBuffer(spread_buffer_, bytes.spread);
    statistics_ = statistics_buffer_.template Get<float>();
    folded_ = folded_buffer_.template Get<float>();
    spread_ = spread_buffer_.template Get<float>();
    // Instructions over eight rows also read rows that a pass does not have.
    AscendC::Duplicate(folded_, 0.0f, pass_rows_ * (kRepeatFloats + kBlockFloats));
    AscendC::Duplicate(statistics_, 0.0f, 2 * kSlots * half_rows_);
    AscendC::PipeBarrier<PIPE_V>();
  }

  // P = exp(S - max), and the maximum and the sum of every row.
  __aicore__ inline void Softmax(const WorkItem& item, int64_t tile) {
    const RowShare share(core_, item.rows * group_);
    rows_.Start(item, share.begin, share.rows);
    if (share.rows > 0) {
      const int32_t rows = RoundUp(share.rows, kRowMultiple);
      AscendC::Duplicate(Maximum(tile), kLowest, rows);
      AscendC::Duplicate(Sum(tile), 0.0f, rows);
      AscendC::PipeBarrier<PIPE_V>();
    }
    Await<Handover::kScores>(tile);
    Sweep next{share.begin, 0, false};
    Sweep sweep{};
    bool more = Find(share, &next);
    if (more) Load(share, next, tile);
    while (more) {
      sweep = next;
      more = Advance(share, &next);
      if (more) Load(share, next, tile);
      Compute(share, sweep, tile);
    }
    HandOver<Handover::kProbabilities>(tile);
  }

  // A step over a tile: some rows' columns from `column` on. Rows with more columns than the UB
  // holds are read twice, first for their maxima.
  struct Sweep {
    int32_t begin;
    int32_t column;
    bool maxima;
  };
  __aicore__ inline SelectedPart PartOf(const RowShare& share, const Sweep& sweep) const {
    const auto rows = static_cast<int32_t>(Min(pass_rows_, share.begin + share.rows - sweep.begin));
    const int32_t columns = rows_.MostColumns(sweep.begin, rows);
    return {sweep.begin, rows, sweep.column,
            static_cast<int32_t>(Min(kSweepColumns, columns - sweep.column))};
  }
  // From the start of rows on, those with anything to do.
  __aicore__ inline bool Find(const RowShare& share, Sweep* sweep) const {
    for (; sweep->begin < share.begin + share.rows; sweep->begin += pass_rows_) {
      const auto rows =
          static_cast<int32_t>(Min(pass_rows_, share.begin + share.rows - sweep->begin));
      const int32_t columns = rows_.MostColumns(sweep->begin, rows);
      sweep->column = 0;
      sweep->maxima = columns > kSweepColumns;
      if (columns > 0) return true;
    }
    return false;
  }
  __aicore__ inline bool Advance(const RowShare& share, Sweep* sweep) const {
    const SelectedPart p = PartOf(share, *sweep);
    sweep->column += p.columns;
    if (sweep->column < rows_.MostColumns(p.begin, p.rows)) return true;
    sweep->column = 0;
    if (sweep->maxima) {
      sweep->maxima = false;
      return true;
    }
    sweep->begin += pass_rows_;
    return Find(share, sweep);
  }

  __aicore__ inline int64_t Slot(int64_t tile) const {
    return tile % kSlots * tile_rows_ * t_->selection.columns;
  }

  __aicore__ inline void Load(const RowShare& share, const Sweep& sweep, int64_t tile) {
    auto scores = inputs_.template AllocTensor<float>();
    rows_.Load(scores, scores_[Slot(tile)], PartOf(share, sweep));
    inputs_.EnQue(scores);
  }

  __aicore__ inline void Compute(const RowShare& share, const Sweep& sweep, int64_t tile) {
    const SelectedPart p = PartOf(share, sweep);
    const PassRows g(p.rows, p.columns);
    const int32_t rows = RoundUp(p.rows, kRowMultiple);
    const auto at = static_cast<uint32_t>(p.begin - share.begin);
    const auto max = Maximum(tile)[at], sum = Sum(tile)[at];
    auto x = inputs_.template DeQue<float>();
    rows_.ScaleAndFill(x, t_->scale, -Infinity(), p);
    const bool whole = rows_.MostColumns(p.begin, p.rows) <= kSweepColumns;
    if (sweep.maxima || whole) {
      ReduceRows<true>(spread_, x, folded_, pass_rows_, g);
      AscendC::Max(max, spread_, max, rows);
      AscendC::PipeBarrier<PIPE_V>();
    }
    if (!sweep.maxima) {
      SpreadRows(spread_, max, rows);
      WithRowValue<false>(x, spread_, g.rows, g.width, g.width);
      AscendC::Exp(x, x, g.floats());
      AscendC::PipeBarrier<PIPE_V>();
      rows_.CountRepeated(x, p);
      ReduceRows<false>(spread_, x, folded_, pass_rows_, g);
      AscendC::Add(sum, sum, spread_, rows);
      AscendC::PipeBarrier<PIPE_V>();
      Store(x, Slot(tile), p, g);
    }
    inputs_.FreeTensor(x);
  }

  __aicore__ inline void Store(const AscendC::LocalTensor<float>& x, int64_t slot,
                               const SelectedPart& part, const PassRows& g) {
    constexpr int32_t kPerBlock = kBlockBytes / sizeof(T);
    auto p = probabilities_out_.template AllocTensor<T>();
    RoundRows(p, x, g.floats());
    probabilities_out_.EnQue(p);
    p = probabilities_out_.template DeQue<T>();
    const auto pitch = static_cast<int32_t>(t_->selection.columns);
    const int32_t blocks = CeilDiv(g.keys, kPerBlock);
    AscendC::DataCopy(
        probabilities_[slot + int64_t{part.begin} * pitch + part.column], p,
        AscendC::DataCopyParams(static_cast<uint16_t>(g.rows), static_cast<uint16_t>(blocks),
                                static_cast<uint16_t>(g.width / kPerBlock - blocks),
                                static_cast<uint16_t>(pitch / kPerBlock - blocks)));
    probabilities_out_.FreeTensor(p);
  }

  // O / sum and the statistics of a tile.
  __aicore__ inline void Output(const WorkItem& item, int64_t tile) {
    const RowShare share(core_, item.rows * group_);
    // The softmax may be at a later tile.
    rows_.Start(item, share.begin, share.rows);
    Await<Handover::kPartialOutput>(tile);
    for (int32_t at = 0; at < share.rows; at += part_rows_)
      StoreRows(item, tile, share, at, static_cast<int32_t>(Min(part_rows_, share.rows - at)));
  }

  __aicore__ inline AscendC::LocalTensor<float> LoadOutput(int64_t tile, int32_t begin,
                                                           int32_t rows) {
    const int64_t slot = tile % kSlots * tile_rows_ * value_dim_;
    auto part = parts_in_.template AllocTensor<float>();
    rows_.ForQueries(begin, rows, [&](int32_t query, int32_t row, int32_t here) __aicore__ {
      if (rows_.Columns(query) == 0) return;
      AscendC::DataCopy(part[static_cast<uint32_t>(row * value_dim_)],
                        parts_[slot + int64_t{begin + row} * value_dim_],
                        static_cast<uint32_t>(here * value_dim_));
    });
    parts_in_.EnQue(part);
    part = parts_in_.template DeQue<float>();
    rows_.ForQueries(begin, rows, [&](int32_t query, int32_t row, int32_t here) __aicore__ {
      if (rows_.Columns(query) > 0) return;
      AscendC::Duplicate(part[static_cast<uint32_t>(row * value_dim_)], 0.0f, here * value_dim_);
    });
    AscendC::PipeBarrier<PIPE_V>();
    return part;
  }

  __aicore__ inline void StoreRows(const WorkItem& item, int64_t tile, const RowShare& share,
                                   int32_t at, int32_t rows) {
    const int32_t padded = RoundUp(rows, kRowMultiple);
    auto blocks = statistics_out_.template AllocTensor<float>();
    auto sums = blocks[static_cast<uint32_t>(part_rows_ * kBlockFloats)];
    SpreadRows(blocks, Maximum(tile)[static_cast<uint32_t>(at)], padded);
    SpreadRows(sums, Sum(tile)[static_cast<uint32_t>(at)], padded);
    MarkEmptyRows(sums, folded_.template ReinterpretCast<uint8_t>(), padded);
    auto part = LoadOutput(tile, share.begin + at, rows);
    DivideRows(part, sums, rows, value_dim_);
    auto result = result_out_.template AllocTensor<T>();
    RoundRows(result, part, rows * value_dim_);
    parts_in_.FreeTensor(part);
    statistics_out_.EnQue(blocks);
    result_out_.EnQue(result);
    blocks = statistics_out_.template DeQue<float>();
    sums = blocks[static_cast<uint32_t>(part_rows_ * kBlockFloats)];
    result = result_out_.template DeQue<T>();
    rows_.ForQueries(
        share.begin + at, rows, [&](int32_t query, int32_t row, int32_t here) __aicore__ {
          const int64_t to = (item.query_start + item.row + query) * t_->query_heads +
                             item.head * group_ + (share.begin + at + row) % group_;
          const auto first = static_cast<uint32_t>(row * kBlockFloats);
          CopyStatisticsOut(max_out_[to * kBlockFloats], kBlockFloats, blocks[first], here);
          CopyStatisticsOut(sum_out_[to * kBlockFloats], kBlockFloats, sums[first], here);
          AscendC::DataCopy(out_[to * value_dim_], result[static_cast<uint32_t>(row * value_dim_)],
                            static_cast<uint32_t>(here * value_dim_));
        });
    statistics_out_.FreeTensor(blocks);
    result_out_.FreeTensor(result);
  }

  // Maxima of the rows of a tile. The softmax may be two tiles ahead of the output.
  __aicore__ inline AscendC::LocalTensor<float> Maximum(int64_t tile) const {
    return statistics_[static_cast<uint32_t>(tile % kSlots * 2 * half_rows_)];
  }
  __aicore__ inline AscendC::LocalTensor<float> Sum(int64_t tile) const {
    return statistics_[static_cast<uint32_t>((tile % kSlots * 2 + 1) * half_rows_)];
  }

  const NsaSelectedAttentionTilingData* t_ = nullptr;
  GM_ADDR indices_ = nullptr;
  GM_ADDR workspace_ = nullptr;
  int64_t core_ = 0;  // of the block's two
  int32_t group_ = 1, value_dim_ = 0, pass_rows_ = 0, tile_rows_ = 0;
  int32_t part_rows_ = 0, half_rows_ = 0;
  WorkItems ahead_, behind_;  // of the softmax, of the output
  SelectedRows rows_;
  AscendC::GlobalTensor<float> scores_, parts_, max_out_, sum_out_;
  AscendC::GlobalTensor<T> probabilities_, out_;
  AscendC::TQue<AscendC::TPosition::VECIN, 2> inputs_, parts_in_;
  AscendC::TQue<AscendC::TPosition::VECOUT, 2> probabilities_out_;
  AscendC::TQue<AscendC::TPosition::VECOUT, 1> result_out_, statistics_out_;
  AscendC::TBuf<AscendC::TPosition::VECCALC> statistics_buffer_, folded_buffer_, spread_buffer_;
  AscendC::LocalTensor<float> statistics_;  // of three tiles [2, rows]
  AscendC::LocalTensor<float> folded_, spread_;
};

}  // namespace nsa::ascend
