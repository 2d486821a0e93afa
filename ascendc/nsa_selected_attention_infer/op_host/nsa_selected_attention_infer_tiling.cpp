#include "ascendc/nsa_selected_attention_infer/op_host/nsa_selected_attention_infer_tiling.h"

#include <algorithm>

namespace nsa::ascend {

namespace {

// What the parts of a wave may leave in the workspace: a prompt has many cells.
constexpr int64_t kWaveBytes = int64_t{32} * 1024 * 1024;

}  // namespace

int32_t tile_nsa_selected_attention_infer(const SelectedInferCall& call, int32_t cores,
                                          NsaSelectedAttentionInferTilingData* tiling) {
  NsaSelectedAttentionInferTilingData& t = *tiling;
  const bool paged = call.places > 0;
  t.pages = paged ? PagesTiling{call.pages, call.page, call.places}
                  : PagesTiling{call.pages * call.page, 1, 0};
  t.capacity = paged ? call.places * call.page : call.page;
  t.batch = call.batch;
  t.per_row = call.batch == 0 ? 0 : call.queries / call.batch;
  t.queries = call.queries;
  t.block_size = call.block_size;
  t.block_count = call.block_count;
  t.heads = static_cast<int32_t>(call.n2);
  t.group = static_cast<int32_t>(call.n1 / call.n2);
  t.dim = static_cast<int32_t>(call.d);
  t.value_dim = static_cast<int32_t>(call.dv);
  t.part_keys = PartKeys(t.group, t.dim, t.value_dim);
  t.scale = call.scale;
  const int64_t keys = t.block_count * std::min(t.block_size, t.capacity);
  t.parts = std::max<int64_t>(1, (keys + t.part_keys - 1) / t.part_keys);
  const NsaSelectedAttentionInferWorkspace bytes(t);
  const int64_t cells = t.queries * t.heads;
  const int64_t each = t.parts * (bytes.output + bytes.statistics);
  t.wave_cells = std::clamp<int64_t>(kWaveBytes / each, 1, std::max<int64_t>(1, cells));
  return static_cast<int32_t>(std::clamp<int64_t>(t.wave_cells * t.parts, 1, cores));
}

int64_t nsa_selected_attention_infer_workspace(const NsaSelectedAttentionInferTilingData& tiling,
                                               int32_t cores) {
  return NsaSelectedAttentionInferWorkspace(tiling).Total(cores, tiling.wave_cells * tiling.parts);
}

}  // namespace nsa::ascend
