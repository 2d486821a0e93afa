// Launches FlashAttentionScore and its gradient on the twin: the tiling of op_host, then the kernel
// on as many cores as asked for. Driven by flash_runner.py through ctypes.
#include "ascendc/flash_attention_score/op_host/flash_attention_score_tiling.h"
#include "ascendc/flash_attention_score_grad/op_host/flash_attention_score_grad_tiling.h"
#include "tests/ascendc/entries.h"
#include "tests/ascendc/launcher.h"

namespace {

using runner::address;
using runner::list_of;
using runner::Tensor;
using twin::Role;

// Fields as flash_runner.py has them.
struct Call {
  int64_t layout, batch, n1, n2, s1, s2, d, dv;
  int64_t dtype;  // 0 float16, 1 bfloat16, 2 float32
  int64_t sparse_mode, pre_tokens, next_tokens, pse_type;
  double scale, keep_prob;
  int64_t mask_shape[4], pse_shape[4], mask_rank, pse_rank;
  int64_t wants_pse_grad, compress_block, compress_stride, cores, seed;
  Tensor query, key, value, pse, drop, mask, prefix, query_ends, key_ends, q_starts, kv_starts,
      sink;
  Tensor output, softmax_max, softmax_sum;  // inputs of the gradient
  Tensor output_grad, offsets, sum_grad, query_grad, key_grad, value_grad, pse_grad, sink_grad;
};

nsa::ascend::FlashCall call_of(const Call& c) {
  nsa::ascend::FlashCall call;
  call.dims = {static_cast<nsa::InputLayout>(c.layout), c.batch, c.n1, c.n2, c.s1, c.s2, c.d, c.dv};
  call.element_bytes = c.dtype == 2 ? 4 : 2;
  call.query_ends = list_of(c.query_ends);
  call.key_ends = list_of(c.key_ends);
  call.prefix = list_of(c.prefix);
  call.mask_shape.assign(c.mask_shape, c.mask_shape + c.mask_rank);
  call.pse_shape.assign(c.pse_shape, c.pse_shape + c.pse_rank);
  call.drop_bytes = c.drop.bytes;
  call.sparse_mode = c.sparse_mode;
  call.pre_tokens = c.pre_tokens;
  call.next_tokens = c.next_tokens;
  call.pse_type = c.pse_type;
  call.q_start = list_of(c.q_starts);
  call.kv_start = list_of(c.kv_starts);
  call.scale = static_cast<float>(c.scale);
  call.keep_prob = static_cast<float>(c.keep_prob);
  call.sink = c.sink.data != nullptr;
  call.pse_grad = c.wants_pse_grad != 0;
  call.compress_block = c.compress_block;
  call.compress_stride = c.compress_stride;
  call.query_offsets = list_of(c.offsets);
  call.sum_grad = c.sum_grad.data != nullptr;
  return call;
}

// Adds the inputs that the operator and its gradient share.
void add_shared(runner::Launcher* launcher, const Call& c, Role results) {
  launcher->add("query", c.query, Role::kInput);
  launcher->add("key", c.key, Role::kInput);
  launcher->add("value", c.value, Role::kInput);
  launcher->add("realShift", c.pse, Role::kInput);
  launcher->add("dropMask", c.drop, Role::kInput);
  launcher->add("attenMask", c.mask, Role::kInput);
  launcher->add("prefix", c.prefix, Role::kInput);
  launcher->add("actualSeqQLen", c.query_ends, Role::kInput);
  launcher->add("actualSeqKvLen", c.key_ends, Role::kInput);
  launcher->add("qStartIdx", c.q_starts, Role::kInput);
  launcher->add("kvStartIdx", c.kv_starts, Role::kInput);
  launcher->add("sink", c.sink, Role::kInput);
  launcher->add("softmaxMax", c.softmax_max, results);
  launcher->add("softmaxSum", c.softmax_sum, results);
  launcher->add("attentionOut", c.output, results);
}

}  // namespace

#define EXPORT extern "C" __attribute__((visibility("default")))

