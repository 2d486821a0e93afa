#include "ascendc/flash_attention_score/op_host/flash_attention_score_tiling.h"

namespace nsa::ascend {

namespace {

// Queries of a tile: those that the cube has room for, as far as the UB holds their output, too,
// beside a pass with its mask and its bias. 16 always fit.
int32_t tile_rows(const FlashCall& call, int32_t most, const BiasTiling& bias, uint32_t ub_bytes) {
  const auto value_dim = static_cast<int32_t>(call.dims.dv);
  const auto fits = [&](int32_t rows) {
    return FlashAttentionScoreBuffers(rows, kRowMultiple, value_dim, call.element_bytes, bias)
               .Total() <= ub_bytes;
  };
  int32_t rows = most;
  while (rows > 16 && !fits(rows)) rows -= 16;
  return rows;
}

// More rows at a time share an instruction's fixed cost.
int64_t largest_pass(const FlashCall& call, int32_t rows, const BiasTiling& bias,
                     uint32_t ub_bytes) {
  constexpr int32_t kMostRows = 2 * kRowMultiple;
  const auto value_dim = static_cast<int32_t>(call.dims.dv);
  const FlashAttentionScoreBuffers most(rows, kMostRows, value_dim, call.element_bytes, bias);
  return most.Total() <= ub_bytes ? kMostRows : kRowMultiple;
}

}  // namespace

int32_t tile_flash_attention_score(const FlashCall& call, int32_t cores, uint32_t ub_bytes,
                                   FlashAttentionScoreTilingData* tiling) {
  const FlashDims& dims = call.dims;
  FlashAttentionScoreTilingData& t = *tiling;
  const CubeTiles tiles(static_cast<int32_t>(dims.d), static_cast<int32_t>(dims.dv),
                        call.element_bytes);
  t.mask = mask_tiling(call);
  t.bias = bias_tiling(call);
  t.query = strides_of(dims, dims.s1, dims.n1, dims.d);
  t.key = strides_of(dims, dims.s2, dims.n2, dims.d);
  t.value = strides_of(dims, dims.s2, dims.n2, dims.dv);
  t.output = strides_of(dims, dims.s1, dims.n1, dims.dv);
  t.statistics = statistics_strides(dims);
  t.dim = dims.d;
  t.value_dim = dims.dv;
  const int32_t rows = tile_rows(call, tiles.rows, t.bias, ub_bytes);
  t.pass_rows = largest_pass(call, rows, t.bias, ub_bytes);
  t.sink = call.sink;
  return share_tiles(call, t.mask, TilesOf::kQueries, rows, cores, &t.work);
}

int64_t flash_attention_score_workspace(const FlashAttentionScoreTilingData& tiling,
                                        int32_t element_bytes, int32_t cores) {
  return cores * FlashAttentionScoreWorkspace(static_cast<int32_t>(tiling.work.tile_rows),
                                              static_cast<int32_t>(tiling.value_dim), element_bytes)
                     .Total();
}

}  // namespace nsa::ascend
