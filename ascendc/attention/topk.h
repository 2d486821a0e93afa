// The best blocks of some queries, window by window: forced ones first, by index, then by score,
// ties to the smaller index.
#pragma once

#include "ascendc/attention/ranking_tiling.h"
#include "ascendc/attention/row_group.h"

namespace nsa::ascend {

// x[i] = value for i of [begin, end).
template <typename T>
__aicore__ inline void FillRange(const AscendC::LocalTensor<T>& x, T value, int64_t begin,
                                 int64_t end) {
  constexpr int64_t kLanes = kRepeatFloats;
  static_assert(sizeof(T) == 4, "64 lanes of a repeat");
  if (begin >= end) return;
  const int64_t whole = (begin + kLanes - 1) / kLanes * kLanes, last = end / kLanes * kLanes;
  const auto part = [&](int64_t from, int64_t to) {
    const int64_t at = from / kLanes * kLanes;
    uint64_t lanes[2] = {~uint64_t{0} << (from - at), 0};
    if (to - at < kLanes) lanes[0] &= ~(~uint64_t{0} << (to - at));
    AscendC::Duplicate(x[static_cast<uint32_t>(at)], value, lanes, 1, 1, 8);
  };
  if (begin < whole) part(begin, Min(whole, end));
  if (whole < last)
    AscendC::Duplicate(x[static_cast<uint32_t>(whole)], value, static_cast<int32_t>(last - whole));
  if (last < end && last >= whole) part(last, end);
}

class TopK {
 public:
  // `memory` holds RankingBuffers::total bytes.
  __aicore__ inline void Init(const RankingTiling* tiling,
                              const AscendC::LocalTensor<float>& memory) {
    t_ = tiling;
    const RankingBuffers at(*t_);
    list_pairs_ = ListPairs(t_->count);
    scores_ = memory[at.scores / 4];
    terms_ = memory[at.terms / 4];
    ramp_ = memory[at.ramp / 4].template ReinterpretCast<int32_t>();
    indices_ = memory[at.indices / 4].template ReinterpretCast<int32_t>();
    bits_ = memory[at.bits / 4].template ReinterpretCast<uint8_t>();
    pairs_ = memory[at.pairs / 4];
    merged_ = memory[at.merged / 4];
    last_ = memory[at.merged_last / 4];
    best_ = memory[at.best / 4];
    const auto window = static_cast<int32_t>(t_->window);
    for (int32_t query = 0; query < t_->queries; ++query) {
      AscendC::CreateVecIndex(ramp_[static_cast<uint32_t>(query * window)], 0,
                              static_cast<uint32_t>(window));
    }
    // Copies of whole data blocks take in what lies behind a list.
    AscendC::Duplicate(merged_, 0.0f, static_cast<int32_t>((at.best - at.merged) / 4));
    AscendC::PipeBarrier<PIPE_V>();
  }

  // Where Importance puts the scores of a window.
  __aicore__ inline const AscendC::LocalTensor<float>& Scores() const { return scores_; }

  // Lists without a block: -1, and a score below every other.
  __aicore__ inline void Start() {
    const auto repeats = static_cast<uint8_t>(t_->queries * list_pairs_ * kPairFloats / 64);
    uint64_t scores[2] = {0x5555555555555555, 0}, indices[2] = {0xaaaaaaaaaaaaaaaa, 0};
    AscendC::Duplicate(best_, -Infinity(), scores, repeats, 1, 8);
    AscendC::Duplicate(best_.template ReinterpretCast<int32_t>(), int32_t{-1}, indices, repeats, 1,
                       8);
    AscendC::PipeBarrier<PIPE_V>();
  }

  // A NaN ranks below every number.
  __aicore__ inline void PrepareScores(int64_t first_block) {
    const auto count = static_cast<int32_t>(t_->queries * t_->window);
    AscendC::Compare(bits_, scores_, scores_, AscendC::CMPMODE::EQ, static_cast<uint32_t>(count));
    AscendC::Adds(indices_, ramp_, static_cast<int32_t>(first_block), count);
    AscendC::PipeBarrier<PIPE_V>();
    AscendC::Select(scores_, bits_, scores_, kLowest, AscendC::SELMODE::VSEL_TENSOR_SCALAR_MODE,
                    static_cast<uint32_t>(count));
    AscendC::PipeBarrier<PIPE_V>();
  }

