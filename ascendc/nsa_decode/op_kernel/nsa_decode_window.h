// The last tokens of a row, in a ring, that a query of NsaDecode sees.
#pragma once

#include "ascendc/decoding/row_queries.h"
#include "ascendc/nsa_decode/op_kernel/nsa_decode_tiling.h"

namespace nsa::ascend {

struct NsaDecodeWindowArguments {
  GM_ADDR query;
  GM_ADDR key;
  GM_ADDR value;
  GM_ADDR query_counts;
  GM_ADDR lengths;
  GM_ADDR output;
  GM_ADDR workspace;
  const NsaDecodeTilingData* tiling;
};

// Token t is in place t modulo the places of the ring. A row that has not the length that its
// caches hold, or of which the ring has lost tokens that are seen, is left out.
class WindowKeys {
 public:
  using Arguments = NsaDecodeWindowArguments;
  static constexpr bool kHasFresh = false, kShared = false;

  __aicore__ inline void Init(const SplitTiling* tiling, const NsaDecodeWindowArguments& g) {
    t_ = tiling;
    window_ = g.tiling->window_tokens;
    ring_ = g.tiling->ring;
    most_ = g.tiling->compressed.most_tokens;
    queries_.Init(g.query_counts, g.lengths, t_->batch, t_->per_row, most_);
    lengths_.SetGlobalBuffer(reinterpret_cast<__gm__ int64_t*>(g.lengths), t_->batch);
  }
  __aicore__ inline int64_t MaxSplits(int64_t query) {
    return (Seen(query) + t_->split_keys - 1) / t_->split_keys;
  }
  __aicore__ inline void Start(int64_t decode_row, bool) { total_ = Seen(decode_row / t_->heads); }
  __aicore__ inline int64_t row() const { return queries_.row(); }
  __aicore__ inline int64_t total() const { return total_; }

  template <typename Body>
  __aicore__ inline void ForRuns(int64_t first, int32_t keys, Body body) const {
    const int64_t begin = queries_.row() * t_->row_tokens;
    int64_t place = (queries_.seen() - total_ + first) % ring_;
    for (int64_t at = 0, run = 0; at < keys; at += run) {
      run = Min(keys - at, ring_ - place);
      body(static_cast<int32_t>(at), begin + place, static_cast<int32_t>(run));
      place = 0;
    }
  }

 private:
  __aicore__ inline int64_t Seen(int64_t query) {
    queries_.Seek(query);
    const int64_t length = lengths_.GetValue(queries_.row());
    const int64_t seen = Min(queries_.seen(), window_);
    const bool there = length <= most_ && length - queries_.seen() + seen <= ring_;
    return there ? seen : 0;
  }

  const SplitTiling* t_ = nullptr;
  int64_t window_ = 1, ring_ = 1, most_ = 0;
  RowQueries queries_;
  AscendC::GlobalTensor<int64_t> lengths_;
  int64_t total_ = 0;
};

}  // namespace nsa::ascend
