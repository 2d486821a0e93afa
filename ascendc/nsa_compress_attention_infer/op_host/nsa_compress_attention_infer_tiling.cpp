#include "ascendc/nsa_compress_attention_infer/op_host/nsa_compress_attention_infer_tiling.h"

#include <algorithm>

namespace nsa::ascend {

int32_t tile_nsa_compress_attention_infer(PartsCall call, const RankingRule& rule, int32_t cores,
                                          uint32_t ub_bytes,
                                          NsaCompressAttentionInferTilingData* tiling) {
  constexpr int64_t kMultiple = kRepeatFloats;
  NsaCompressAttentionInferTilingData& t = *tiling;
  t.window_tokens = rule.window_tokens;
  t.stride = rule.stride;
  // The row's tokens are not in this cache; as many of them fill it.
  t.most_tokens = call.capacity() * rule.stride + rule.window_tokens - 1;
  call.keys = call.capacity();
  call.ranked = true;
  const int32_t used = tile_parts(call, cores, &t.parts);
  const int64_t block_keys = rule.block_tokens / rule.stride;
  const int64_t overlap_keys = rule.window_tokens / rule.stride;
  // A full cache's last query is not beyond the block behind all keys.
  const int64_t most = (call.keys + overlap_keys - 1) / block_keys + 1;
  t.ranking = {block_keys,
               overlap_keys,
               rule.overlap ? 1 : 0,
               rule.known ? 1 : 0,
               rule.block_tokens,
               rule.count,
               rule.init,
               rule.local,
               0,
               1,
               0};
  t.ranking.window = std::clamp<int64_t>(
      (most + kMultiple - 1) / kMultiple * kMultiple, kMultiple,
      std::min<int64_t>(kRankFloats, std::max<int64_t>(kMultiple, kWindowFloats / block_keys /
                                                                      kMultiple * kMultiple)));
  while (t.ranking.window > kMultiple &&
         RankedPartsBytes(t.ranking, t.parts.group, t.parts.part_keys, t.parts.value_dim) >
             ub_bytes) {
    t.ranking.window -= kMultiple;
  }
  return used;
}

}  // namespace nsa::ascend
