// Work that tiling gives the cores of the operators on selected blocks; see tiling.cc.
#include "ascendc/attention/work_items.h"
#include "ascendc/nsa_selected_attention/op_host/nsa_selected_attention_tiling.h"
#include "ascendc/nsa_selected_attention_grad/op_host/nsa_selected_attention_grad_tiling.h"
#include "benchmarks/tiling.h"

using namespace nsa::ascend;

namespace {

// A causal call of one segment.
SelectedCall selected(int64_t tokens, int64_t heads, int64_t kv_heads, int64_t dim,
                      int64_t value_dim, int64_t select, int64_t count) {
  SelectedCall call;
  call.t1 = call.t2 = tokens;
  call.n1 = heads;
  call.n2 = kv_heads;
  call.d = dim;
  call.dv = value_dim;
  call.query_ends = call.key_ends = {tokens};
  call.block_size = select;
  call.block_count = count;
  call.causal = true;
  return call;
}

// Scores of a row with a selected key in the tiles of queries of this core.
int64_t selected_scores(const WorkTiling& work, const MaskTiling& mask, nsa::SeqList* lists,
                        const SelectionTiling& selection) {
  WorkItems items;
  items.Init(&work, &mask, tiling::address(&lists[0]), tiling::address(&lists[1]), nullptr);
  int64_t scores = 0;
  for (WorkItem item; items.Next(&item);) {
    for (int32_t i = 0; i < item.rows; ++i)
      scores +=
          std::min(item.visible.High(item.row + i), selection.block_count * selection.block_size);
  }
  return scores * selection.group;
}

}  // namespace

// Scores of a row with a selected key in the tiles of the busiest core.
EXPORT int64_t nsa_selected_attention(int64_t tokens, int64_t heads, int64_t kv_heads, int64_t dim,
                                      int64_t value_dim, int64_t select, int64_t count,
                                      int64_t cores, int64_t* total) {
  const SelectedCall call = selected(tokens, heads, kv_heads, dim, value_dim, select, count);
  NsaSelectedAttentionTilingData t;
  const int32_t used = tile_nsa_selected_attention(call, static_cast<int32_t>(cores), kUbBytes, &t);
  nsa::SeqList lists[] = {call.query_ends, call.key_ends};
  return tiling::most_of(used, lists, 2, total, [&](int32_t) {
    return selected_scores(t.work, t.mask, lists, t.selection);
  });
}

// Likewise, and as many again, which the kernel shares evenly, of the walk over blocks.
EXPORT int64_t nsa_selected_attention_grad(int64_t tokens, int64_t heads, int64_t kv_heads,
                                           int64_t dim, int64_t value_dim, int64_t select,
                                           int64_t count, int64_t cores, int64_t* total) {
  const SelectedCall call = selected(tokens, heads, kv_heads, dim, value_dim, select, count);
  NsaSelectedAttentionGradTilingData t;
  const int32_t used = tile_nsa_selected_attention_grad(call, static_cast<int32_t>(cores), &t);
  nsa::SeqList lists[] = {call.query_ends, call.key_ends};
  const int64_t most = tiling::most_of(used, lists, 2, total, [&](int32_t) {
    return selected_scores(t.queries, t.mask, lists, t.selection);
  });
  if (most < 0) return most;
  const int64_t blocks = *total / used;
  *total *= 2;
  return most + blocks;
}
