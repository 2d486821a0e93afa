// A vector core's share of the attention of new tokens over a cache: the softmax of every split, of
// which each of the two cores of a block has half of the rows; then the sums of the splits, which
// all cores share, and what the probabilities are ranked by.
#pragma once

#include "ascendc/attention/handover.h"
#include "ascendc/attention/row_store.h"
#include "ascendc/decoding/split_cube.h"

namespace nsa::ascend {

// Ranking that does nothing with the probabilities of a wave's decode rows. They are summed over
// the heads of a group and stand one after another from the slot of a decode row's first split on.
struct NoRanking {
  static constexpr bool kRanked = false;
};

template <typename T, typename Keys, typename Ranking = NoRanking>
class SplitVector {
 public:
  __aicore__ inline void Init(AscendC::TPipe* pipe, const SplitTiling* tiling,
                              const typename Keys::Arguments& g) {
    t_ = tiling;
    core_ = AscendC::GetBlockIdx();
    cores_ = 2 * AscendC::GetBlockNum();
    const int64_t block = core_ / 2, blocks = AscendC::GetBlockNum();
    const SplitWorkspace bytes(*t_);
    GM_ADDR mine = g.workspace + block * bytes.block;
    scores_.SetGlobalBuffer(reinterpret_cast<__gm__ float*>(mine));
    probabilities_.SetGlobalBuffer(reinterpret_cast<__gm__ T*>(mine + kSlots * bytes.scores));
    outputs_.SetGlobalBuffer(
        reinterpret_cast<__gm__ float*>(g.workspace + bytes.OutputsBegin(blocks)));
    statistics_.SetGlobalBuffer(reinterpret_cast<__gm__ float*>(
        g.workspace + bytes.StatisticsBegin(blocks, t_->wave_splits)));
    out_.SetGlobalBuffer(reinterpret_cast<__gm__ T*>(g.output));
    if constexpr (Ranking::kRanked) {
      scores_.SetGlobalBuffer(
          reinterpret_cast<__gm__ float*>(g.workspace + bytes.KeptBegin(blocks, t_->wave_splits)));
      sums_.SetGlobalBuffer(
          reinterpret_cast<__gm__ float*>(g.workspace + bytes.SumsBegin(blocks, t_->wave_splits)));
      ranked_rows_ = RoundUp(t_->group, kRowMultiple);
      pipe->InitBuffer(ranked_buffer_, SplitBuffers::RankedBytes(t_->group));
      ranked_.Init(t_, g, core_, cores_, false, false);
      ranking_.Init(pipe, t_, g, sums_);
    }
    slot_elements_ = bytes.scores / 4;
    kept_elements_ = bytes.kept / 4;
    half_rows_ = HalfRows(t_->rows);
    merged_rows_ = SplitBuffers::MergedRows(t_->value_dim);
    InitBuffers(pipe, SplitBuffers(t_->rows, t_->split_keys, t_->value_dim));
    waves_.Init(t_, g);
    splits_.Init(t_, g, block, blocks, false, true);
    merged_.Init(t_, g, false);
  }

  __aicore__ inline void Process() {
    int64_t step = 0;
    for (Wave wave{}; waves_.Next(&wave);) {
      splits_.StartWave(wave);
      Split split{};
      while (splits_.Next(&split)) Softmax(split, step++);
      AscendC::SyncAll<false>();
      Merge(wave);
      if constexpr (Ranking::kRanked) SumProbabilities(wave);
      if (Ranking::kRanked || !waves_.IsLast(wave)) AscendC::SyncAll<false>();
      // The cube core may go on with the next wave: it does not touch the sums.
      if constexpr (Ranking::kRanked) ranking_.Process(wave, inputs_, input_floats_);
    }
  }

 private:
  __aicore__ inline void InitBuffers(AscendC::TPipe* pipe, const SplitBuffers& bytes) {
    input_floats_ = static_cast<int32_t>(bytes.inputs / 4);
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
    // Instructions over eight rows also read rows that a pass does not have.
    AscendC::Duplicate(folded_, 0.0f, half_rows_ * (kRepeatFloats + kBlockFloats));
    AscendC::Duplicate(maximum_, 0.0f, 2 * half_rows_);
    AscendC::PipeBarrier<PIPE_V>();
  }

