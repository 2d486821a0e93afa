// The keys that a query of NsaSelectedAttentionInfer selects.
#pragma once

#include "ascendc/decoding/row_queries.h"
#include "ascendc/nsa_selected_attention_infer/op_kernel/nsa_selected_attention_infer_tiling.h"

namespace nsa::ascend {

struct NsaSelectedAttentionInferArguments {
  GM_ADDR query;
  GM_ADDR key;
  GM_ADDR value;
  GM_ADDR indices;
  GM_ADDR block_table;
  GM_ADDR query_counts;
  GM_ADDR lengths;
  GM_ADDR output;
  GM_ADDR workspace;
  const NsaSelectedAttentionInferTilingData* tiling;
};

// Keys that a query selects of its row, for one key head.
class SelectedKeys {
 public:
  using Arguments = NsaSelectedAttentionInferArguments;
  static constexpr bool kHasFresh = false, kShared = false;

  __aicore__ inline void Init(const SplitTiling* tiling,
                              const NsaSelectedAttentionInferArguments& g) {
    t_ = tiling;
    block_size_ = g.tiling->block_size;
    block_count_ = g.tiling->block_count;
    queries_.Init(g.query_counts, g.lengths, t_->batch, t_->per_row, t_->capacity);
    tokens_.Init(g.block_table, t_->batch, t_->pages);
    indices_.SetGlobalBuffer(reinterpret_cast<__gm__ int32_t*>(g.indices));
  }

  __aicore__ inline int64_t MaxSplits(int64_t) const { return t_->splits; }

  // Blocks that the row or the cache does not have contribute nothing; one that is named twice
  // counts twice. `runs`: for ForRuns.
  __aicore__ inline void Start(int64_t decode_row, bool runs) {
    const int64_t query = decode_row / t_->heads;
    queries_.Seek(query);
    begin_ = t_->pages.places > 0 ? 0 : queries_.row() * t_->row_tokens;
    count_ = 0;
    total_ = 0;
    for (int64_t i = 0; i < block_count_; ++i) {
      const int64_t block = indices_.GetValue(decode_row * block_count_ + i);
      if (block < 0 || block * block_size_ >= queries_.seen()) continue;
      if (!tokens_.Has(queries_.row(), begin_, block * block_size_, End(block))) continue;
      total_ += End(block) - block * block_size_;
      if (runs) Insert(static_cast<int32_t>(block));
    }
  }
  __aicore__ inline int64_t row() const { return queries_.row(); }
  __aicore__ inline int64_t total() const { return total_; }

  // The keys [first, first + keys), as runs that follow each other in memory: body(which key of the
  // split, where in memory, keys).
  template <typename Body>
  __aicore__ inline void ForRuns(int64_t first, int32_t keys, Body body) const {
    int64_t before = 0;  // keys of the blocks before
    for (int32_t i = 0; i < count_ && before < first + keys; ++i) {
      const int64_t start = blocks_[i] * block_size_, length = End(blocks_[i]) - start;
      const int64_t end = Min(length, first + keys - before);
      for (int64_t at = Max(0, first - before), run = 0; at < end; at += run) {
        run = tokens_.Run(start + at, end - at);
        body(static_cast<int32_t>(before + at - first),
             tokens_.At(queries_.row(), begin_, start + at), static_cast<int32_t>(run));
      }
      before += length;
    }
  }

 private:
  __aicore__ inline int64_t End(int64_t block) const {
    return Min(queries_.seen(), (block + 1) * block_size_);
  }
  // The scalar unit sorts while the pipes compute what came before.
  __aicore__ inline void Insert(int32_t block) {
    int32_t at = count_++;
    for (; at > 0 && blocks_[at - 1] > block; --at) blocks_[at] = blocks_[at - 1];
    blocks_[at] = block;
  }

  const SplitTiling* t_ = nullptr;
  int64_t block_size_ = 1, block_count_ = 0;
  RowQueries queries_;
  RowTokens tokens_;
  AscendC::GlobalTensor<int32_t> indices_;
  int64_t begin_ = 0, total_ = 0;
  int32_t count_ = 0;
  int32_t blocks_[kMostQueryBlocks];  // ascending
};

}  // namespace nsa::ascend
