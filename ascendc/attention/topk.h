// The best blocks of some queries, window by window: forced ones first, by index, then by score,
// ties to the smaller index.
#pragma once

#include "ascendc/attention/pass_rows.h"
#include "ascendc/attention/ranking_tiling.h"

namespace nsa::ascend {

class TopK {
 public:
  // `memory` holds RankingBuffers::total bytes; Importance has been started on it.
  __aicore__ inline void Init(const RankingTiling* tiling,
                              const AscendC::LocalTensor<float>& memory) {
    t_ = tiling;
    const RankingBuffers at(*t_);
    list_pairs_ = ListPairs(t_->count);
    fills_lists_ = t_->count <= kSortRun;
    scores_ = memory[at.scores / 4];
    terms_ = memory[at.terms / 4];
    numbers_ = memory[at.numbers / 4].template ReinterpretCast<int32_t>();
    ramp_ = memory[at.ramp / 4].template ReinterpretCast<int32_t>();
    indices_ = memory[at.indices / 4].template ReinterpretCast<int32_t>();
    bits_ = memory[at.bits / 4].template ReinterpretCast<uint8_t>();
    pairs_ = memory[at.pairs / 4];
    merged_ = memory[at.merged / 4];
    last_ = memory[at.merged_last / 4];
    best_ = memory[at.best / 4];
    // Copies of whole data blocks take in what lies behind a list.
    AscendC::Duplicate(merged_, 0.0f, static_cast<int32_t>((at.best - at.merged) / 4));
    Clear();
    SetWindow(static_cast<int32_t>(t_->window));
  }

  // The blocks of a window, a multiple of 64, from now on.
  __aicore__ inline void SetWindow(int32_t window) {
    if (window == window_) return;
    window_ = window;
    for (int32_t query = 0; query < t_->queries; ++query)
      AscendC::Adds(Of(ramp_, query), numbers_, 0, window);
    AscendC::PipeBarrier<PIPE_V>();
  }

  __aicore__ inline int32_t Window() const { return window_; }

  // Where Importance puts the scores of a window.
  __aicore__ inline const AscendC::LocalTensor<float>& Scores() const { return scores_; }

  // Before the first window of some queries.
  __aicore__ inline void Start() {
    first_ = true;
    // Otherwise the first window fills them, if need be with what is no candidate.
    if (!fills_lists_) Clear();
  }

  // A NaN ranks below every number.
  __aicore__ inline void PrepareScores(int64_t first_block) {
    const auto count = static_cast<int32_t>(t_->queries * window_);
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
    const auto count = static_cast<uint32_t>(window_);
    BitsOfZeros(bits_, terms_.template ReinterpretCast<half>(), mask,
                static_cast<uint32_t>(RoundUp(static_cast<int32_t>(count), 2 * kRepeatFloats)));
    AscendC::Select(scores, bits_, scores, -kLowest, AscendC::SELMODE::VSEL_TENSOR_SCALAR_MODE,
                    count);
    AscendC::PipeBarrier<PIPE_V>();
  }
  // Likewise the blocks [begin, end) of the window, of `queries` queries.
  __aicore__ inline void Force(int32_t query, int32_t queries, int64_t begin, int64_t end) {
    FillColumns(Of(scores_, query), -kLowest, Max(begin, 0), Min(end, window_), queries, window_);
    AscendC::PipeBarrier<PIPE_V>();
  }
  // No block of the window from `begin` on is a candidate.
  __aicore__ inline void Exclude(int32_t query, int32_t queries, int64_t begin) {
    FillColumns(Of(scores_, query), -Infinity(), Max(begin, 0), window_, queries, window_);
    FillColumns(Of(indices_, query), int32_t{-1}, Max(begin, 0), window_, queries, window_);
  }

  // Once per window, after the above.
  __aicore__ inline void Sort() {
    AscendC::PipeBarrier<PIPE_V>();
    AscendC::Sort32(pairs_, scores_, indices_.template ReinterpretCast<uint32_t>(),
                    static_cast<int32_t>(t_->queries * window_ / kSortRun));
    AscendC::PipeBarrier<PIPE_V>();
  }

