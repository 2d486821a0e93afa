// Importance of selection blocks from the probabilities of compressed tokens (paper eq. 9), window
// by window.
#pragma once

#include "ascendc/attention/pass_rows.h"
#include "ascendc/attention/ranking_tiling.h"

namespace nsa::ascend {

// Blocks of a window and how far they are known.
struct BlockWindow {
  int64_t first, end;  // blocks whose keys are complete
  int64_t keys;        // first key of the window
};

class Importance {
 public:
  // `memory` holds RankingBuffers::total bytes.
  __aicore__ inline void Init(const RankingTiling* tiling,
                              const AscendC::LocalTensor<float>& memory) {
    t_ = tiling;
    const RankingBuffers at(*t_);
    const ProbabilityRow row(*t_);
    row_pitch_ = row.pitch;
    before_ = row.before;
    probabilities_ = memory;
    places_ = memory[at.places / 4].template ReinterpretCast<uint32_t>();
    terms_ = memory[at.terms / 4];
    numbers_ = memory[at.numbers / 4].template ReinterpretCast<int32_t>();
    AscendC::CreateVecIndex(numbers_, 0, static_cast<uint32_t>(t_->window));
    AscendC::PipeBarrier<PIPE_V>();
    SetWindow(static_cast<int32_t>(t_->window));
  }

  // The blocks of a window, a multiple of 64, from now on; fewer than at first only where it is the
  // only one.
  __aicore__ inline void SetWindow(int32_t window) {
    if (window == blocks_) return;
    blocks_ = window;
    const auto places = places_.ReinterpretCast<int32_t>();
    AscendC::Muls(places, numbers_, static_cast<int32_t>(t_->block_keys * 4), window);
    AscendC::PipeBarrier<PIPE_V>();
    for (int32_t query = 1; query < t_->queries; ++query) {
      AscendC::Adds(places[static_cast<uint32_t>(query * window)], places, query * row_pitch_ * 4,
                    window);
    }
    AscendC::PipeBarrier<PIPE_V>();
  }

  // Begins `queries` queries at their first key.
  __aicore__ inline void Start() {
    AscendC::Duplicate(probabilities_, 0.0f, static_cast<int32_t>(t_->queries) * row_pitch_);
    AscendC::PipeBarrier<PIPE_V>();
    next_ = window_ = 0;
  }

  // Adds the probabilities of rows, `group` of them of a query, from query `first` on, for the keys
  // from `key` of the window on.
  __aicore__ inline void Add(const AscendC::LocalTensor<float>& p, const PassRows& g, int32_t group,
                             int32_t first, int32_t key) {
    const int32_t each = static_cast<int32_t>(Min(group, g.rows)), queries = g.rows / each;
    constexpr int32_t kMostStride = 255 * kBlockFloats;
    const auto lanes = static_cast<uint64_t>(kRepeatFloats);
    const auto sums = probabilities_[static_cast<uint32_t>(first * row_pitch_ + before_ + key)];
    if (each == 1 && row_pitch_ <= kMostStride) {
      const auto pitch = static_cast<uint8_t>(row_pitch_ / kBlockFloats);
      ForRepeats(g.width, [&](uint32_t at, uint64_t) __aicore__ {
        AscendC::Add(sums[at], p[at], sums[at], lanes, g.repeats(),
                     AscendC::BinaryRepeatParams(1, 1, 1, pitch, g.pitch(), pitch));
      });
    } else {
      for (int32_t query = 0; query < queries; ++query) {
        const auto from = p[static_cast<uint32_t>(query * each * g.width)];
        ForRepeats(g.width, [&](uint32_t at, uint64_t) __aicore__ {
          const auto to = sums[static_cast<uint32_t>(query * row_pitch_) + at];
          // Every repeat adds a head to the same sums.
          AscendC::Add(to, from[at], to, lanes, static_cast<uint8_t>(each),
                       AscendC::BinaryRepeatParams(1, 1, 1, 0, g.pitch(), 0));
        });
      }
    }
    AscendC::PipeBarrier<PIPE_V>();
  }

  // The blocks of which nothing is missing when the keys of the current window are complete;
  // `keys`: those that the segment has.
  __aicore__ inline BlockWindow Blocks(int64_t keys) const {
    const int64_t end = window_ + t_->Keys();
    // Behind the last key there are zeros.
    if (end >= keys) return {next_, next_ + blocks_, window_};
    return {next_, (end - (t_->overlap != 0 ? 0 : 1)) / t_->block_keys, window_};
  }

  // scores[query, i] of the blocks of the current window: the sum of their keys, each weighted by
  // how much of it lies in the block.
  __aicore__ inline void Scores(const AscendC::LocalTensor<float>& scores,
                                const BlockWindow& blocks) {
    const int32_t m = static_cast<int32_t>(t_->block_keys);
    const int32_t n = static_cast<int32_t>(t_->overlap_keys);
    const int32_t taps = m + n - 1;
    // The last key of the first block, from the start of the window on.
    const int32_t last =
        static_cast<int32_t>(m * (blocks.first + 1) - (t_->overlap != 0 ? 1 : 0) - blocks.keys);
    const auto count = static_cast<int32_t>(t_->queries * blocks_);
    for (int32_t tap = 0; tap < taps; ++tap) {
      // The first key that ends in a block counts once, as the last one does.
      AscendC::Gather(tap == 0 ? scores : terms_, probabilities_, places_,
                      static_cast<uint32_t>((before_ + last - tap) * 4),
                      static_cast<uint32_t>(count));
      AscendC::PipeBarrier<PIPE_V>();
      if (tap == 0) continue;
      const auto weight = static_cast<float>(Min(Min(tap + 1, taps - tap), Min(m, n)));
      AscendC::Axpy(scores, terms_, weight, count);
      AscendC::PipeBarrier<PIPE_V>();
    }
  }

  // The end of the window stays, for the blocks that it begins.
  __aicore__ inline void NextWindow(const BlockWindow& blocks) {
    next_ = blocks.end;
    const auto keys = static_cast<int32_t>(t_->Keys());
    window_ += keys;
    for (int32_t query = 0; query < t_->queries; ++query) {
      const auto row = probabilities_[static_cast<uint32_t>(query * row_pitch_)];
      Keep(row, keys);
      AscendC::PipeBarrier<PIPE_V>();
      AscendC::Duplicate(row[static_cast<uint32_t>(before_)], 0.0f, keys);
    }
    AscendC::PipeBarrier<PIPE_V>();
  }

 private:
  // Moves the last values of the window before its start. A short window keeps some of the older
  // ones.
  __aicore__ inline void Keep(const AscendC::LocalTensor<float>& row, int32_t keys) const {
    for (int32_t at = 0; at < before_; at += kRepeatFloats) {
      AscendC::Adds(row[static_cast<uint32_t>(at)], row[static_cast<uint32_t>(keys + at)], 0.0f,
                    kRepeatFloats);
      AscendC::PipeBarrier<PIPE_V>();
    }
  }

  const RankingTiling* t_ = nullptr;
  int32_t row_pitch_ = 0, before_ = 0;
  int32_t blocks_ = 0;  // of a window
  int64_t next_ = 0;    // block whose keys are not complete yet
  int64_t window_ = 0;  // first key of the window
  AscendC::LocalTensor<float> probabilities_, terms_;
  AscendC::LocalTensor<int32_t> numbers_;
  AscendC::LocalTensor<uint32_t> places_;
};

}  // namespace nsa::ascend
