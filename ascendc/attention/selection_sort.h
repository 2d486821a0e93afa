// Makes the lists of selection.h from the block indices of the queries, on the vector cores.
#pragma once

#include "ascendc/attention/selection.h"
#include "ascendc/attention/work_items.h"
#include "ascendc/common/pipe_order.h"

namespace nsa::ascend {

class SelectionSort {
 public:
  // Sorts this core's share of its block's tiles; `memory` holds kSortBytes.
  __aicore__ inline void Run(GM_ADDR indices, GM_ADDR lists, const SelectionTiling& selection,
                             WorkItems* tiles, const AscendC::LocalTensor<float>& memory) {
    constexpr uint32_t kEntries = kMostStripes * kMostSelected;
    s_ = &selection;
    count_ = static_cast<int32_t>(selection.block_count);
    from_.SetGlobalBuffer(reinterpret_cast<__gm__ int32_t*>(indices));
    lists_.SetGlobalBuffer(reinterpret_cast<__gm__ int32_t*>(lists));
    const auto unions = lists + SelectionListBytes(selection.rows);
    unions_.SetGlobalBuffer(reinterpret_cast<__gm__ int32_t*>(unions));
    const auto ints = memory.ReinterpretCast<int32_t>();
    raw_ = ints;
    values_ = memory[kEntries];
    pairs_ = memory[2 * kEntries];
    merged_ = memory[4 * kEntries];
    queries_ = ints[6 * kEntries];
    bits_ = ints[7 * kEntries].ReinterpretCast<uint8_t>();
    NumberLists(queries_, kEntries);
    WorkItem item{};
    for (int64_t tile = 0; tiles->Next(&item); ++tile) {
      if (tile % AscendC::GetTaskRation() == AscendC::GetSubBlockIdx()) Sort(item);
    }
  }

 private:
  __aicore__ inline void Sort(const WorkItem& item) {
    // Lists are merged by fours.
    const int32_t lists = item.rows == 1 ? 1 : item.rows <= 4 ? 4 : kMostStripes;
    const int32_t count = RoundUp(lists, 2) * kMostSelected;
    Load(item, count);
    SortLists(count);
    Store(item);
    MergeLists(item, lists);
  }

  __aicore__ inline int64_t ListOf(const WorkItem& item) const {
    return (item.query_start + item.row) * s_->heads + item.head;
  }

  __aicore__ inline void Load(const WorkItem& item, int32_t count) {
    const int32_t padded = RoundUp(count_, kBlockFloats);
    AscendC::Duplicate(raw_, -1, count);
    Order<AscendC::HardEvent::V_MTE2>();
    AscendC::DataCopyPad(
        raw_, from_[ListOf(item) * count_],
        AscendC::DataCopyExtParams(static_cast<uint16_t>(item.rows),
                                   static_cast<uint32_t>(count_ * 4),
                                   static_cast<uint32_t>((s_->heads - 1) * count_ * 4),
                                   static_cast<uint32_t>(kMostSelected - padded) / kBlockFloats, 0),
        AscendC::DataCopyPadExtParams<int32_t>(true, 0, static_cast<uint8_t>(padded - count_), -1));
    Order<AscendC::HardEvent::MTE2_V>();
  }

  // Pairs of a block, negative, and a query.
  __aicore__ inline void SortLists(int32_t count) {
    AscendC::Cast(values_, raw_, AscendC::RoundMode::CAST_RINT, static_cast<uint32_t>(count));
    AscendC::PipeBarrier<PIPE_V>();
    AscendC::CompareScalar(bits_, values_, 0.0f, AscendC::CMPMODE::GE,
                           static_cast<uint32_t>(count));
    AscendC::PipeBarrier<PIPE_V>();
    AscendC::Select(values_, bits_, values_, static_cast<float>(kNoBlock),
                    AscendC::SELMODE::VSEL_TENSOR_SCALAR_MODE, static_cast<uint32_t>(count));
    AscendC::PipeBarrier<PIPE_V>();
    // The instruction puts the largest first.
    AscendC::Muls(values_, values_, -1.0f, count);
    AscendC::PipeBarrier<PIPE_V>();
    AscendC::Sort32(pairs_, values_, queries_.ReinterpretCast<uint32_t>(), count / kMostSelected);
    AscendC::PipeBarrier<PIPE_V>();
    TakeBlocks(pairs_, count);
  }

