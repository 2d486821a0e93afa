// The blocks that every query selects by the probabilities of compressed tokens.
#pragma once

#include "ascendc/attention/importance.h"
#include "ascendc/attention/row_store.h"
#include "ascendc/attention/topk.h"
#include "ascendc/decoding/splits.h"

namespace nsa::ascend {

// Cores share the decode rows of a wave, whose probabilities have been summed over the heads.
// `Keys`, of splits.h, also says Candidates(), how many blocks a query may select, and OwnBlock(),
// the last one of them; its arguments have `indices`, and `tiling` has `ranking`.
template <typename Keys>
class DecodeRowRanking {
 public:
  static constexpr bool kRanked = true;

  __aicore__ inline void Init(AscendC::TPipe* pipe, const SplitTiling* tiling,
                              const typename Keys::Arguments& g,
                              const AscendC::GlobalTensor<float>& sums) {
    splits_ = tiling;
    t_ = &g.tiling->ranking;
    sums_ = sums;
    indices_.SetGlobalBuffer(reinterpret_cast<__gm__ int32_t*>(g.indices));
    pipe->InitBuffer(buffer_, RankingBuffers(*t_).total);
    pipe->InitBuffer(indices_out_, 1, static_cast<uint32_t>(ListPairs(t_->count)) * 4);
    importance_.Init(t_, buffer_.Get<float>());
    topk_.Init(t_, buffer_.Get<float>());
    decode_rows_.Init(tiling, g, false);
  }

  // `inputs`: a queue whose buffers hold `floats`.
  template <typename Queue>
  __aicore__ inline void Process(const Wave& wave, Queue& inputs, int32_t floats) {
    const int64_t core = AscendC::GetBlockIdx(), cores = 2 * AscendC::GetBlockNum();
    const int64_t decode_rows = wave.queries * splits_->heads, first = wave.query * splits_->heads;
    const int64_t begin = decode_rows * core / cores, end = decode_rows * (core + 1) / cores;
    if (begin < end) decode_rows_.StartWave(wave);
    for (int64_t i = begin; i < end; ++i) {
      decode_rows_.SeekDecodeRow(first + i);
      Rank(inputs, RoundDown(floats, kRepeatFloats));
    }
  }

 private:
  // Keys that are added at a time: a repeat's stride has eight bits.
  static constexpr int32_t kAddedKeys = 1024;

  template <typename Queue>
  __aicore__ inline void Rank(Queue& inputs, int32_t floats) {
    const int64_t keys = decode_rows_.keys.total();
    const int64_t candidates = decode_rows_.keys.Candidates();
    StartWindows(keys, candidates);
    for (int64_t at = 0, count = 0; at < keys; at += count) {
      const int64_t in_window = at % t_->Keys();
      // Windows are ranked when the next one begins, the last one below.
      if (at > 0 && in_window == 0) RankWindow(keys, candidates);
      count = Min(Min(floats, keys - at), t_->Keys() - in_window);
      const int32_t width = RoundUp(static_cast<int32_t>(count), kRepeatFloats);
      auto x = inputs.template AllocTensor<float>();
      AscendC::DataCopy(x, sums_[decode_rows_.line() * splits_->split_keys + at],
                        static_cast<uint32_t>(width));
      inputs.EnQue(x);
      x = inputs.template DeQue<float>();
      for (int32_t from = 0; from < count; from += kAddedKeys) {
        importance_.Add(x[static_cast<uint32_t>(from)],
                        PassRows(1, static_cast<int32_t>(Min(kAddedKeys, count - from))), 1, 0,
                        static_cast<int32_t>(in_window) + from);
      }
      inputs.FreeTensor(x);
    }
    while (RankWindow(keys, candidates) < candidates) {
    }
    auto indices = indices_out_.AllocTensor<int32_t>();
    topk_.Take(indices);
    indices_out_.EnQue(indices);
    indices = indices_out_.DeQue<int32_t>();
    CopyRowsOut(indices_[decode_rows_.decode_row() * t_->count], 0, indices, 1,
                static_cast<int32_t>(t_->count), ListPairs(t_->count));
    indices_out_.FreeTensor(indices);
  }

  __aicore__ inline void StartWindows(int64_t keys, int64_t candidates) {
    constexpr int64_t kMultiple = kRepeatFloats;
    // One window may be all there is, and shorter than others.
    const int64_t blocks =
        keys <= t_->Keys() ? (candidates + kMultiple - 1) / kMultiple * kMultiple : t_->window;
    const auto window = static_cast<int32_t>(Max(kMultiple, Min(blocks, t_->window)));
    importance_.SetWindow(window);
    topk_.SetWindow(window);
    importance_.Start();
    topk_.Start();
  }

  // Returns the first block that is not ranked yet.
  __aicore__ inline int64_t RankWindow(int64_t keys, int64_t candidates) {
    const BlockWindow blocks = importance_.Blocks(keys);
    importance_.Scores(topk_.Scores(), blocks);
    if (blocks.end < candidates) importance_.NextWindow(blocks);
    topk_.PrepareScores(blocks.first);
    const int64_t end = Min(candidates, blocks.end) - blocks.first;
    if (t_->causal != 0) {
      const int64_t own = decode_rows_.keys.OwnBlock() - blocks.first;
      topk_.Force(0, 1, -blocks.first, t_->init - blocks.first);
      topk_.Force(0, 1, own - t_->local + 1, own + 1);
    }
    topk_.Exclude(0, 1, end);
    topk_.Sort();
    topk_.Merge(1, end);
    return blocks.end;
  }

  const SplitTiling* splits_ = nullptr;
  const RankingTiling* t_ = nullptr;
  DecodeRowWalk<Keys> decode_rows_;
  Importance importance_;
  TopK topk_;
  AscendC::GlobalTensor<float> sums_;
  AscendC::GlobalTensor<int32_t> indices_;
  AscendC::TBuf<AscendC::TPosition::VECCALC> buffer_;
  AscendC::TQue<AscendC::TPosition::VECOUT, 1> indices_out_;
};

}  // namespace nsa::ascend
