// Launches NsaCompressAttentionInfer on the twin: the tiling of op_host, then the kernel on as many
// cores as asked for. Driven by compress_infer_runner.py through ctypes.
#include "ascendc/nsa_compress_attention_infer/op_host/nsa_compress_attention_infer_tiling.h"
#include "tests/ascendc/entries.h"
#include "tests/ascendc/launcher.h"

namespace {

using runner::address;
using runner::Tensor;
using twin::Role;

// Fields as compress_infer_runner.py has them.
struct Call {
  int64_t pages, page, places, batch, queries, n1, n2, d, dv;
  int64_t window_tokens, stride, block_tokens, count, init, local, overlap, known;
  int64_t wave_queries;  // 0: as tiling decides
  int64_t window;        // blocks that are ranked at a time; 0: as tiling decides
  int64_t shared;        // queries of a product; 0: as tiling decides
  int64_t bfloat16, cores, seed;
  double scale;
  Tensor query, key, value, block_table, counts, compressed, tokens, output, indices;
};

}  // namespace

#define EXPORT extern "C" __attribute__((visibility("default")))

EXPORT void run_compress_infer(const Call* c, runner::Result* result) {
  auto tiling = runner::unset<nsa::ascend::NsaCompressAttentionInferTilingData>();
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
                                    true};
  const nsa::ascend::RankingRule rule{c->window_tokens, c->stride, c->block_tokens, c->count,
                                      c->init,          c->local,  c->overlap != 0, c->known != 0};
  const int32_t cores = nsa::ascend::tile_nsa_compress_attention_infer(
      call, rule, static_cast<int32_t>(c->cores), nsa::ascend::kUbBytes, &tiling);
  nsa::ascend::SplitTiling& splits = tiling.splits;
  if (c->shared > 0) {
    splits.shared = static_cast<int32_t>(c->shared);
    splits.rows = splits.shared * splits.group;
  }
  if (c->wave_queries > 0) splits.wave_splits = c->wave_queries * splits.splits * splits.heads;
  if (c->window > 0) tiling.ranking.window = c->window;
  runner::Launcher launcher("nsa_compress_attention_infer", c->seed, result);
  GM_ADDR workspace = launcher.add_workspace(nsa::ascend::split_workspace(splits, cores));
  launcher.add("query", c->query, Role::kInput);
  launcher.add("key", c->key, Role::kInput);
  launcher.add("value", c->value, Role::kInput);
  launcher.add("blockTable", c->block_table, Role::kInput);
  launcher.add("actualSeqQLen", c->counts, Role::kInput);
  launcher.add("actualCmpSeqKvLen", c->compressed, Role::kInput);
  launcher.add("actualSelSeqKvLen", c->tokens, Role::kInput);
  launcher.add("attentionOut", c->output, Role::kOutput);
  launcher.add("topkIndices", c->indices, Role::kOutput);
  launcher.run(cores, tiling, [&] {
    const auto kernel = c->bfloat16 != 0 ? nsa_compress_attention_infer_bfloat16
                                         : nsa_compress_attention_infer_float16;
    kernel(address(c->query), address(c->key), address(c->value), address(c->block_table),
           address(c->counts), address(c->compressed), address(c->tokens), address(c->output),
           address(c->indices), workspace, address(&tiling));
  });
}
