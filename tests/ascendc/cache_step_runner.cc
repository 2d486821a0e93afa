// Launches NsaCacheStep on the twin: the tiling of op_host, then the kernel on as many cores as
// asked for. Driven by cache_step_runner.py through ctypes.
#include "ascendc/nsa_cache_step/op_host/nsa_cache_step_tiling.h"
#include "tests/ascendc/entries.h"
#include "tests/ascendc/launcher.h"

namespace {

using nsa::ascend::SplitTiling;
using runner::address;
using runner::Tensor;
using twin::Role;

// Fields as cache_step_runner.py has them.
struct Call {
  int64_t batch, tokens, capacity, n1, n2, d, dv;
  int64_t sparse, shared, window, rollback, block_size, stride, select_size, count, init, local;
  int64_t overlap, layer;
  int64_t wave_queries;  // 0: as tiling decides
  int64_t bfloat16, cores, seed;
  double scale;
  Tensor query, key, value, selected, state, ends, gates, weight_k, weight_v, position_k,
      position_v, others, angles, fine_angles, output;
};

}  // namespace

#define EXPORT extern "C" __attribute__((visibility("default")))

EXPORT void run_cache_step(const Call* c, runner::Result* result) {
  auto tiling = runner::unset<nsa::ascend::NsaCacheStepTilingData>();
  nsa::NsaCacheStepAttrs attrs{};
  attrs.shared_kv = c->shared != 0;
  attrs.window_size = c->window;
  attrs.rollback = c->rollback;
  attrs.compress_block_size = c->block_size;
  attrs.compress_stride = c->stride;
  attrs.select_block_size = c->select_size;
  attrs.select_block_count = c->count;
  attrs.init_blocks = c->init;
  attrs.local_blocks = c->local;
  attrs.layer = c->layer;
  const nsa::ascend::CacheStepCall call{c->batch,       c->tokens,
                                        c->capacity,    c->n1,
                                        c->n2,          c->d,
                                        c->dv,          static_cast<float>(c->scale),
                                        c->sparse != 0, c->overlap != 0,
                                        attrs};
  const int32_t cores = nsa::ascend::tile_nsa_cache_step(call, static_cast<int32_t>(c->cores),
                                                         nsa::ascend::kUbBytes, &tiling);
  for (SplitTiling* splits : {&tiling.selected, &tiling.compressed, &tiling.window})
    if (c->wave_queries > 0) splits->wave_splits = c->wave_queries * splits->splits * splits->heads;
  runner::Launcher launcher("nsa_cache_step", c->seed, result);
  GM_ADDR workspace = launcher.add_workspace(nsa::ascend::nsa_cache_step_workspace(tiling, cores));
  launcher.add("query", c->query, Role::kInput);
  launcher.add("key", c->key, Role::kInput);
  launcher.add("value", c->value, Role::kInput);
  launcher.add("selected", c->selected, Role::kInOut);
  launcher.add("state", c->state, Role::kInOut);
  launcher.add("actualSeqLen", c->ends, Role::kInput);
  launcher.add("gates", c->gates, Role::kInput);
  launcher.add("weightK", c->weight_k, Role::kInput);
  launcher.add("weightV", c->weight_v, Role::kInput);
  launcher.add("positionK", c->position_k, Role::kInput);
  launcher.add("positionV", c->position_v, Role::kInput);
  launcher.add("others", c->others, Role::kInOut);
  launcher.add("angles", c->angles, Role::kInput);
  launcher.add("fineAngles", c->fine_angles, Role::kInput);
  launcher.add("attentionOut", c->output, Role::kOutput);
  launcher.run(cores, tiling, [&] {
    const auto kernel = c->bfloat16 != 0 ? nsa_cache_step_bfloat16 : nsa_cache_step_float16;
    kernel(address(c->query), address(c->key), address(c->value), address(c->selected),
           address(c->state), address(c->ends), address(c->gates), address(c->weight_k),
           address(c->weight_v), address(c->position_k), address(c->position_v), address(c->others),
           address(c->angles), address(c->fine_angles), address(c->output), address(c->selected),
           address(c->state), address(c->others), workspace, address(&tiling));
  });
}
