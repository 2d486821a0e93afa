// The compressed tokens that a query of NsaCompressAttentionInfer sees, and where they stand.
#pragma once

#include "ascendc/decoding/row_queries.h"
#include "ascendc/decoding/splits.h"
#include "ascendc/nsa_compress_attention_infer/op_kernel/nsa_compress_attention_infer_tiling.h"

namespace nsa::ascend {

struct NsaCompressAttentionInferArguments {
  GM_ADDR query;
  GM_ADDR key;
  GM_ADDR value;
  GM_ADDR block_table;
  GM_ADDR query_counts;
  GM_ADDR compressed;  // lengths of the rows in compressed tokens; null: by their tokens
  GM_ADDR tokens;      // lengths of the rows in tokens, or null
  GM_ADDR output;
  GM_ADDR indices;
  GM_ADDR workspace;
  const NsaCompressAttentionInferTilingData* tiling;
};

// A row whose lengths contradict each other or whose pages the cache does not have is left out: a
// list and a table on the device may hold anything.
class CompressedKeys {
 public:
  using Arguments = NsaCompressAttentionInferArguments;
  static constexpr bool kHasFresh = false, kShared = true;

  __aicore__ inline void Init(const SplitTiling* tiling,
                              const NsaCompressAttentionInferArguments& g) {
    t_ = tiling;
    rule_ = g.tiling;
    known_ = g.tokens != nullptr;
    given_ = g.compressed != nullptr;
    if (given_)
      compressed_.SetGlobalBuffer(reinterpret_cast<__gm__ int64_t*>(g.compressed), t_->batch);
    if (known_) tokens_.SetGlobalBuffer(reinterpret_cast<__gm__ int64_t*>(g.tokens), t_->batch);
    queries_.Init(g.query_counts, known_ ? g.tokens : g.compressed, t_->batch, t_->per_row,
                  known_ ? rule_->most_tokens : t_->capacity);
    pages_.Init(g.block_table, t_->batch, t_->pages);
  }

  __aicore__ inline int64_t MaxSplits(int64_t query) {
    return (Seen(query) + t_->split_keys - 1) / t_->split_keys;
  }
  __aicore__ inline int64_t QueriesFrom(int64_t query) const { return queries_.Left(query); }
  __aicore__ inline int64_t SharedSplits(int64_t query) {
    const int64_t before = Seen(query - 1);
    return SharedPrefix(before, Seen(query), t_->split_keys);
  }
  __aicore__ inline void Start(int64_t decode_row, bool) {
    total_ = Seen(decode_row / t_->heads);
    begin_ = t_->pages.places > 0 ? 0 : row_ * t_->row_tokens;
    if (right_ && row_ != checked_row_) {
      checked_row_ = row_;
      there_ = length_ == 0 || pages_.Has(row_, begin_, 0, length_);
    }
    if (!there_) total_ = 0;
  }
  __aicore__ inline int64_t row() const { return row_; }
  __aicore__ inline int64_t total() const { return total_; }

  // Blocks that the query may select: up to its own, or all that a key counts for.
  __aicore__ inline int64_t Candidates() const {
    const RankingTiling& r = rule_->ranking;
    if (!right_ || !there_) return 0;
    if (known_) return queries_.seen() == 0 ? 0 : OwnBlock() + 1;
    if (total_ == 0) return 0;
    const int64_t keys = total_ + (r.overlap != 0 ? r.overlap_keys - 1 : 0);
    return (keys + r.block_keys - 1) / r.block_keys;
  }
  __aicore__ inline int64_t OwnBlock() const {
    return (queries_.seen() - 1) / rule_->ranking.block_tokens;
  }

  template <typename Body>
  __aicore__ inline void ForRuns(int64_t first, int32_t keys, Body body) const {
    for (int64_t at = 0, run = 0; at < keys; at += run) {
      run = pages_.Run(first + at, keys - at);
      body(static_cast<int32_t>(at), pages_.At(row_, begin_, first + at),
           static_cast<int32_t>(run));
    }
  }

 private:
  // Compressed tokens that a query sees.
  __aicore__ inline int64_t Seen(int64_t query) {
    queries_.Seek(query);
    if (queries_.row() != row_) {
      row_ = queries_.row();
      const int64_t tokens = known_ ? tokens_.GetValue(row_) : 0;
      length_ = given_ ? compressed_.GetValue(row_) : Windows(tokens);
      const bool fits = tokens >= 0 && tokens <= rule_->most_tokens;
      right_ = known_ ? fits && length_ == Windows(tokens) : length_ >= 0;
    }
    if (!right_) return 0;
    return known_ ? Windows(queries_.seen()) : queries_.seen();
  }
  // Windows that are complete in so many tokens.
  __aicore__ inline int64_t Windows(int64_t tokens) const {
    return tokens < rule_->window_tokens ? 0 : (tokens - rule_->window_tokens) / rule_->stride + 1;
  }

  const SplitTiling* t_ = nullptr;
  const NsaCompressAttentionInferTilingData* rule_ = nullptr;
  RowQueries queries_;  // of the row's tokens, or of its compressed ones
  RowTokens pages_;
  AscendC::GlobalTensor<int64_t> compressed_, tokens_;
  int64_t row_ = -1, length_ = 0, checked_row_ = -1;
  int64_t begin_ = 0, total_ = 0;
  bool known_ = false, given_ = false;  // the rows' tokens, their compressed tokens
  bool right_ = false;                  // the row's lengths
  bool there_ = false;                  // the checked row's pages
};

}  // namespace nsa::ascend