  // P = exp(S - max), and the maximum and the sum of every row of the split.
  __aicore__ inline void Softmax(const Split& split, int64_t step) {
    const RowShare share(core_ % 2, split.decode_rows * t_->group);
    Await<Handover::kScores>(step);
    if (share.rows > 0) {
      const PassRows g(share.rows, split.keys);
      const int64_t at = step % kSlots * slot_elements_ + int64_t{share.begin} * t_->split_keys;
      const int32_t padded = RoundUp(share.rows, kRowMultiple);
      auto x = inputs_.template AllocTensor<float>();
      const int64_t from = Ranking::kRanked
                               ? split.slot * kept_elements_ + int64_t{share.begin} * t_->split_keys
                               : at;
      CopyRowsIn(x, scores_[from], t_->split_keys, g.rows, g.keys, g.width);
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
      StoreStatistics(split, share, padded);
      auto p = results_out_.template AllocTensor<T>();
      RoundRows(p, x, g.floats());
      inputs_.FreeTensor(x);
      results_out_.EnQue(p);
      p = results_out_.template DeQue<T>();
      CopyRowsOut(probabilities_[at], t_->split_keys, p, g.rows, g.keys, g.width);
      results_out_.FreeTensor(p);
    }
    HandOver<Handover::kProbabilities>(step);
  }

  __aicore__ inline void StoreStatistics(const Split& split, const RowShare& share,
                                         int32_t padded) {
    auto blocks = statistics_out_.template AllocTensor<float>();
    const auto sums = blocks[static_cast<uint32_t>(padded * kBlockFloats)];
    SpreadRows(blocks, maximum_, padded);
    SpreadRows(sums, total_, padded);
    statistics_out_.EnQue(blocks);
    blocks = statistics_out_.template DeQue<float>();
    for (int32_t which = 0; which < 2; ++which) {
      CopyStatisticsOut(statistics_[StatisticsAt(which, split.slot, share.begin)], kBlockFloats,
                        blocks[static_cast<uint32_t>(which * padded * kBlockFloats)], share.rows);
    }
    statistics_out_.FreeTensor(blocks);
  }

  // Where the maxima (0) or the sums (1) of a slot's split are.
  __aicore__ inline int64_t StatisticsAt(int32_t which, int64_t slot, int32_t row) const {
    return ((which * t_->wave_splits + slot) * t_->group + row) * kBlockFloats;
  }

  // The outputs of the wave's decode rows, some rows of a decode row at a time.
  __aicore__ inline void Merge(const Wave& wave) {
    const int64_t chunks = CeilDiv(t_->group, merged_rows_);
    const int64_t all = wave.queries * t_->heads * chunks;
    const int64_t begin = all * core_ / cores_, end = all * (core_ + 1) / cores_;
    if (begin < end) merged_.StartWave(wave);
    for (int64_t i = begin; i < end; ++i) {
      merged_.SeekDecodeRow(wave.query * t_->heads + i / chunks);
      const auto row = static_cast<int32_t>(i % chunks) * merged_rows_;
      MergeRows(merged_, row, static_cast<int32_t>(Min(merged_rows_, t_->group - row)));
    }
  }

