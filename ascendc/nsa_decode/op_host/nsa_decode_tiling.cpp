#include "ascendc/nsa_decode/op_host/nsa_decode_tiling.h"

#include <algorithm>

namespace nsa::ascend {

int32_t tile_nsa_decode(const DecodeCall& call, int32_t cores, uint32_t ub_bytes,
                        NsaDecodeTilingData* tiling) {
  NsaDecodeTilingData& t = *tiling;
  t.window_tokens = call.window_tokens;
  t.ring = call.window.page;
  const int32_t compressed = tile_nsa_compress_attention_infer(call.compressed, call.ranking, cores,
                                                               ub_bytes, &t.compressed);
  // The selection's cache has the tokens of the rows.
  t.compressed.most_tokens = std::min(t.compressed.most_tokens, call.selected.capacity());
  const int32_t selected = tile_nsa_selected_attention_infer(
      call.selected, call.ranking.block_tokens, call.ranking.count, cores, &t.selected);
  SplitCall window = call.window;
  window.keys = std::min(call.window_tokens, t.ring);
  return std::max({compressed, selected, tile_splits(window, cores, &t.window)});
}

int64_t nsa_decode_workspace(const NsaDecodeTilingData& tiling, int32_t cores) {
  return NsaDecodeWorkspace(tiling).SplitsBegin() +
         std::max({split_workspace(tiling.compressed.splits, cores),
                   split_workspace(tiling.selected.splits, cores),
                   split_workspace(tiling.window, cores)});
}

}  // namespace nsa::ascend
