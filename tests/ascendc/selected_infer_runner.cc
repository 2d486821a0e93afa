// Launches NsaSelectedAttentionInfer on the twin: the tiling of op_host, then the kernel on as many
// cores as asked for. Driven by selected_infer_runner.py through ctypes.
#include "ascendc/nsa_selected_attention_infer/op_host/nsa_selected_attention_infer_tiling.h"
#include "tests/ascendc/entries.h"
#include "tests/ascendc/launcher.h"

namespace {

using runner::address;
using runner::Tensor;
using twin::Role;

// Fields as selected_infer_runner.py has them.
struct Call {
  int64_t pages, page, places, batch, queries, n1, n2, d, dv, block_size, block_count;
  int64_t wave_queries;  // 0: as tiling decides
  int64_t bfloat16, cores, seed;
  double scale;
  Tensor query, key, value, indices, block_table, counts, lengths, output;
};

}  // namespace

#define EXPORT extern "C" __attribute__((visibility("default")))

EXPORT void run_selected_infer(const Call* c, runner::Result* result) {
  auto tiling = runner::unset<nsa::ascend::NsaSelectedAttentionInferTilingData>();
  const nsa::ascend::SplitCall call{c->pages,
                                    c->page,
                                    c->places,
                                    c->batch,
                                    c->queries,
                                    c->n1,
                                    c->n2,
                                    c->d,
                                    c->dv,
                                    0,
                                    static_cast<float>(c->scale),
                                    false};
  const int32_t cores = nsa::ascend::tile_nsa_selected_attention_infer(
      call, c->block_size, c->block_count, static_cast<int32_t>(c->cores), &tiling);
  nsa::ascend::SplitTiling& splits = tiling.splits;
  if (c->wave_queries > 0) splits.wave_splits = c->wave_queries * splits.splits * splits.heads;
  runner::Launcher launcher("nsa_selected_attention_infer", c->seed, result);
  GM_ADDR workspace = launcher.add_workspace(nsa::ascend::split_workspace(splits, cores));
  launcher.add("query", c->query, Role::kInput);
  launcher.add("key", c->key, Role::kInput);
  launcher.add("value", c->value, Role::kInput);
  launcher.add("topkIndices", c->indices, Role::kInput);
  launcher.add("blockTable", c->block_table, Role::kInput);
  launcher.add("actualSeqQLen", c->counts, Role::kInput);
  launcher.add("actualSeqKvLen", c->lengths, Role::kInput);
  launcher.add("attentionOut", c->output, Role::kOutput);
  launcher.run(cores, tiling, [&] {
    const auto kernel = c->bfloat16 != 0 ? nsa_selected_attention_infer_bfloat16
                                         : nsa_selected_attention_infer_float16;
    kernel(address(c->query), address(c->key), address(c->value), address(c->indices),
           address(c->block_table), address(c->counts), address(c->lengths), address(c->output),
           workspace, address(&tiling));
  });
}
