// Makes the lists of block_queries.h from the sorted lists of the queries, on the vector cores.
#pragma once

#include "ascendc/attention/block_queries.h"
#include "ascendc/attention/selection.h"
#include "ascendc/common/pipe_order.h"

namespace nsa::ascend {

class BlockInversion {
 public:
  __aicore__ inline void Init(const WorkTiling* work, const MaskTiling* mask,
                              const SelectionTiling* selection, GM_ADDR query_ends,
                              GM_ADDR key_ends, GM_ADDR offsets, GM_ADDR lists, GM_ADDR counts,
                              GM_ADDR queries, const AscendC::LocalTensor<float>& memory) {
    work_ = work;
    s_ = selection;
    mask_ = mask;
    query_ends_ = query_ends;
    key_ends_ = key_ends;
    offsets_ = offsets;
    lists_.SetGlobalBuffer(reinterpret_cast<__gm__ int32_t*>(lists));
    counts_.SetGlobalBuffer(reinterpret_cast<__gm__ int32_t*>(counts));
    count_of_.Init(counts);
    queries_.SetGlobalBuffer(reinterpret_cast<__gm__ int32_t*>(queries));
    constexpr uint32_t kEntries = kScanRows * kMostSelected;
    const auto ints = memory.ReinterpretCast<int32_t>();
    rows_ = ints;
    entries_ = ints[kEntries];
    found_ = ints[2 * kEntries];
    bits_ = ints[3 * kEntries].ReinterpretCast<uint8_t>();
    NumberLists(rows_, kEntries);
  }

  // How many queries select each of this core's blocks. All cores' are needed by List.
  __aicore__ inline void Count() {
    ForBlocks([&](const WorkItem& item, int64_t block, bool mine) __aicore__ {
      if (!mine) return;
      const int32_t count = Scan(item, -1);
      AscendC::Duplicate(found_, count, kBlockFloats);
      Order<AscendC::HardEvent::V_MTE3>();
      AscendC::DataCopy(counts_[block * kBlockFloats], found_, kBlockFloats);
      Order<AscendC::HardEvent::MTE3_V>();
    });
  }
  // Which.
  __aicore__ inline void List() {
    int64_t first = 0;
    ForBlocks([&](const WorkItem& item, int64_t block, bool mine) __aicore__ {
      const int32_t count = count_of_[block];
      if (mine && count > 0) Scan(item, first);
      first += count;
    });
  }

 private:
  template <typename Body>
  __aicore__ inline void ForBlocks(Body body) {
    const int64_t cores = AscendC::GetBlockNum() * AscendC::GetTaskRation();
    const int64_t core = AscendC::GetBlockIdx();
    WorkItems items;
    items.Init(work_, mask_, query_ends_, key_ends_, nullptr, offsets_);
    WorkItem item{};
    for (int64_t block = 0; items.Next(&item); ++block) body(item, block, block % cores == core);
  }

  // The queries that see a block and have it in their lists; stored from `to` on unless that is -1.
  __aicore__ inline int32_t Scan(const WorkItem& item, int64_t to) {
    const VisibleQueries visible{item.visible, item.queries};
    const auto block = static_cast<int32_t>(item.row / s_->block_size);
    int32_t found = 0;
    for (int64_t row = visible.Low(item.row); row < item.queries; row += kScanRows) {
      const auto rows = static_cast<int32_t>(Min(kScanRows, item.queries - row));
      const int32_t here = Select(item, row, rows, block);
      if (to >= 0 && here > 0) Store(to + found, static_cast<int32_t>(row), here);
      found += here;
    }
    return found;
  }

  __aicore__ inline int32_t Select(const WorkItem& item, int64_t row, int32_t rows, int32_t block) {
    constexpr int32_t kListBlocks = kMostSelected * 4 / kBlockBytes;
    const int32_t padded = RoundUp(rows, 2);
    const int64_t list = (item.query_start + row) * s_->heads + item.head;
    if (padded > rows) {
      AscendC::Duplicate(entries_[static_cast<uint32_t>(rows * kMostSelected)], -1, kMostSelected);
      Order<AscendC::HardEvent::V_MTE2>();
    }
    AscendC::DataCopy(
        entries_, lists_[list * kMostSelected],
        AscendC::DataCopyParams(static_cast<uint16_t>(rows), kListBlocks,
                                static_cast<uint16_t>((s_->heads - 1) * kListBlocks), 0));
    Order<AscendC::HardEvent::MTE2_V>();
    const auto count = static_cast<uint32_t>(padded * kMostSelected);
    AscendC::CompareScalar(bits_, entries_, block, AscendC::CMPMODE::EQ, count);
    AscendC::PipeBarrier<PIPE_V>();
    uint64_t found = 0;
    AscendC::GatherMask(found_, rows_, bits_.ReinterpretCast<uint32_t>(), true, count,
                        AscendC::GatherMaskParams(1, 1, 0, 0), found);
    AscendC::PipeBarrier<PIPE_V>();
    Order<AscendC::HardEvent::V_MTE2>();
    return static_cast<int32_t>(found);
  }

  __aicore__ inline void Store(int64_t to, int32_t first, int32_t count) {
    AscendC::Adds(found_, found_, first, count);
    Order<AscendC::HardEvent::V_MTE3>();
    AscendC::DataCopyPad(queries_[to], found_,
                         AscendC::DataCopyExtParams(1, static_cast<uint32_t>(count) * 4, 0, 0, 0));
    Order<AscendC::HardEvent::MTE3_V>();
  }

  const WorkTiling* work_ = nullptr;
  const MaskTiling* mask_ = nullptr;
  const SelectionTiling* s_ = nullptr;
  GM_ADDR query_ends_ = nullptr;
  GM_ADDR key_ends_ = nullptr;
  GM_ADDR offsets_ = nullptr;
  AscendC::GlobalTensor<int32_t> lists_, counts_, queries_;
  BlockCounts count_of_;
  AscendC::LocalTensor<int32_t> rows_;     // the list of every entry
  AscendC::LocalTensor<int32_t> entries_;  // [rows, 32]
  AscendC::LocalTensor<int32_t> found_;
  AscendC::LocalTensor<uint8_t> bits_;
};

}  // namespace nsa::ascend
