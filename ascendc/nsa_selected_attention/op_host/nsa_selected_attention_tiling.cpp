#include "ascendc/nsa_selected_attention/op_host/nsa_selected_attention_tiling.h"

namespace nsa::ascend {

namespace {

// More rows at a time share an instruction's fixed cost.
int64_t largest_pass(const NsaSelectedAttentionTilingData& t, uint32_t ub_bytes) {
  constexpr int32_t kMostRows = 2 * kRowMultiple;
  const NsaSelectedAttentionBuffers most(static_cast<int32_t>(t.work.tile_rows * t.selection.group),
                                         kMostRows, static_cast<int32_t>(t.selection.columns),
                                         static_cast<int32_t>(t.value_dim));
  return most.Total() <= ub_bytes ? kMostRows : kRowMultiple;
}

}  // namespace

int32_t tile_nsa_selected_attention(const SelectedCall& call, int32_t cores, uint32_t ub_bytes,
                                    NsaSelectedAttentionTilingData* tiling) {
  NsaSelectedAttentionTilingData& t = *tiling;
  const FlashCall attention = call.attention();
  t.mask = mask_tiling(attention);
  t.selection = call.selection();
  t.query_heads = call.n1;
  t.dim = call.d;
  t.value_dim = call.dv;
  t.scale = call.scale;
  const int32_t queries = call.queries_of(
      SelectedTileQueries(t.selection.stripe_rows, call.d, call.dv, t.selection.columns));
  const int32_t used = share_tiles(attention, t.mask, TilesOf::kQueries, queries, cores, &t.work);
  t.pass_rows = largest_pass(t, ub_bytes);
  return used;
}

int64_t nsa_selected_attention_workspace(const NsaSelectedAttentionTilingData& tiling,
                                         int32_t cores) {
  const NsaSelectedAttentionWorkspace each(tiling.work.tile_rows * tiling.selection.group,
                                           tiling.selection.columns, tiling.value_dim);
  return SelectionBytes(tiling.selection.rows) + cores * each.Total();
}

}  // namespace nsa::ascend