  // Brings the lists of `queries` queries up to date. None has a candidate of the window behind the
  // first `candidates` blocks.
  __aicore__ inline void Merge(int32_t queries, int64_t candidates) {
    const auto runs = CeilDiv(static_cast<int32_t>(Max(Min(candidates, window_), 1)), kSortRun);
    const bool replace = first_ && fills_lists_;
    const int32_t most = replace ? 1 : kMergeLists - 1;
    first_ = false;
    Lists lists{pairs_, runs, kSortRun, Shortened(kSortRun), Shortened(kSortRun)};
    auto other = merged_;
    while (lists.count > most) {
      const auto from = lists.memory;
      lists = MergeFours(queries, lists, other);
      other = from;
    }
    // From list to list, in data blocks: a block is four pairs.
    auto pitch = window_ / 4;
    if (!replace) {
      for (int32_t query = 0; query < queries; ++query) MergeWithBest(query, lists);
      pitch = list_pairs_;  // four lists
    }
    const auto blocks = static_cast<uint16_t>(CeilDiv(static_cast<int32_t>(t_->count), 4));
    AscendC::DataCopy(best_, replace ? lists.memory : last_,
                      AscendC::DataCopyParams(static_cast<uint16_t>(queries), blocks,
                                              static_cast<uint16_t>(pitch - blocks),
                                              static_cast<uint16_t>(list_pairs_ / 4 - blocks)));
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
  // Sorted lists of pairs of every query, `stride` pairs apart. Only the best are read: `length` of
  // every list but the last.
  struct Lists {
    AscendC::LocalTensor<float> memory;
    int32_t count, stride, length, last_length;

    __aicore__ inline int32_t LengthOf(int32_t list) const {
      return list + 1 == count ? last_length : length;
    }
  };

  // Lists without a block: -1, and a score below every other.
  __aicore__ inline void Clear() {
    const auto repeats = static_cast<uint8_t>(t_->queries * list_pairs_ * kPairFloats / 64);
    uint64_t scores[2] = {0x5555555555555555, 0}, indices[2] = {0xaaaaaaaaaaaaaaaa, 0};
    AscendC::Duplicate(best_, -Infinity(), scores, repeats, 1, 8);
    AscendC::Duplicate(best_.template ReinterpretCast<int32_t>(), int32_t{-1}, indices, repeats, 1,
                       8);
    AscendC::PipeBarrier<PIPE_V>();
  }

  template <typename T>
  __aicore__ inline AscendC::LocalTensor<T> Of(const AscendC::LocalTensor<T>& tensor,
                                               int32_t query) const {
    return tensor[static_cast<uint32_t>(query * window_)];
  }
  // A list of a query's.
  __aicore__ inline AscendC::LocalTensor<float> Pairs(const Lists& lists, int32_t query,
                                                      int32_t list) const {
    return lists
        .memory[static_cast<uint32_t>((query * window_ + list * lists.stride) * kPairFloats)];
  }
  // No more than `count` of a list can be chosen.
  __aicore__ inline int32_t Shortened(int32_t length) const {
    return static_cast<int32_t>(Min(length, t_->count));
  }

  // Lists four by four in one.
  __aicore__ inline Lists MergeFours(int32_t queries, const Lists& lists,
                                     const AscendC::LocalTensor<float>& to) {
    Lists merged{to, CeilDiv(lists.count, kMergeLists), lists.stride * kMergeLists,
                 Shortened(kMergeLists * lists.length), 0};
    for (int32_t query = 0; query < queries; ++query) {
      for (int32_t i = 0; i < merged.count; ++i) {
        AscendC::LocalTensor<float> part[kMergeLists];
        uint16_t lengths[kMergeLists] = {0, 0, 0, 0};
        const int32_t first = i * kMergeLists;
        const auto count = static_cast<int32_t>(Min(kMergeLists, lists.count - first));
        for (int32_t j = 0; j < count; ++j) {
          part[j] = Pairs(lists, query, first + j);
          lengths[j] = static_cast<uint16_t>(lists.LengthOf(first + j));
        }
        merged.last_length = Shortened(MergeParts(Pairs(merged, query, i), part, lengths, count));
      }
    }
    AscendC::PipeBarrier<PIPE_V>();
    return merged;
  }
  // A query's lists after its best ones so far.
  __aicore__ inline void MergeWithBest(int32_t query, const Lists& lists) {
    AscendC::LocalTensor<float> part[kMergeLists];
    uint16_t lengths[kMergeLists] = {0, 0, 0, 0};
    part[0] = best_[static_cast<uint32_t>(query * list_pairs_ * kPairFloats)];
    lengths[0] = static_cast<uint16_t>(t_->count);
    for (int32_t i = 0; i < lists.count; ++i) {
      part[i + 1] = Pairs(lists, query, i);
      lengths[i + 1] = static_cast<uint16_t>(lists.LengthOf(i));
    }
    MergeParts(last_[static_cast<uint32_t>(query * kMergeLists * list_pairs_ * kPairFloats)], part,
               lengths, lists.count + 1);
    AscendC::PipeBarrier<PIPE_V>();
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
    return total;
  }

  const RankingTiling* t_ = nullptr;
  int32_t list_pairs_ = 0, window_ = 0;
  bool fills_lists_ = false;  // the first window of some queries
  bool first_ = true;
  AscendC::LocalTensor<float> scores_, terms_, pairs_, merged_, last_, best_;
  AscendC::LocalTensor<int32_t> numbers_, ramp_, indices_;
  AscendC::LocalTensor<uint8_t> bits_;
};

}  // namespace nsa::ascend