  // Forces the blocks of a query in of which the mask has a byte that is not 0. `mask`: of the
  // window's blocks, as many bytes.
  __aicore__ inline void Force(int32_t query, const AscendC::LocalTensor<uint8_t>& mask) {
    const auto scores = Of(scores_, query);
    const auto count = static_cast<uint32_t>(t_->window);
    BitsOfZeros(bits_, terms_.template ReinterpretCast<half>(), mask,
                static_cast<uint32_t>(RoundUp(static_cast<int32_t>(count), 2 * kRepeatFloats)));
    AscendC::Select(scores, bits_, scores, -kLowest, AscendC::SELMODE::VSEL_TENSOR_SCALAR_MODE,
                    count);
    AscendC::PipeBarrier<PIPE_V>();
  }
  // Likewise the blocks [begin, end) of the window.
  __aicore__ inline void Force(int32_t query, int64_t begin, int64_t end) {
    FillRange(Of(scores_, query), -kLowest, Max(begin, 0), Min(end, t_->window));
    AscendC::PipeBarrier<PIPE_V>();
  }
  // No block of the window from `begin` on is a candidate.
  __aicore__ inline void Exclude(int32_t query, int64_t begin) {
    FillRange(Of(scores_, query), -Infinity(), Max(begin, 0), t_->window);
    FillRange(Of(indices_, query), int32_t{-1}, Max(begin, 0), t_->window);
  }

  // Once per window, after the above.
  __aicore__ inline void Sort() {
    AscendC::PipeBarrier<PIPE_V>();
    AscendC::Sort32(pairs_, scores_, indices_.template ReinterpretCast<uint32_t>(),
                    static_cast<int32_t>(t_->queries * t_->window / kSortRun));
    AscendC::PipeBarrier<PIPE_V>();
  }

  // Brings a query's list up to date with the first `candidates` blocks of the window.
  __aicore__ inline void Merge(int32_t query, int64_t candidates) {
    Lists lists{Pairs(pairs_, query),
                CeilDiv(static_cast<int32_t>(Min(candidates, t_->window)), kSortRun), kSortRun,
                Shortened(kSortRun), Shortened(kSortRun)};
    if (candidates <= 0) return;
    auto other = Pairs(merged_, query);
    while (lists.count >= kMergeLists) {
      const auto from = lists.memory;
      lists = MergeFours(lists, other);
      other = from;
    }
    const auto best = best_[static_cast<uint32_t>(query * list_pairs_ * kPairFloats)];
    MergeInto(last_, lists, 0, lists.count, best);
    AscendC::DataCopy(
        best, last_,
        static_cast<uint32_t>(RoundUp(static_cast<int32_t>(t_->count), 4) * kPairFloats));
    AscendC::PipeBarrier<PIPE_V>();
  }

  // to[query, count padded to a multiple of 32] = the blocks of the lists.
  __aicore__ inline void Take(const AscendC::LocalTensor<int32_t>& to) {
    constexpr uint8_t kOddWords = 2;
    uint64_t kept = 0;
    const auto repeats = static_cast<uint16_t>(t_->queries * list_pairs_ * kPairFloats / 64);
    AscendC::GatherMask(to, best_.template ReinterpretCast<int32_t>(), kOddWords, false, 0,
                        AscendC::GatherMaskParams(1, repeats, 8, 0), kept);
    AscendC::PipeBarrier<PIPE_V>();
  }

 private:
  // Sorted lists of pairs, `stride` pairs apart, of which the best are looked at: `length` of every
  // one but the last.
  struct Lists {
    AscendC::LocalTensor<float> memory;
    int32_t count, stride, length, last_length;

    __aicore__ inline int32_t LengthOf(int32_t list) const {
      return list + 1 == count ? last_length : length;
    }
  };

