#include "ascendc/nsa_selected_attention_grad/op_host/nsa_selected_attention_grad_tiling.h"

#include <algorithm>

namespace nsa::ascend {

int32_t tile_nsa_selected_attention_grad(const SelectedCall& call, int32_t cores,
                                         NsaSelectedAttentionGradTilingData* tiling) {
  NsaSelectedAttentionGradTilingData& t = *tiling;
  const FlashCall attention = call.attention();
  t.mask = mask_tiling(attention);
  t.selection = call.selection();
  t.query_tokens = call.t1;
  t.query_heads = call.n1;
  t.dim = call.d;
  t.value_dim = call.dv;
  t.scale = call.scale;
  t.sum_grad = call.sum_grad;
  const int64_t widest = std::max(call.d, call.dv);
  const int32_t queries = call.queries_of(
      SelectedTileQueries(t.selection.stripe_rows, widest, call.d, t.selection.columns));
  // Every core walks all blocks, and takes some of them when it knows what they cost.
  share_tiles(attention, t.mask, TilesOf::kKeys, static_cast<int32_t>(call.block_size), 1,
              &t.blocks);
  for (int32_t core = 1; core < kMaxBlocks; ++core) {
    t.blocks.first_score[core] = t.blocks.first_score[0];
    t.blocks.first_item[core] = t.blocks.first_item[0];
    t.blocks.first_segment[core] = t.blocks.first_segment[0];
    t.blocks.item_count[core] = t.blocks.item_count[0];
  }
  const int32_t used =
      share_tiles(attention, t.mask, TilesOf::kQueries, queries, cores, &t.queries);
  // Few tiles of queries may have many blocks of keys.
  return static_cast<int32_t>(
      std::max<int64_t>(used, std::min<int64_t>(t.blocks.items, std::min(cores, kMaxBlocks))));
}

int64_t nsa_selected_attention_grad_workspace(const NsaSelectedAttentionGradTilingData& tiling,
                                              int32_t cores) {
  const NsaSelectedAttentionGradWorkspace bytes(tiling);
  return bytes.parts_begin + cores * bytes.each;
}

}  // namespace nsa::ascend
