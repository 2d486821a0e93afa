#include "ascendc/nsa_compress_attention/op_host/nsa_compress_attention_tiling.h"

#include <algorithm>

namespace nsa::ascend {

namespace {

// The longest row of blocks of a query.
int64_t most_blocks(const CompressAttentionCall& call) {
  int64_t most = 1;
  for (size_t b = 0; b < call.query_ends.size(); ++b) {
    const int64_t queries = segment_length(call.query_ends, b);
    if (queries == 0) continue;
    const int64_t offset = call.query_offsets.empty() ? 0 : call.query_offsets[b];
    most = std::max(
        most, selection_blocks(call.rule, segment_length(call.key_ends, b), offset + queries));
  }
  return most;
}

// Keys of a step: whole repeats, and a whole number of steps to a window.
int64_t step_of(int64_t window_keys) {
  for (int64_t step = std::min<int64_t>(kStepKeys, window_keys);; step -= kRepeatFloats)
    if (window_keys % step == 0) return step;
}

RankingTiling ranking_tiling(const CompressAttentionCall& call, int64_t queries) {
  constexpr int64_t kMultiple = kRepeatFloats;
  const SelectionRule& rule = call.rule;
  RankingTiling t{};
  t.block_keys = rule.select_block_size / rule.compress_stride;
  t.overlap_keys = rule.compress_block_size / rule.compress_stride;
  t.overlap = rule.importance == Importance::kOverlap;
  t.causal = rule.causal;
  t.block_tokens = rule.select_block_size;
  t.count = call.count;
  t.init = call.init_blocks;
  t.local = call.local_blocks;
  t.mask_row = call.topk_mask_row;
  t.queries = std::clamp<int64_t>(std::min(queries, kWindowFloats / (kMultiple * t.block_keys)), 1,
                                  kRankFloats / kMultiple);
  const int64_t most =
      std::min(kRankFloats / t.queries, kWindowFloats / (t.queries * t.block_keys));
  const int64_t needed = (most_blocks(call) + kMultiple - 1) / kMultiple * kMultiple;
  t.window = kMultiple;
  // Long steps first: an instruction costs the same for a short one.
  for (int64_t blocks = kMultiple; blocks <= std::min(most, needed); blocks += kMultiple)
    if (step_of(blocks * t.block_keys) >= step_of(t.window * t.block_keys)) t.window = blocks;
  return t;
}

FlashCall key_head_tiles(const CompressAttentionCall& call) {
  FlashCall flash;
  flash.dims = {InputLayout::kTND, static_cast<int64_t>(call.query_ends.size()),
                call.key_heads,    call.key_heads,
                call.queries,      call.keys,
                call.dim,          call.value_dim};
  flash.query_ends = call.query_ends;
  flash.key_ends = call.key_ends;
  flash.query_offsets = call.query_offsets;
  flash.sparse_mode = 1;  // nothing is hidden but by the stride and by a mask tensor
  flash.compress_block = call.rule.compress_block_size;
  flash.compress_stride = call.rule.causal ? call.rule.compress_stride : 0;
  // The vector cores set the pace, whose instructions take 64 columns or fewer in the same time.
  flash.cost_step = kRepeatFloats;
  flash.tile_cost = kRepeatFloats * 3 / 2;
  // Longer rows come in passes that have to wait for each other's room.
  flash.long_keys = SlotFloats(kMostPassFloats) / (kTileRows / 4);
  return flash;
}

}  // namespace

int32_t tile_nsa_compress_attention(const CompressAttentionCall& call, int32_t cores,
                                    uint32_t ub_bytes, NsaCompressAttentionTilingData* tiling) {
  NsaCompressAttentionTilingData& t = *tiling;
  const int64_t group = call.heads / call.key_heads;
  const FlashCall flash = key_head_tiles(call);
  t.mask = mask_tiling(flash);
  t.heads = call.heads;
  t.dim = call.dim;
  t.value_dim = call.value_dim;
  t.mask_row = call.mask_row;
  t.scale = call.scale;
  // Rows begin at multiples of 512 bytes.
  t.score_pitch = std::max<int64_t>(1, (longest_segment(call.key_ends) + 127) / 128) * 128;
  // Half of a tile's queries are a vector core's. Fewer at a time leave more room for their scores.
  const int64_t tile_queries = kTileRows / group;
  const auto fits = [&](int64_t queries, int64_t floats) {
    t.ranking = ranking_tiling(call, queries);
    t.pass_floats = floats;
    return NsaCompressAttentionBuffers(t.ranking, static_cast<int32_t>(group), floats,
                                       t.mask_row != 0)
               .Total() <= ub_bytes;
  };
  int64_t queries = (tile_queries + 1) / 2, floats = kMostPassFloats;
  while (!fits(queries, floats) && (queries > 1 || floats > kLeastPassFloats)) {
    if (floats > kMostPassFloats / 2 || queries == 1) {
      floats -= kLeastPassFloats;
    } else {
      queries = (queries + 1) / 2;
    }
  }
  t.step_keys = step_of(t.ranking.Keys());
  const int32_t used = share_tiles(flash, t.mask, TilesOf::kQueries,
                                   static_cast<int32_t>(tile_queries), cores, &t.work);
  t.work.group = group;
  return used;
}

int64_t nsa_compress_attention_workspace(const NsaCompressAttentionTilingData& tiling,
                                         int32_t cores) {
  return cores * NsaCompressAttentionWorkspace(tiling.work, tiling.score_pitch).Total();
}

}  // namespace nsa::ascend
