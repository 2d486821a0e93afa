// The steps of one core of NsaCompressWithCache: which tokens of which row to load.
#pragma once

#include "ascendc/nsa_compress_with_cache/op_kernel/nsa_compress_with_cache_tiling.h"

namespace nsa::ascend {

// At most 16 tokens of a window, of one head tile.
struct NsaCompressWithCacheStep {
  int64_t row;     // of the batch
  int64_t begin;   // where its tokens begin in input, if there is no table
  int64_t slot;    // of cache
  int64_t token;   // the first one, counted in the row
  int64_t weight;  // its place in the window
  int32_t tokens;
  int32_t tile;
  bool last;  // of the window
};

// The lengths are known on the device alone, so every core goes through all of them, once. Those
// that fill a window are counted, and the cores take them in turn, so that all have work however
// few they are; so are the others, of which zeros are written.
class NsaCompressWithCacheSteps {
 public:
  __aicore__ inline void Init(GM_ADDR slot_mapping, GM_ADDR act_seq_len, GM_ADDR block_table,
                              const NsaCompressWithCacheTilingData* tiling, int64_t core,
                              int64_t cores) {
    t_ = tiling;
    core_ = core;
    cores_ = cores;
    unit_ = core - cores;
    weight_ = tiling->block_size;
    tiles_ = CeilDiv(t_->heads, t_->tile_heads);
    tokens_.Init(block_table, t_->batch, t_->pages);
    lengths_.SetGlobalBuffer(reinterpret_cast<__gm__ int64_t*>(act_seq_len), t_->batch);
    slots_.SetGlobalBuffer(reinterpret_cast<__gm__ int64_t*>(slot_mapping), t_->batch);
  }

  // False if there is none left. `clear` is called with row and head tile of what the core has to
  // write as zeros.
  template <typename Clear>
  __aicore__ inline bool Next(NsaCompressWithCacheStep* step, Clear clear) {
    if (weight_ == t_->block_size) {
      if (!NextUnit(clear)) return false;
      weight_ = 0;
    }
    step->row = row_;
    step->begin = begin_;
    step->slot = slot_;
    step->token = length_ - t_->block_size + weight_;
    step->weight = weight_;
    step->tokens = static_cast<int32_t>(Min(kSliceTokens, t_->block_size - weight_));
    step->tile = tile_;
    weight_ += step->tokens;
    step->last = weight_ == t_->block_size;
    return true;
  }

  __aicore__ inline const RowTokens& tokens() const { return tokens_; }

 private:
  // The next window of a head tile that is this core's.
  template <typename Clear>
  __aicore__ inline bool NextUnit(Clear clear) {
    for (;;) {
      unit_ += cores_;
      while (!fills_ || unit_ >= first_unit_ + tiles_) {
        if (fills_) first_unit_ += tiles_;
        if (!NextRow(clear)) return false;
      }
      tile_ = static_cast<int32_t>(unit_ - first_unit_);
      slot_ = slots_.GetValue(row_);
      const bool exists = slot_ >= 0 && slot_ < t_->slots &&
                          tokens_.Has(row_, begin_, length_ - t_->block_size, length_);
      if (exists) return true;
      clear(row_, tile_);
    }
  }
  template <typename Clear>
  __aicore__ inline bool NextRow(Clear clear) {
    fills_ = false;
    if (row_ + 1 >= t_->batch) return false;
    begin_ += length_;
    ++row_;
    // Whatever the list says, the sums of lengths are numbers.
    length_ = Min(Max(0, lengths_.GetValue(row_)), INT64_MAX / (t_->batch + 1));
    const int64_t start = length_ - t_->block_size;
    fills_ = start >= 0 && start % t_->stride == 0;
    for (int32_t tile = 0; !fills_ && tile < tiles_; ++tile) {
      if (empty_++ % cores_ == core_) clear(row_, tile);
    }
    return true;
  }

  const NsaCompressWithCacheTilingData* t_ = nullptr;
  RowTokens tokens_;
  AscendC::GlobalTensor<int64_t> lengths_, slots_;
  int64_t core_ = 0, cores_ = 1;
  int64_t row_ = -1, begin_ = 0, length_ = 0, slot_ = 0;
  int64_t unit_ = 0, first_unit_ = 0;  // of the core's window, of the row
  int64_t empty_ = 0;                  // head tiles of rows without a window
  int64_t weight_ = 0;                 // tokens of the window that have been given out
  int32_t tiles_ = 1, tile_ = 0;
  bool fills_ = false;  // the row fills a window
};

}  // namespace nsa::ascend
