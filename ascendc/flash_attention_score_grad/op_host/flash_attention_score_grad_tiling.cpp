#include "ascendc/flash_attention_score_grad/op_host/flash_attention_score_grad_tiling.h"

#include <algorithm>
#include <functional>
#include <numeric>

namespace nsa::ascend {

namespace {

// Cost of a tile of queries beside its keys, in keys: Dvec, and rounding dq.
constexpr int64_t kRowCost = 192;

int64_t elements(const std::vector<int64_t>& shape) {
  return std::accumulate(shape.begin(), shape.end(), int64_t{1}, std::multiplies<>());
}

// Where elements of the bias are shared, how their gradient is added up.
void set_pse_grad(const FlashCall& call, int32_t tile_rows, FlashAttentionScoreGradTilingData* t) {
  t->pse_grad = t->pse_copies = t->pse_pitch = t->pse_tile = 0;
  if (!call.pse_grad || t->bias.pse != kPseTensor) return;
  const FlashDims& dims = call.dims;
  t->pse_grad = elements(call.pse_shape);
  const bool one_entry = t->bias.pse_packed == 0 && t->bias.pse_batch == 0;
  if (t->bias.pse_row == 0) {
    t->pse_copies = 2 * (one_entry ? dims.batch : 1);
  } else if (one_entry && dims.batch > 1) {
    constexpr int64_t kMultiple = 16;
    t->pse_pitch = (dims.s2 + kMultiple - 1) / kMultiple * kMultiple;
    const auto rows = static_cast<int32_t>(std::min<int64_t>(tile_rows, dims.s1));
    t->pse_tile = int64_t{2} * HalfRows(rows) * t->pse_pitch;
  }
}

// Parts of a key head's group of heads that give the cores enough tiles of keys to share. Nothing
// but shapes decides: the parts are added up in one order, whatever the number of cores.
int64_t key_parts(const FlashDims& dims, int64_t tiles, int32_t widest) {
  constexpr int64_t kWantedTiles = 8 * kMaxBlocks;
  const int64_t group = dims.n1 / dims.n2;
  int64_t parts = 1;
  for (int64_t p = 2;
       p <= std::min<int64_t>(group, MostKeyParts(widest)) && parts * tiles < kWantedTiles; ++p) {
    if (group % p == 0) parts = p;
  }
  return parts;
}

}  // namespace

int32_t tile_flash_attention_score_grad(const FlashCall& call, int32_t cores, uint32_t ub_bytes,
                                        FlashAttentionScoreGradTilingData* tiling) {
  const FlashDims& dims = call.dims;
  FlashAttentionScoreGradTilingData& t = *tiling;
  const auto widest = static_cast<int32_t>(std::max(dims.d, dims.dv));
  const GradTiles tiles(widest, call.element_bytes);
  t.mask = mask_tiling(call);
  t.bias = bias_tiling(call);
  t.query = strides_of(dims, dims.s1, dims.n1, dims.d);
  t.key = strides_of(dims, dims.s2, dims.n2, dims.d);
  t.value = strides_of(dims, dims.s2, dims.n2, dims.dv);
  t.output = strides_of(dims, dims.s1, dims.n1, dims.dv);
  t.statistics = statistics_strides(dims);
  t.row_statistics = {call.packed() ? 0 : dims.n1 * dims.s1, 1, dims.s1};
  const int64_t rows = (call.packed() ? 1 : dims.batch) * dims.s1 * dims.n1;
  t.statistics_floats = (rows + kBlockFloats - 1) / kBlockFloats * kBlockFloats;
  t.dim = dims.d;
  t.value_dim = dims.dv;
  t.key_tokens = call.packed() ? dims.s2 : 0;
  t.segment_tokens = call.packed() && !call.key_ends.empty() ? call.key_ends.back() : 0;
  set_pse_grad(call, tiles.rows, &t);
  t.sink = call.sink;
  t.sum_grad = call.sum_grad;
  const FlashAttentionScoreGradBuffers buffers(widest, call.element_bytes, t.bias);
  t.input_buffers = buffers.Total(2) <= ub_bytes ? 2 : 1;
  share_tiles(call, t.mask, TilesOf::kKeys, tiles.rows, cores, &t.keys);
  t.key_parts = key_parts(dims, t.keys.items, widest);
  t.key_rows = t.key_parts > 1 ? (call.packed() ? 1 : dims.batch) * dims.s2 * dims.n2 : 0;
  // Tiles of both kinds belong to the same cores.
  FlashCall by_rows = call;
  by_rows.tile_cost = kRowCost;
  const auto share = [&](int32_t most) {
    return std::max(
        share_tiles(by_rows, t.mask, TilesOf::kQueries, tiles.rows, most, &t.queries),
        share_tiles(call, t.mask, TilesOf::kKeys, tiles.rows, most, &t.keys, t.key_parts));
  };
  const int32_t used = share(cores);
  share(used);
  if (t.pse_tile > 0) {
    t.queries.together = 1;
    t.queries.items /= dims.batch;
  }
  return used;
}

int64_t flash_attention_score_grad_workspace(const FlashAttentionScoreGradTilingData& tiling,
                                             int32_t element_bytes, int32_t cores) {
  const FlashAttentionScoreGradWorkspace each(
      static_cast<int32_t>(tiling.queries.tile_rows), static_cast<int32_t>(tiling.dim),
      static_cast<int32_t>(tiling.value_dim), element_bytes, tiling.pse_tile);
  return FlashAttentionScoreGradWorkspace::SharedBytes(tiling) + cores * each.Total();
}

}  // namespace nsa::ascend
