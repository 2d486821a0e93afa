// The keys that a new token of NsaCacheStep sees in each branch, its own included, and where they
// stand. Tokens of memory are counted in the row.
#pragma once

#include "ascendc/nsa_cache_step/op_kernel/nsa_cache_step_rows.h"

namespace nsa::ascend {

// Base of the keys of a branch.
class StepKeys {
 public:
  using Arguments = StepBranchArguments;
  static constexpr bool kHasFresh = false, kShared = false;

  __aicore__ inline int64_t row() const { return rows_.row(); }
  __aicore__ inline int64_t total() const { return total_; }
  __aicore__ inline int64_t QueriesFrom(int64_t query) const { return rows_.Left(query); }

 protected:
  __aicore__ inline void InitRows(const SplitTiling* tiling, const NsaCacheStepArguments& g) {
    t_ = tiling;
    step_ = g.tiling;
    rows_.Init(g);
  }

  const SplitTiling* t_ = nullptr;
  const NsaCacheStepTilingData* step_ = nullptr;
  StepRows rows_;
  int64_t total_ = 0;
};

// The last tokens.
class LastTokens : public StepKeys {
 public:
  static constexpr bool kShared = true;

  __aicore__ inline void Init(const SplitTiling* tiling, const StepBranchArguments& g) {
    InitRows(tiling, g);
  }
  __aicore__ inline int64_t MaxSplits(int64_t query) {
    rows_.Seek(query);
    return (Visible() + t_->split_keys - 1) / t_->split_keys;
  }
  // Splits shared by tokens that see their whole row: with a window each begins at another token.
  __aicore__ inline int64_t SharedSplits(int64_t query) {
    rows_.Seek(query - 1);
    const int64_t before = rows_.seen();
    rows_.Seek(query);
    return rows_.seen() > Visible() ? 0 : SharedPrefix(before, rows_.seen(), t_->split_keys);
  }
  __aicore__ inline void Start(int64_t decode_row, bool) {
    rows_.Seek(decode_row / t_->heads);
    total_ = Visible();
  }
  template <typename Body>
  __aicore__ inline void ForRuns(int64_t first, int32_t keys, Body body) const {
    body(0, rows_.seen() - total_ + first, keys);
  }

 protected:
  __aicore__ inline int64_t Visible() const { return Min(rows_.seen(), step_->window_tokens); }
};

// The same, in the ring up to those that are new, which are in the workspace: -1 is the first of
// them, of all rows, -2 the next one.
class RingTokens : public LastTokens {
 public:
  static constexpr bool kHasFresh = true, kShared = false;

  template <typename Body>
  __aicore__ inline void ForRuns(int64_t first, int32_t keys, Body body) const {
    const int64_t places = step_->window_places.places;
    for (int32_t at = 0, run = 0; at < keys; at += run) {
      const int64_t token = rows_.seen() - total_ + first + at, old = rows_.length() - token;
      if (old > 0) {
        const int64_t place = token % places;
        run = static_cast<int32_t>(Min(Min(old, places - place), keys - at));
        body(at, place, run);
      } else {
        run = keys - at;
        body(at, -1 - (rows_.begin() - old), run);
      }
    }
  }
};

// Tokens of the windows that are complete.
class CompressedTokens : public StepKeys {
 public:
  static constexpr bool kShared = true;

  __aicore__ inline void Init(const SplitTiling* tiling, const StepBranchArguments& g) {
    InitRows(tiling, g);
  }
  __aicore__ inline int64_t MaxSplits(int64_t query) {
    rows_.Seek(query);
    return (rows_.Windows(rows_.seen()) + t_->split_keys - 1) / t_->split_keys;
  }
  __aicore__ inline int64_t SharedSplits(int64_t query) {
    rows_.Seek(query - 1);
    const int64_t before = rows_.Windows(rows_.seen());
    rows_.Seek(query);
    return SharedPrefix(before, rows_.Windows(rows_.seen()), t_->split_keys);
  }
  __aicore__ inline void Start(int64_t decode_row, bool) {
    rows_.Seek(decode_row / t_->heads);
    total_ = rows_.Windows(rows_.seen());
  }
  template <typename Body>
  __aicore__ inline void ForRuns(int64_t first, int32_t keys, Body body) const {
    body(0, first, keys);
  }

  // Blocks that the query may select, up to its own.
  __aicore__ inline int64_t Candidates() const { return rows_.seen() == 0 ? 0 : OwnBlock() + 1; }
  __aicore__ inline int64_t OwnBlock() const {
    return (rows_.seen() - 1) / step_->ranking.block_tokens;
  }
};

// Keys of the chosen blocks.
class ChosenTokens : public StepKeys {
 public:
  __aicore__ inline void Init(const SplitTiling* tiling, const StepBranchArguments& g) {
    InitRows(tiling, g);
    block_size_ = g.tiling->ranking.block_tokens;
    block_count_ = g.tiling->ranking.count;
    indices_.SetGlobalBuffer(reinterpret_cast<__gm__ int32_t*>(g.indices));
  }
  __aicore__ inline int64_t MaxSplits(int64_t) const { return t_->splits; }
  // `runs`: for ForRuns.
  __aicore__ inline void Start(int64_t decode_row, bool runs) {
    rows_.Seek(decode_row / t_->heads);
    count_ = 0;
    total_ = 0;
    for (int64_t i = 0; i < block_count_; ++i) {
      const int64_t block = indices_.GetValue(decode_row * block_count_ + i);
      if (block < 0 || block * block_size_ >= rows_.seen()) continue;
      total_ += End(block) - block * block_size_;
      if (runs) Insert(static_cast<int32_t>(block));
    }
  }
  template <typename Body>
  __aicore__ inline void ForRuns(int64_t first, int32_t keys, Body body) const {
    int64_t before = 0;  // keys of the blocks before
    for (int32_t i = 0; i < count_ && before < first + keys; ++i) {
      const int64_t start = blocks_[i] * block_size_, length = End(blocks_[i]) - start;
      const int64_t begin = Max(0, first - before), end = Min(length, first + keys - before);
      if (begin < end) {
        body(static_cast<int32_t>(before + begin - first), start + begin,
             static_cast<int32_t>(end - begin));
      }
      before += length;
    }
  }

 private:
  __aicore__ inline int64_t End(int64_t block) const {
    return Min(rows_.seen(), (block + 1) * block_size_);
  }
  // The scalar unit sorts while the pipes compute what came before.
  __aicore__ inline void Insert(int32_t block) {
    int32_t at = count_++;
    for (; at > 0 && blocks_[at - 1] > block; --at) blocks_[at] = blocks_[at - 1];
    blocks_[at] = block;
  }

  int64_t block_size_ = 1, block_count_ = 0;
  AscendC::GlobalTensor<int32_t> indices_;
  int32_t count_ = 0;
  int32_t blocks_[kMostStepBlocks];  // ascending
};

}  // namespace nsa::ascend