  // raw = the blocks of pairs.
  __aicore__ inline void TakeBlocks(const AscendC::LocalTensor<float>& pairs, int32_t count) {
    constexpr uint8_t kEvenOnes = 1;
    uint64_t kept = 0;
    AscendC::GatherMask(values_, pairs, kEvenOnes, true, static_cast<uint32_t>(2 * count),
                        AscendC::GatherMaskParams(1, 1, 0, 0), kept);
    AscendC::PipeBarrier<PIPE_V>();
    AscendC::Muls(values_, values_, -1.0f, count);
    AscendC::PipeBarrier<PIPE_V>();
    AscendC::Cast(raw_, values_, AscendC::RoundMode::CAST_RINT, static_cast<uint32_t>(count));
  }

  __aicore__ inline void Store(const WorkItem& item) {
    constexpr int32_t kListBlocks = kMostSelected * 4 / kBlockBytes;
    Order<AscendC::HardEvent::V_MTE3>();
    AscendC::DataCopy(
        lists_[ListOf(item) * kMostSelected], raw_,
        AscendC::DataCopyParams(static_cast<uint16_t>(item.rows), kListBlocks, 0,
                                static_cast<uint16_t>((s_->heads - 1) * kListBlocks)));
    Order<AscendC::HardEvent::MTE3_V>();
  }

  // The list of the whole tile.
  __aicore__ inline void MergeLists(const WorkItem& item, int32_t lists) {
    const int32_t count = RoundUp(lists, 2) * kMostSelected;
    auto pairs = pairs_, other = merged_;
    for (int32_t length = kMostSelected; length < lists * kMostSelected; length *= kMergeLists) {
      MergeFours(other, pairs, length, lists * kMostSelected / (length * kMergeLists));
      const auto from = pairs;
      pairs = other;
      other = from;
    }
    constexpr uint8_t kOddOnes = 2;
    uint64_t kept = 0;
    const auto query = other.ReinterpretCast<int32_t>();
    AscendC::GatherMask(query, pairs.ReinterpretCast<int32_t>(), kOddOnes, true,
                        static_cast<uint32_t>(2 * count), AscendC::GatherMaskParams(1, 1, 0, 0),
                        kept);
    TakeBlocks(pairs, count);
    AscendC::PipeBarrier<PIPE_V>();
    AscendC::Mins(raw_, raw_, kNoUnionBlock, count);
    AscendC::PipeBarrier<PIPE_V>();
    AscendC::ShiftLeft(raw_, raw_, kQueryBits, count);
    AscendC::PipeBarrier<PIPE_V>();
    AscendC::Add(raw_, raw_, query, count);
    Order<AscendC::HardEvent::V_MTE3>();
    AscendC::DataCopy(unions_[UnionOf(*s_, item)], raw_,
                      static_cast<uint32_t>(item.rows * kMostSelected));
    Order<AscendC::HardEvent::MTE3_V>();
  }

  // Four lists of `length` pairs that lie side by side, and four more, ...
  __aicore__ inline static void MergeFours(const AscendC::LocalTensor<float>& to,
                                           const AscendC::LocalTensor<float>& from, int32_t length,
                                           int32_t repeats) {
    const auto list = [&](int32_t i) __aicore__ {
      const auto at = static_cast<uint32_t>(2 * i * length);
      return from[at];
    };
    const auto each = static_cast<uint16_t>(length);
    const uint16_t lengths[kMergeLists] = {each, each, each, each};
    AscendC::MrgSort(to, AscendC::MrgSortSrcList<float>(list(0), list(1), list(2), list(3)),
                     AscendC::MrgSort4Info(lengths, false, 15, static_cast<uint16_t>(repeats)));
    AscendC::PipeBarrier<PIPE_V>();
  }

  static constexpr int32_t kMergeLists = 4;

  const SelectionTiling* s_ = nullptr;
  int32_t count_ = 0;
  AscendC::GlobalTensor<int32_t> from_, lists_, unions_;
  AscendC::LocalTensor<int32_t> raw_;           // [16, 32]
  AscendC::LocalTensor<float> values_;          // [16, 32]
  AscendC::LocalTensor<float> pairs_, merged_;  // [16, 32, 2]
  AscendC::LocalTensor<int32_t> queries_;       // of every entry
  AscendC::LocalTensor<uint8_t> bits_;
};

}  // namespace nsa::ascend