// Tiles of causal attention, or -1 where tiling refuses them.
EXPORT int64_t flash_tiles(int64_t heads, int64_t queries) {
  nsa::ascend::FlashCall call;
  call.dims = {nsa::InputLayout::kBNSD, 1, heads, heads, queries, queries, 16, 16};
  call.sparse_mode = 3;
  auto tiling = runner::unset<nsa::ascend::FlashAttentionScoreTilingData>();
  try {
    nsa::ascend::tile_flash_attention_score(call, 24, nsa::ascend::kUbBytes, &tiling);
  } catch (const nsa::OpError&) {
    return -1;
  }
  return tiling.work.items;
}

EXPORT void run_flash(const Call* c, runner::Result* result) {
  auto tiling = runner::unset<nsa::ascend::FlashAttentionScoreTilingData>();
  const nsa::ascend::FlashCall call = call_of(*c);
  const int32_t cores = nsa::ascend::tile_flash_attention_score(
      call, static_cast<int32_t>(c->cores), nsa::ascend::kUbBytes, &tiling);
  runner::Launcher launcher("flash_attention_score", c->seed, result);
  GM_ADDR workspace = launcher.add_workspace(
      nsa::ascend::flash_attention_score_workspace(tiling, call.element_bytes, cores));
  add_shared(&launcher, *c, Role::kOutput);
  launcher.run(cores, tiling, [&] {
    const auto kernel = c->dtype == 0   ? flash_attention_score_float16
                        : c->dtype == 1 ? flash_attention_score_bfloat16
                                        : flash_attention_score_float32;
    kernel(address(c->query), address(c->key), address(c->value), address(c->pse), address(c->drop),
           nullptr, address(c->mask), address(c->prefix), address(c->query_ends),
           address(c->key_ends), address(c->q_starts), address(c->kv_starts), address(c->sink),
           address(c->softmax_max), address(c->softmax_sum), nullptr, address(c->output), workspace,
           address(&tiling));
  });
}

EXPORT void run_flash_grad(const Call* c, runner::Result* result) {
  auto tiling = runner::unset<nsa::ascend::FlashAttentionScoreGradTilingData>();
  const nsa::ascend::FlashCall call = call_of(*c);
  const int32_t cores = nsa::ascend::tile_flash_attention_score_grad(
      call, static_cast<int32_t>(c->cores), nsa::ascend::kUbBytes, &tiling);
  runner::Launcher launcher("flash_attention_score_grad", c->seed, result);
  GM_ADDR workspace = launcher.add_workspace(
      nsa::ascend::flash_attention_score_grad_workspace(tiling, call.element_bytes, cores));
  add_shared(&launcher, *c, Role::kInput);
  launcher.add("dy", c->output_grad, Role::kInput);
  launcher.add("qOffset", c->offsets, Role::kInput);
  launcher.add("softmaxSumGrad", c->sum_grad, Role::kInput);
  launcher.add("dq", c->query_grad, Role::kOutput);
  launcher.add("dk", c->key_grad, Role::kOutput);
  launcher.add("dv", c->value_grad, Role::kOutput);
  launcher.add("dpse", c->pse_grad, Role::kOutput);
  launcher.add("dsink", c->sink_grad, Role::kOutput);
  launcher.run(cores, tiling, [&] {
    const auto kernel = c->dtype == 0   ? flash_attention_score_grad_float16
                        : c->dtype == 1 ? flash_attention_score_grad_bfloat16
                                        : flash_attention_score_grad_float32;
    kernel(address(c->query), address(c->key), address(c->value), address(c->output_grad),
           address(c->pse), address(c->drop), nullptr, address(c->mask), address(c->softmax_max),
           address(c->softmax_sum), nullptr, address(c->output), address(c->prefix),
           address(c->query_ends), address(c->key_ends), address(c->q_starts),
           address(c->kv_starts), address(c->sink), address(c->offsets), address(c->sum_grad),
           address(c->query_grad), address(c->key_grad), address(c->value_grad),
           address(c->pse_grad), address(c->sink_grad), workspace, address(&tiling));
  });
}