  template <typename T>
  __aicore__ inline AscendC::LocalTensor<T> Of(const AscendC::LocalTensor<T>& tensor,
                                               int32_t query) const {
    return tensor[static_cast<uint32_t>(query * t_->window)];
  }
  __aicore__ inline AscendC::LocalTensor<float> Pairs(const AscendC::LocalTensor<float>& tensor,
                                                      int32_t query) const {
    return tensor[static_cast<uint32_t>(query * t_->window * kPairFloats)];
  }
  // No more than `count` of a list can be chosen.
  __aicore__ inline int32_t Shortened(int32_t length) const {
    return static_cast<int32_t>(Min(length, t_->count));
  }

  __aicore__ inline Lists MergeFours(const Lists& lists, const AscendC::LocalTensor<float>& to) {
    Lists merged{to, CeilDiv(lists.count, kMergeLists), lists.stride * kMergeLists,
                 Shortened(kMergeLists * lists.length), 0};
    for (int32_t i = 0; i < merged.count; ++i) {
      const int32_t first = i * kMergeLists;
      const auto count = static_cast<int32_t>(Min(kMergeLists, lists.count - first));
      const int32_t length = MergeInto(to[static_cast<uint32_t>(i * merged.stride * kPairFloats)],
                                       lists, first, count);
      merged.last_length = Shortened(length);
    }
    return merged;
  }

  // Some lists in one, after `better` if there is one; returns its length.
  __aicore__ inline int32_t MergeInto(const AscendC::LocalTensor<float>& to, const Lists& lists,
                                      int32_t first, int32_t count) {
    AscendC::LocalTensor<float> part[kMergeLists];
    uint16_t lengths[kMergeLists] = {0, 0, 0, 0};
    for (int32_t i = 0; i < count; ++i) {
      part[i] = lists.memory[static_cast<uint32_t>((first + i) * lists.stride * kPairFloats)];
      lengths[i] = static_cast<uint16_t>(lists.LengthOf(first + i));
    }
    return MergeParts(to, part, lengths, count);
  }
  __aicore__ inline void MergeInto(const AscendC::LocalTensor<float>& to, const Lists& lists,
                                   int32_t first, int32_t count,
                                   const AscendC::LocalTensor<float>& better) {
    AscendC::LocalTensor<float> part[kMergeLists];
    uint16_t lengths[kMergeLists] = {0, 0, 0, 0};
    part[0] = better;
    lengths[0] = static_cast<uint16_t>(t_->count);
    for (int32_t i = 0; i < count; ++i) {
      part[i + 1] = lists.memory[static_cast<uint32_t>((first + i) * lists.stride * kPairFloats)];
      lengths[i + 1] = static_cast<uint16_t>(lists.LengthOf(first + i));
    }
    MergeParts(to, part, lengths, count + 1);
  }
  __aicore__ inline static int32_t MergeParts(const AscendC::LocalTensor<float>& to,
                                              AscendC::LocalTensor<float> (&part)[kMergeLists],
                                              const uint16_t (&lengths)[kMergeLists],
                                              int32_t count) {
    int32_t total = 0;
    for (int32_t i = 0; i < count; ++i) total += lengths[i];
    if (count == 1) {
      AscendC::DataCopy(to, part[0], static_cast<uint32_t>(RoundUp(total, 4) * kPairFloats));
    } else {
      for (int32_t i = count; i < kMergeLists; ++i) part[i] = part[0];
      const auto valid = static_cast<uint16_t>((1 << count) - 1);
      AscendC::MrgSort(to, AscendC::MrgSortSrcList<float>(part[0], part[1], part[2], part[3]),
                       AscendC::MrgSort4Info(lengths, false, valid, 1));
    }
    AscendC::PipeBarrier<PIPE_V>();
    return total;
  }

  const RankingTiling* t_ = nullptr;
  int32_t list_pairs_ = 0;
  AscendC::LocalTensor<float> scores_, terms_, pairs_, merged_, last_, best_;
  AscendC::LocalTensor<int32_t> ramp_, indices_;
  AscendC::LocalTensor<uint8_t> bits_;
};

}  // namespace nsa::ascend
