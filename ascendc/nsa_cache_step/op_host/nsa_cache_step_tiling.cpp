#include "ascendc/nsa_cache_step/op_host/nsa_cache_step_tiling.h"

#include <algorithm>

#include "ascendc/decoding/op_host/ranking_plan.h"
#include "ascendc/decoding/op_host/split_plan.h"

namespace nsa::ascend {

namespace {

// Attention over at most `keys` tokens of `places` of each row, `head_size` elements from a head of
// a row to the next. `shared`: whether new tokens of a row may have the same splits.
int32_t tile_branch(const CacheStepCall& call, int64_t keys, int64_t head_size, bool shared,
                    bool ranked, int32_t cores, SplitTiling* tiling) {
  SplitCall splits{};
  splits.pages = call.batch;
  splits.page = call.capacity;
  splits.batch = call.batch;
  splits.queries = call.tokens;
  splits.n1 = call.n1;
  splits.n2 = call.n2;
  splits.d = call.d;
  splits.dv = call.dv;
  splits.keys = keys;
  splits.scale = call.scale;
  splits.ranked = ranked;
  splits.shared = shared;
  const int32_t used = tile_splits(splits, cores, tiling);
  tiling->key = {call.d, head_size, call.n2 * head_size};
  tiling->value = {call.dv, head_size, call.n2 * head_size};
  return used;
}

// A part of a Tensor behind `before` places of others.
StepPlaces places_behind(const CacheStepCall& call, int64_t before, int64_t places) {
  const int64_t keys = before * (call.d + call.dv);
  return {places, keys, keys + places * call.d};
}

}  // namespace

int32_t tile_nsa_cache_step(const CacheStepCall& call, int32_t cores, uint32_t ub_bytes,
                            NsaCacheStepTilingData* tiling) {
  NsaCacheStepTilingData& t = *tiling;
  const NsaCacheStepAttrs& a = call.attrs;
  t = {};
  t.selected_places = places_behind(call, 0, call.capacity);
  t.selected_head = call.capacity * (call.d + call.dv);
  t.window_tokens = a.window_size;
  t.block_size = a.compress_block_size;
  t.stride = a.compress_stride;
  t.state_size = kCacheHeader + 2;
  t.layer_place = kCacheLayer;
  t.length_place = kCacheHeader;
  t.layer = a.layer;
  t.sparse = call.sparse ? 1 : 0;
  t.shared = call.sparse && a.shared_kv ? 1 : 0;
  const int64_t window = std::min(call.capacity, a.window_size);
  if (!call.sparse)
    return tile_branch(call, window, t.selected_head, true, false, cores, &t.selected);

  const CachePlaces places(call.capacity, a);
  t.others_head = places.all() * (call.d + call.dv);
  t.compressed_places = places_behind(call, 0, places.compressed);
  t.window_places = places_behind(call, places.compressed, places.window);
  t.raw_places = places_behind(call, places.compressed + places.window, places.raw);
  const int64_t chosen = a.select_block_count * std::min(a.select_block_size, call.capacity);
  const int64_t last_head = t.shared != 0 ? t.selected_head : t.others_head;
  const int32_t used = std::max(
      {tile_branch(call, chosen, t.selected_head, false, false, cores, &t.selected),
       tile_branch(call, places.compressed, t.others_head, true, true, cores, &t.compressed),
       tile_branch(call, window, last_head, t.shared != 0, false, cores, &t.window)});
  const RankingRule rule{
      a.compress_block_size, a.compress_stride, a.select_block_size, a.select_block_count,
      a.init_blocks,         a.local_blocks,    call.overlap,        true};
  t.ranking = plan_ranking(rule, places.compressed, t.compressed, ub_bytes);
  return used;
}

int64_t nsa_cache_step_workspace(const NsaCacheStepTilingData& tiling, int32_t cores) {
  int64_t splits = split_workspace(tiling.selected, cores);
  if (tiling.sparse != 0) {
    splits = std::max(
        {splits, split_workspace(tiling.compressed, cores), split_workspace(tiling.window, cores)});
  }
  return StepWorkspace(tiling).splits + splits;
}

}  // namespace nsa::ascend
