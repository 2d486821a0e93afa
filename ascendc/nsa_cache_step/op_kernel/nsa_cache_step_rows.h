// The rows of NsaCacheStep: which row a new token is of, and how many tokens are before it.
#pragma once

#include "ascendc/nsa_cache_step/op_kernel/nsa_cache_step_tiling.h"
#include "kernel_operator.h"

namespace nsa::ascend {

struct NsaCacheStepArguments {
  GM_ADDR new_query;  // float [T, N1, D], not rotated, as the keys
  GM_ADDR new_key;    // float [T, sets * N2, D]
  GM_ADDR new_value;  // float [T, sets * N2, Dv]
  GM_ADDR selected;
  GM_ADDR state;
  GM_ADDR ends;      // inclusive prefix sums of the new tokens of the rows, or null
  GM_ADDR gates;     // float [T, 3, N1]
  GM_ADDR weight_k;  // float [l, N2]
  GM_ADDR weight_v;
  GM_ADDR position_k;  // float [l, N2, D]
  GM_ADDR position_v;
  GM_ADDR others;
  GM_ADDR angles;
  GM_ADDR fine_angles;
  GM_ADDR result;
  GM_ADDR step_workspace;
  const NsaCacheStepTilingData* tiling;
};

// Arguments of the attention of one branch.
struct StepBranchArguments : NsaCacheStepArguments {
  GM_ADDR query = nullptr;  // rotated
  GM_ADDR key = nullptr;
  GM_ADDR value = nullptr;
  GM_ADDR fresh_key = nullptr;  // of the new tokens, which are not in the cache yet, or null
  GM_ADDR fresh_value = nullptr;
  GM_ADDR output = nullptr;
  GM_ADDR indices = nullptr;
  GM_ADDR workspace = nullptr;
};

// Rows and tokens are asked for in their order, but for tokens of one row. Lengths are those before
// the step, which the state has until all cores have met for the last time. A row whose state or
// number of tokens cannot be is left out: a list on the device may hold anything.
class StepRows {
 public:
  // `gathered`: the lengths lie side by side in the workspace, where scalar units find several in a
  // line of their cache; in the state every row's has a line of its own.
  __aicore__ inline void Init(const NsaCacheStepArguments& g, bool gathered = true) {
    t_ = g.tiling;
    counted_ = g.ends != nullptr;
    if (counted_) ends_.SetGlobalBuffer(reinterpret_cast<__gm__ int64_t*>(g.ends), splits().batch);
    apart_ = gathered ? 1 : t_->state_size;
    lengths_.SetGlobalBuffer(
        reinterpret_cast<__gm__ int64_t*>(gathered ? g.step_workspace + StepWorkspace(*t_).lengths
                                                   : g.state + t_->length_place * 8),
        splits().batch * apart_);
  }

  // The row of a token, and its length.
  __aicore__ inline void Seek(int64_t token) {
    const int64_t before = row_;
    while (token >= end_ && row_ + 1 < splits().batch) SeekRow(row_ + 1);
    if (row_ != before) OpenRow(row_);
    token_ = token;
  }
  __aicore__ inline void OpenRow(int64_t row) {
    SeekRow(row);
    length_ = lengths_.GetValue(row * apart_);
  }
  // Without its length.
  __aicore__ inline void SeekRow(int64_t row) {
    while (row_ < row) {
      ++row_;
      begin_ = end_;
      end_ = counted_ ? Min(splits().queries, Max(begin_, ends_.GetValue(row_)))
                      : begin_ + splits().per_row;
    }
  }

  __aicore__ inline int64_t row() const { return row_; }
  // New tokens of the row: the first, how many.
  __aicore__ inline int64_t begin() const { return begin_; }
  __aicore__ inline int64_t count() const { return end_ - begin_; }
  // From this one of them on, at least 1.
  __aicore__ inline int64_t Left(int64_t token) const { return Max(1, end_ - token); }
  // Tokens before them.
  __aicore__ inline int64_t length() const { return length_; }
  // Whether the row can have had so many.
  __aicore__ inline bool Fits(int64_t length) const {
    return length >= 0 && length <= splits().capacity - count();
  }
  // Whether the token is written, and how many precede it.
  __aicore__ inline bool written() const { return token_ < end_ && Fits(length_); }
  __aicore__ inline int64_t position() const { return length_ + token_ - begin_; }
  // Tokens that it sees.
  __aicore__ inline int64_t seen() const { return written() ? position() + 1 : 0; }
  // Compression windows that are complete in so many tokens.
  __aicore__ inline int64_t Windows(int64_t tokens) const {
    return tokens < t_->block_size ? 0 : (tokens - t_->block_size) / t_->stride + 1;
  }

 private:
  __aicore__ inline const SplitTiling& splits() const { return t_->selected; }

  const NsaCacheStepTilingData* t_ = nullptr;
  AscendC::GlobalTensor<int64_t> ends_, lengths_;
  int64_t apart_ = 1;  // of the lengths
  int64_t row_ = -1, begin_ = 0, end_ = 0, length_ = 0, token_ = 0;
  bool counted_ = false;
};

}  // namespace nsa::ascend
