#include "ascendc/nsa_selected_attention_infer/op_host/nsa_selected_attention_infer_tiling.h"

#include <algorithm>

namespace nsa::ascend {

int32_t tile_nsa_selected_attention_infer(SplitCall call, int64_t block_size, int64_t block_count,
                                          int32_t cores,
                                          NsaSelectedAttentionInferTilingData* tiling) {
  // A block that is longer than every row is cut: an index times its size then fits.
  tiling->block_size = std::min(block_size, std::max<int64_t>(1, call.capacity()));
  tiling->block_count = block_count;
  call.keys = block_count * std::min(block_size, call.capacity());
  return tile_splits(call, cores, &tiling->splits);
}

}  // namespace nsa::ascend