  // sum_i exp(m_i - m) O_i / sum_i exp(m_i - m) l_i over the splits, in the order of the keys.
  __aicore__ inline void MergeRows(const DecodeRowWalk<Keys>& decode_row, int32_t row,
                                   int32_t rows) {
    const auto blocks = static_cast<uint32_t>(merged_rows_ * kBlockFloats);
    const auto state = state_buffer_.template Get<float>();
    const auto max = state, total = state[blocks], old = state[2 * blocks], now = state[3 * blocks];
    const auto sum = sum_buffer_.template Get<float>();
    AscendC::Duplicate(max, kLowest, static_cast<int32_t>(blocks));
    AscendC::Duplicate(total, 0.0f, static_cast<int32_t>(blocks));
    AscendC::Duplicate(sum, 0.0f, rows * t_->value_dim);
    AscendC::PipeBarrier<PIPE_V>();
    for (int64_t split = 0; split < SplitsOf(decode_row); ++split) {
      const int64_t slot = decode_row.Slot(split);
      const int32_t count = rows * kBlockFloats;
      auto statistics = statistics_in_.template AllocTensor<float>();
      for (int32_t which = 0; which < 2; ++which) {
        AscendC::DataCopy(statistics[which * blocks], statistics_[StatisticsAt(which, slot, row)],
                          static_cast<uint32_t>(count));
      }
      statistics_in_.EnQue(statistics);
      auto x = inputs_.template AllocTensor<float>();
      AscendC::DataCopy(x, outputs_[(slot * t_->group + row) * t_->value_dim],
                        static_cast<uint32_t>(rows * t_->value_dim));
      inputs_.EnQue(x);
      statistics = statistics_in_.template DeQue<float>();
      // old: the factor of what there is, now: that of the split.
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
    AscendC::DataCopy(out_[(decode_row.decode_row() * t_->group + row) * t_->value_dim], result,
                      static_cast<uint32_t>(rows * t_->value_dim));
    results_out_.FreeTensor(result);
  }

  __aicore__ inline int64_t SplitsOf(const DecodeRowWalk<Keys>& decode_row) const {
    return (decode_row.keys.total() + t_->split_keys - 1) / t_->split_keys;
  }

  // For this core's splits of the wave: sums[key] = sum over the heads of exp(S - m) / l, with the
  // maximum and the sum of the whole decode row.
  __aicore__ inline void SumProbabilities(const Wave& wave) {
    ranked_.StartWave(wave);
    Split split{};
    while (ranked_.Next(&split)) {
      if (split.decode_row != ranked_decode_row_) DecodeRowStatistics(ranked_.decode_rows);
      ranked_decode_row_ = split.decode_row;
      const int32_t width = RoundUp(split.keys, kRepeatFloats);
      auto sum = results_out_.template AllocTensor<float>();
      AscendC::Duplicate(sum, 0.0f, width);
      AscendC::PipeBarrier<PIPE_V>();
      for (int32_t row = 0; row < t_->group; row += half_rows_)
        AddHeads(sum, split, row, static_cast<int32_t>(Min(half_rows_, t_->group - row)));
      results_out_.EnQue(sum);
      sum = results_out_.template DeQue<float>();
      AscendC::DataCopy(sums_[split.line * t_->split_keys], sum, static_cast<uint32_t>(width));
      results_out_.FreeTensor(sum);
    }
  }
  __aicore__ inline void AddHeads(const AscendC::LocalTensor<float>& sum, const Split& split,
                                  int32_t row, int32_t rows) {
    const PassRows g(rows, split.keys);
    const auto at = static_cast<uint32_t>(row * kBlockFloats);
    auto x = inputs_.template AllocTensor<float>();
    CopyRowsIn(x, scores_[split.slot * kept_elements_ + int64_t{row} * t_->split_keys],
               t_->split_keys, g.rows, g.keys, g.width);
    inputs_.EnQue(x);
    x = inputs_.template DeQue<float>();
    ScaleRows(x, t_->scale, g);
    FillTail(x, -Infinity(), g);
    WithRowValue<false>(x, RankedMaximum()[at], g.rows, g.width, g.width);
    AscendC::Exp(x, x, g.floats());
    AscendC::PipeBarrier<PIPE_V>();
    WithRowValue<true>(x, RankedInverse()[at], g.rows, g.width, g.width);
    ForRepeats(g.width, [&](uint32_t column, uint64_t lanes) __aicore__ {
      // Every repeat adds a head to the same sums.
      AscendC::Add(sum[column], x[column], sum[column], lanes, g.repeats(),
                   AscendC::BinaryRepeatParams(1, 1, 1, 0, g.pitch(), 0));
    });
    AscendC::PipeBarrier<PIPE_V>();
    inputs_.FreeTensor(x);
  }
  __aicore__ inline AscendC::LocalTensor<float> RankedMaximum() {
    return ranked_buffer_.template Get<float>();
  }
  __aicore__ inline AscendC::LocalTensor<float> RankedInverse() {
    return RankedMaximum()[static_cast<uint32_t>(ranked_rows_ * kBlockFloats)];
  }

  // The maximum of every row of a decode row and 1 / its sum, of its splits in the order of the
  // keys.
  __aicore__ inline void DecodeRowStatistics(const DecodeRowWalk<Keys>& decode_row) {
    const int32_t floats = ranked_rows_ * kBlockFloats;
    AscendC::Duplicate(RankedMaximum(), kLowest, floats);
    AscendC::Duplicate(RankedInverse(), 0.0f, floats);
    AscendC::PipeBarrier<PIPE_V>();
    ForStatistics<1>(
        decode_row, [&](const auto& blocks, int32_t, uint8_t splits, uint8_t pitch) __aicore__ {
          ForRepeats(t_->group * kBlockFloats, [&](uint32_t at, uint64_t lanes) __aicore__ {
            const auto max = RankedMaximum()[at];
            AscendC::Max(max, blocks[at], max, lanes, splits,
                         AscendC::BinaryRepeatParams(1, 1, 1, 0, pitch, 0));
          });
          AscendC::PipeBarrier<PIPE_V>();
        });
    ForStatistics<2>(decode_row, [&](const auto& blocks, int32_t count, uint8_t splits,
                                     uint8_t pitch) __aicore__ {
      const auto sums = blocks[static_cast<uint32_t>(count)];
      ForRepeats(t_->group * kBlockFloats, [&](uint32_t at, uint64_t lanes) __aicore__ {
        AscendC::Sub(blocks[at], blocks[at], RankedMaximum()[at], lanes, splits,
                     AscendC::BinaryRepeatParams(1, 1, 1, pitch, pitch, 0));
      });
      AscendC::PipeBarrier<PIPE_V>();
      AscendC::Exp(blocks, blocks, count);
      AscendC::PipeBarrier<PIPE_V>();
      AscendC::Mul(blocks, blocks, sums, count);
      AscendC::PipeBarrier<PIPE_V>();
      ForRepeats(t_->group * kBlockFloats, [&](uint32_t at, uint64_t lanes) __aicore__ {
        const auto total = RankedInverse()[at];
        AscendC::Add(total, blocks[at], total, lanes, splits,
                     AscendC::BinaryRepeatParams(1, 1, 1, 0, pitch, 0));
      });
      AscendC::PipeBarrier<PIPE_V>();
    });
    MarkEmptyRows(RankedInverse(), folded_.template ReinterpretCast<uint8_t>(), ranked_rows_);
    auto ones = inputs_.template AllocTensor<float>();
    AscendC::Duplicate(ones, 1.0f, floats);
    AscendC::PipeBarrier<PIPE_V>();
    AscendC::Div(RankedInverse(), ones, RankedInverse(), floats);
    AscendC::PipeBarrier<PIPE_V>();
    inputs_.FreeTensor(ones);
  }
  // body(data blocks [which, splits, group], floats of one of the two, splits, data blocks from
  // split to split) for the maxima of some splits, with which == 2 the sums behind them.
  template <int32_t which, typename Body>
  __aicore__ inline void ForStatistics(const DecodeRowWalk<Keys>& decode_row, Body body) {
    const int32_t blocks = t_->group, floats = blocks * kBlockFloats;
    const auto most = static_cast<int32_t>(Min(kMaxRepeats, input_floats_ / (which * floats)));
    const int64_t end = SplitsOf(decode_row);
    for (int64_t split = 0; split < end; split += most) {
      const auto splits = static_cast<int32_t>(Min(most, end - split));
      auto x = inputs_.template AllocTensor<float>();
      for (int32_t i = 0; i < which; ++i) {
        AscendC::DataCopy(
            x[static_cast<uint32_t>(i * splits * floats)],
            statistics_[StatisticsAt(i, decode_row.Slot(split), 0)],
            AscendC::DataCopyParams(static_cast<uint16_t>(splits), static_cast<uint16_t>(blocks),
                                    static_cast<uint16_t>((decode_row.pitch() - 1) * blocks), 0));
      }
      inputs_.EnQue(x);
      x = inputs_.template DeQue<float>();
      body(x, splits * floats, static_cast<uint8_t>(splits), static_cast<uint8_t>(blocks));
      inputs_.FreeTensor(x);
    }
  }

  const SplitTiling* t_ = nullptr;
  int64_t core_ = 0, cores_ = 1, slot_elements_ = 0, kept_elements_ = 0, ranked_decode_row_ = -1;
  int32_t half_rows_ = 0, merged_rows_ = 0, ranked_rows_ = 0, input_floats_ = 0;
  Waves<Keys> waves_;
  Splits<Keys> splits_, ranked_;  // whose softmax and whose sums over the heads are this core's
  DecodeRowWalk<Keys> merged_;
  Ranking ranking_;
  AscendC::GlobalTensor<float> scores_, outputs_, statistics_, sums_;
  AscendC::GlobalTensor<T> probabilities_, out_;
  AscendC::TQue<AscendC::TPosition::VECIN, 2> inputs_;
  AscendC::TQue<AscendC::TPosition::VECIN, 1> statistics_in_;
  AscendC::TQue<AscendC::TPosition::VECOUT, 1> results_out_, statistics_out_;
  AscendC::TBuf<AscendC::TPosition::VECCALC> sum_buffer_, folded_buffer_, spread_buffer_,
      rows_buffer_, state_buffer_, ranked_buffer_;
  AscendC::LocalTensor<float> folded_, spread_, maximum_, total_;
};

}  // namespace nsa::ascend
