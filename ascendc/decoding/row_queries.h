// Queries of rows that have lengths of their own, in a kernel: which row a query is of, and how
// many tokens it sees.
#pragma once

#include "ascendc/common/machine.h"
#include "kernel_operator.h"

namespace nsa::ascend {

// The queries are asked for in their order, but for those of one row.
class RowQueries {
 public:
  // `counts`: queries of every row, null where each has `per_row`. `capacity`: tokens of a row, at
  // most.
  __aicore__ inline void Init(GM_ADDR counts, GM_ADDR lengths, int64_t batch, int64_t per_row,
                              int64_t capacity) {
    counted_ = counts != nullptr;
    if (counted_) counts_.SetGlobalBuffer(reinterpret_cast<__gm__ int64_t*>(counts), batch);
    lengths_.SetGlobalBuffer(reinterpret_cast<__gm__ int64_t*>(lengths), batch);
    batch_ = batch;
    per_row_ = per_row;
    capacity_ = capacity;
    end_ = count_ = Count(0);
  }
  __aicore__ inline void Seek(int64_t query) {
    while (query >= end_ && row_ + 1 < batch_) {
      ++row_;
      count_ = Count(row_);
      end_ += count_;
    }
    // The row's queries are its newest tokens. A list on the device may hold anything.
    const int64_t length = Min(lengths_.GetValue(row_), capacity_);
    seen_ = query >= end_ ? 0 : Max(0, length - (end_ - query) + 1);
  }
  // Queries of the row from this one of it on, at least 1.
  __aicore__ inline int64_t Left(int64_t query) const { return Max(1, end_ - query); }
  __aicore__ inline int64_t row() const { return row_; }
  // Tokens of the row up to the query itself.
  __aicore__ inline int64_t seen() const { return seen_; }

 private:
  __aicore__ inline int64_t Count(int64_t row) const {
    return counted_ ? Max(0, counts_.GetValue(row)) : per_row_;
  }

  AscendC::GlobalTensor<int64_t> counts_, lengths_;
  int64_t batch_ = 0, per_row_ = 0, capacity_ = 0;
  int64_t row_ = 0, count_ = 0, end_ = 0, seen_ = 0;
  bool counted_ = false;
};

}  // namespace nsa::ascend
