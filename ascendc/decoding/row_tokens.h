// Where the tokens of a row stand in the memory of a cache, in a kernel.
#pragma once

#include "ascendc/common/machine.h"
#include "kernel_operator.h"

namespace nsa::ascend {

// The part of the tiling data that says how a cache is paged.
struct PagesTiling {
  int64_t pages;   // of the cache, or its tokens where they lie one after another
  int64_t page;    // tokens of a page; 1 where there is no table
  int64_t places;  // of a row of block_table; 0: there is none
  int64_t stride;  // tokens of memory from page to page
};

// Tokens are counted over the whole memory.
class RowTokens {
 public:
  __aicore__ inline void Init(GM_ADDR block_table, int64_t rows, const PagesTiling& tiling) {
    t_ = tiling;
    if (t_.places > 0) {
      table_.SetGlobalBuffer(reinterpret_cast<__gm__ int32_t*>(block_table), rows * t_.places);
    }
  }
  // Where a token of a row is; `begin`: that of the row's first one where there is no table.
  __aicore__ inline int64_t At(int64_t row, int64_t begin, int64_t token) const {
    if (t_.places == 0) return begin + token;
    const int64_t place = token / t_.page;
    return table_.GetValue(row * t_.places + place) * t_.stride + token - place * t_.page;
  }
  // Tokens from this one on that follow each other in memory, of `count`.
  __aicore__ inline int64_t Run(int64_t token, int64_t count) const {
    return t_.places == 0 ? count : Min(count, t_.page - token % t_.page);
  }
  // Whether the memory has all of these tokens of a row: a table may say anything.
  __aicore__ inline bool Has(int64_t row, int64_t begin, int64_t token, int64_t end) const {
    if (t_.places == 0) return begin + end <= t_.pages;
    if (end > t_.places * t_.page) return false;
    for (int64_t place = token / t_.page; place * t_.page < end; ++place) {
      const int64_t page = table_.GetValue(row * t_.places + place);
      if (page < 0 || page >= t_.pages) return false;
    }
    return true;
  }

 private:
  AscendC::GlobalTensor<int32_t> table_;  // [rows, places]
  PagesTiling t_{};
};

}  // namespace nsa::ascend
