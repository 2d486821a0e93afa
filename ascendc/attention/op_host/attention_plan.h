// From what a call of an attention operator says to the tiling data that the kernels share.
#pragma once

#include <vector>

#include "ascendc/attention/attention_tiling.h"
#include "infer/flash_attention.h"

namespace nsa::ascend {

// A call of FlashAttentionScore or its gradient that infer/ has accepted.
struct FlashCall {
  FlashDims dims{};
  int32_t element_bytes = 2;
  SeqList query_ends, key_ends;     // packed only
  SeqList prefix;                   // empty: none
  std::vector<int64_t> mask_shape;  // empty: no mask tensor
  std::vector<int64_t> pse_shape;   // empty: none
  int64_t drop_bytes = 0;           // 0: no dropout
  int64_t sparse_mode = 0, pre_tokens = 0, next_tokens = 0;
  int64_t pse_type = 1;
  SeqList q_start, kv_start;  // of slopes: one for all, or one for each; empty: zeros
  float scale = 1, keep_prob = 1;
  bool sink = false;
  bool pse_grad = false;                            // asked for
  bool sum_grad = false;                            // given to a gradient: that of softmax_sum
  int64_t compress_block = 0, compress_stride = 0;  // 0: keys are tokens
  SeqList query_offsets;                            // empty: zeros
  int64_t most_keys = kUnbounded;                   // of a query, where it selects some
  int64_t cost_step = 1;                            // keys: fewer than so many cost as much
  int64_t long_keys = kUnbounded;                   // each key behind them costs twice as much
  int64_t tile_cost = 64;  // of a tile beside its keys, in keys: its queries and its output

  bool packed() const { return dims.layout == InputLayout::kTND; }
};

TensorStrides strides_of(const FlashDims& dims, int64_t length, int64_t heads, int64_t dim);
TensorStrides statistics_strides(const FlashDims& dims);
MaskTiling mask_tiling(const FlashCall& call);
BiasTiling bias_tiling(const FlashCall& call);

enum class TilesOf { kQueries, kKeys };

// Shares the tiles of `tile_rows` queries or keys among at most `cores` cube cores; returns how
// many are used. A tile of keys is `parts` tiles, of so many parts of its group of heads.
int32_t share_tiles(const FlashCall& call, const MaskTiling& mask, TilesOf tiles, int32_t tile_rows,
                    int32_t cores, WorkTiling* work, int64_t parts = 1);

}  // namespace nsa::ascend
