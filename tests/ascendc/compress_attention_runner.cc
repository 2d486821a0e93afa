// Launches NsaCompressAttention on the twin: the tiling of op_host, then the kernel on as many
// cores as asked for. Driven by compress_attention_runner.py through ctypes.
#include "ascendc/nsa_compress_attention/op_host/nsa_compress_attention_tiling.h"
#include "tests/ascendc/entries.h"
#include "tests/ascendc/launcher.h"

namespace {

using runner::address;
using runner::list_of;
using runner::Tensor;
using twin::Role;

// Fields as compress_attention_runner.py has them.
struct Call {
  int64_t queries, keys, n1, n2, d, dv, bfloat16;
  int64_t compress_block_size, compress_stride, select_block_size, select_block_count;
  int64_t causal, init_blocks, local_blocks, overlap, mask_row, topk_mask_row, cores, seed;
  double scale;
  Tensor query, key, value, atten_mask, topk_mask, query_ends, key_ends, offsets;
  Tensor output, indices, softmax_max, softmax_sum;
};

nsa::ascend::CompressAttentionCall call_of(const Call& c) {
  nsa::ascend::CompressAttentionCall call;
  call.queries = c.queries;
  call.keys = c.keys;
  call.heads = c.n1;
  call.key_heads = c.n2;
  call.dim = c.d;
  call.value_dim = c.dv;
  call.query_ends = list_of(c.query_ends);
  call.key_ends = list_of(c.key_ends);
  call.query_offsets = list_of(c.offsets);
  call.rule = {c.compress_block_size, c.compress_stride, c.select_block_size, c.causal != 0,
               c.overlap != 0 ? nsa::Importance::kOverlap : nsa::Importance::kCann};
  call.count = c.select_block_count;
  call.init_blocks = c.init_blocks;
  call.local_blocks = c.local_blocks;
  call.mask_row = c.mask_row;
  call.topk_mask_row = c.topk_mask_row;
  call.scale = static_cast<float>(c.scale);
  return call;
}

}  // namespace

extern "C" __attribute__((visibility("default"))) void run(const Call* c, runner::Result* result) {
  auto tiling = runner::unset<nsa::ascend::NsaCompressAttentionTilingData>();
  const int32_t cores = nsa::ascend::tile_nsa_compress_attention(
      call_of(*c), static_cast<int32_t>(c->cores), nsa::ascend::kUbBytes, &tiling);
  runner::Launcher launcher("nsa_compress_attention", c->seed, result);
  GM_ADDR workspace =
      launcher.add_workspace(nsa::ascend::nsa_compress_attention_workspace(tiling, cores));
  launcher.add("query", c->query, Role::kInput);
  launcher.add("key", c->key, Role::kInput);
  launcher.add("value", c->value, Role::kInput);
  launcher.add("attenMask", c->atten_mask, Role::kInput);
  launcher.add("topkMask", c->topk_mask, Role::kInput);
  launcher.add("actualSeqQLen", c->query_ends, Role::kInput);
  launcher.add("actualCmpSeqKvLen", c->key_ends, Role::kInput);
  launcher.add("qOffset", c->offsets, Role::kInput);
  launcher.add("softmaxMax", c->softmax_max, Role::kOutput);
  launcher.add("softmaxSum", c->softmax_sum, Role::kOutput);
  launcher.add("attentionOut", c->output, Role::kOutput);
  launcher.add("topkIndices", c->indices, Role::kOutput);
  launcher.run(cores, tiling, [&] {
    const auto kernel =
        c->bfloat16 != 0 ? nsa_compress_attention_bfloat16 : nsa_compress_attention_float16;
    kernel(address(c->query), address(c->key), address(c->value), address(c->atten_mask),
           address(c->topk_mask), address(c->query_ends), address(c->key_ends), nullptr,
           address(c->offsets), address(c->softmax_max), address(c->softmax_sum),
           address(c->output), address(c->indices), workspace, address(&tiling));
  });
}
