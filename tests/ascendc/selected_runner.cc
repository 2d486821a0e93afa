// Launches NsaSelectedAttention and its gradient on the twin: the tiling of op_host, then the
// kernel on as many cores as asked for. Driven by selected_runner.py through ctypes.
#include "ascendc/nsa_selected_attention/op_host/nsa_selected_attention_tiling.h"
#include "ascendc/nsa_selected_attention_grad/op_host/nsa_selected_attention_grad_tiling.h"
#include "tests/ascendc/entries.h"
#include "tests/ascendc/launcher.h"

namespace {

using runner::address;
using runner::list_of;
using runner::Tensor;
using twin::Role;

// Fields as selected_runner.py has them.
struct Call {
  int64_t t1, t2, n1, n2, d, dv, bfloat16, block_size, block_count, causal, tile_queries, cores,
      seed;
  double scale;
  Tensor query, key, value, indices, query_ends, key_ends, offsets;
  Tensor output, softmax_max, softmax_sum;  // inputs of the gradient
  Tensor output_grad, sum_grad, query_grad, key_grad, value_grad;
};

nsa::ascend::SelectedCall call_of(const Call& c) {
  nsa::ascend::SelectedCall call;
  call.t1 = c.t1;
  call.t2 = c.t2;
  call.n1 = c.n1;
  call.n2 = c.n2;
  call.d = c.d;
  call.dv = c.dv;
  call.query_ends = list_of(c.query_ends);
  call.key_ends = list_of(c.key_ends);
  call.query_offsets = list_of(c.offsets);
  call.sum_grad = c.sum_grad.data != nullptr;
  call.block_size = c.block_size;
  call.block_count = c.block_count;
  call.causal = c.causal != 0;
  call.scale = static_cast<float>(c.scale);
  call.tile_queries = c.tile_queries;
  return call;
}

// Adds the inputs that the operator and its gradient share.
void add_shared(runner::Launcher* launcher, const Call& c, Role results) {
  launcher->add("query", c.query, Role::kInput);
  launcher->add("key", c.key, Role::kInput);
  launcher->add("value", c.value, Role::kInput);
  launcher->add("topkIndices", c.indices, Role::kInput);
  launcher->add("actualSeqQLen", c.query_ends, Role::kInput);
  launcher->add("actualSeqKvLen", c.key_ends, Role::kInput);
  launcher->add("qOffset", c.offsets, Role::kInput);
  launcher->add("softmaxMax", c.softmax_max, results);
  launcher->add("softmaxSum", c.softmax_sum, results);
  launcher->add("attentionOut", c.output, results);
}

}  // namespace

#define EXPORT extern "C" __attribute__((visibility("default")))

EXPORT void run_selected(const Call* c, runner::Result* result) {
  auto tiling = runner::unset<nsa::ascend::NsaSelectedAttentionTilingData>();
  const int32_t cores = nsa::ascend::tile_nsa_selected_attention(
      call_of(*c), static_cast<int32_t>(c->cores), nsa::ascend::kUbBytes, &tiling);
  runner::Launcher launcher("nsa_selected_attention", c->seed, result);
  GM_ADDR workspace =
      launcher.add_workspace(nsa::ascend::nsa_selected_attention_workspace(tiling, cores));
  add_shared(&launcher, *c, Role::kOutput);
  launcher.run(cores, tiling, [&] {
    const auto kernel =
        c->bfloat16 != 0 ? nsa_selected_attention_bfloat16 : nsa_selected_attention_float16;
    kernel(address(c->query), address(c->key), address(c->value), address(c->indices), nullptr,
           address(c->query_ends), address(c->key_ends), address(c->offsets),
           address(c->softmax_max), address(c->softmax_sum), address(c->output), workspace,
           address(&tiling));
  });
}

EXPORT void run_selected_grad(const Call* c, runner::Result* result) {
  auto tiling = runner::unset<nsa::ascend::NsaSelectedAttentionGradTilingData>();
  const int32_t cores = nsa::ascend::tile_nsa_selected_attention_grad(
      call_of(*c), static_cast<int32_t>(c->cores), &tiling);
  runner::Launcher launcher("nsa_selected_attention_grad", c->seed, result);
  GM_ADDR workspace =
      launcher.add_workspace(nsa::ascend::nsa_selected_attention_grad_workspace(tiling, cores));
  add_shared(&launcher, *c, Role::kInput);
  launcher.add("attentionOutGrad", c->output_grad, Role::kInput);
  launcher.add("softmaxSumGrad", c->sum_grad, Role::kInput);
  launcher.add("dq", c->query_grad, Role::kOutput);
  launcher.add("dk", c->key_grad, Role::kOutput);
  launcher.add("dv", c->value_grad, Role::kOutput);
  launcher.run(cores, tiling, [&] {
    const auto kernel = c->bfloat16 != 0 ? nsa_selected_attention_grad_bfloat16
                                         : nsa_selected_attention_grad_float16;
    kernel(address(c->query), address(c->key), address(c->value), address(c->output),
           address(c->output_grad), address(c->softmax_max), address(c->softmax_sum),
           address(c->indices), address(c->query_ends), address(c->key_ends), nullptr,
           address(c->offsets), address(c->sum_grad), address(c->query_grad), address(c->key_grad),
           address(c->value_grad), workspace, address(&tiling));
  });
}
