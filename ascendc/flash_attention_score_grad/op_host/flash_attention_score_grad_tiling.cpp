#include "ascendc/flash_attention_score_grad/op_host/flash_attention_score_grad_tiling.h"

#include <algorithm>
#include <functional>
#include <numeric>

namespace nsa::ascend {

namespace {

int64_t elements(const std::vector<int64_t>& shape) {
  return std::accumulate(shape.begin(), shape.end(), int64_t{1}, std::multiplies<>());
}

}  // namespace

int32_t tile_flash_attention_score_grad(const FlashCall& call, int32_t cores, uint32_t ub_bytes,
                                        FlashAttentionScoreGradTilingData* tiling) {
  const FlashDims& dims = call.dims;
  FlashAttentionScoreGradTilingData& t = *tiling;
  const auto widest = static_cast<int32_t>(std::max(dims.d, dims.dv));
  const CubeTiles tiles(widest, widest, call.element_bytes);
  t.mask = mask_tiling(call);
  t.bias = bias_tiling(call);
  t.query = strides_of(dims, dims.s1, dims.n1, dims.d);
  t.key = strides_of(dims, dims.s2, dims.n2, dims.d);
  t.value = strides_of(dims, dims.s2, dims.n2, dims.dv);
  t.output = strides_of(dims, dims.s1, dims.n1, dims.dv);
  t.statistics = statistics_strides(dims);
  t.statistics_floats = (call.packed() ? 1 : dims.batch) * dims.s1 * dims.n1 * kBlockFloats;
  t.dim = dims.d;
  t.value_dim = dims.dv;
  t.key_tokens = call.packed() ? dims.s2 : 0;
  t.segment_tokens = call.packed() && !call.key_ends.empty() ? call.key_ends.back() : 0;
  t.pse_grad = call.pse_grad && t.bias.pse == kPseTensor ? elements(call.pse_shape) : 0;
  t.sink = call.sink;
  const FlashAttentionScoreGradBuffers buffers(widest, call.element_bytes, t.bias);
  t.input_buffers = buffers.Total(2) <= ub_bytes ? 2 : 1;
  // Tiles of both kinds belong to the same cores.
  const int32_t used =
      std::max(share_tiles(call, t.mask, TilesOf::kQueries, tiles.rows, cores, &t.queries),
               share_tiles(call, t.mask, TilesOf::kKeys, tiles.rows, cores, &t.keys));
  share_tiles(call, t.mask, TilesOf::kQueries, tiles.rows, used, &t.queries);
  share_tiles(call, t.mask, TilesOf::kKeys, tiles.rows, used, &t.keys);
  return used;
}

int64_t flash_attention_score_grad_workspace(const FlashAttentionScoreGradTilingData& tiling,
                                             int32_t element_bytes, int32_t cores) {
  const FlashAttentionScoreGradWorkspace each(
      static_cast<int32_t>(tiling.queries.tile_rows), static_cast<int32_t>(tiling.dim),
      static_cast<int32_t>(tiling.value_dim), element_bytes);
  return FlashAttentionScoreGradWorkspace::RowBytes(tiling.statistics_floats) +
         cores * each.Total();
}

}  // namespace nsa::ascend
