#include "ascendc/nsa_compress_attention_infer/op_host/nsa_compress_attention_infer_tiling.h"

namespace nsa::ascend {

int32_t tile_nsa_compress_attention_infer(SplitCall call, const RankingRule& rule, int32_t cores,
                                          uint32_t ub_bytes,
                                          NsaCompressAttentionInferTilingData* tiling) {
  NsaCompressAttentionInferTilingData& t = *tiling;
  t.window_tokens = rule.window_tokens;
  t.stride = rule.stride;
  // The row's tokens are not in this cache; as many of them fill it.
  t.most_tokens = call.capacity() * rule.stride + rule.window_tokens - 1;
  call.keys = call.capacity();
  call.ranked = call.shared = true;
  const int32_t used = tile_splits(call, cores, &t.splits);
  t.ranking = plan_ranking(rule, call.keys, t.splits, ub_bytes);
  return used;
}

}  // namespace nsa::ascend
