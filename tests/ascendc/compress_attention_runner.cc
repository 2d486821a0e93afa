// Launches NsaCompressAttention on the twin: the tiling of op_host, then the kernel on as many
// cores as asked for. Driven by compress_attention_runner.py through ctypes.
#include <vector>

#include "ascendc/nsa_compress_attention/op_host/nsa_compress_attention_tiling.h"
#include "tests/ascendc/launcher.h"

// A kernel source is compiled once per dtype, as CANN does it.
#define DTYPE_QUERY half
#define nsa_compress_attention nsa_compress_attention_float16
#include "ascendc/nsa_compress_attention/op_kernel/nsa_compress_attention.cpp"
#undef DTYPE_QUERY
#undef nsa_compress_attention
#define DTYPE_QUERY bfloat16_t
#define nsa_compress_attention nsa_compress_attention_bfloat16
#include "ascendc/nsa_compress_attention/op_kernel/nsa_compress_attention.cpp"
#undef nsa_compress_attention

namespace {

struct Tensor {
  const void* data;
  int64_t bytes;
};

// Fields as compress_attention_runner.py has them.
struct Call {
  int64_t queries, keys, n1, n2, d, dv, bfloat16;
  int64_t compress_block_size, compress_stride, select_block_size, select_block_count;
  int64_t causal, init_blocks, local_blocks, overlap, mask_row, topk_mask_row, cores, seed;
  double scale;
  Tensor query, key, value, atten_mask, topk_mask, query_ends, key_ends, offsets;
  Tensor output, indices, softmax_max, softmax_sum;
};

nsa::SeqList list_of(const Tensor& tensor) {
  const auto* data = static_cast<const int64_t*>(tensor.data);
  return nsa::SeqList(data, data + tensor.bytes / 8);
}

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

using runner::address;
using twin::Role;

extern "C" __attribute__((visibility("default"))) void run(const Call* c, runner::Result* result) {
  std::memset(result, 0, sizeof(*result));
  nsa::ascend::NsaCompressAttentionTilingData tiling;
  std::memset(static_cast<void*>(&tiling), runner::kGarbage, sizeof(tiling));
  const int32_t cores = nsa::ascend::tile_nsa_compress_attention(
      call_of(*c), static_cast<int32_t>(c->cores), nsa::ascend::kUbBytes, &tiling);
  std::vector<uint8_t> workspace(
      static_cast<size_t>(nsa::ascend::nsa_compress_attention_workspace(tiling, cores)),
      static_cast<uint8_t>(runner::kGarbage));
  runner::Launcher launcher("nsa_compress_attention", c->seed, result);
  const auto add = [&](const char* name, const Tensor& tensor, Role role) {
    if (tensor.data != nullptr) launcher.add(name, tensor.data, tensor.bytes, role);
  };
  add("query", c->query, Role::kInput);
  add("key", c->key, Role::kInput);
  add("value", c->value, Role::kInput);
  add("attenMask", c->atten_mask, Role::kInput);
  add("topkMask", c->topk_mask, Role::kInput);
  add("actualSeqQLen", c->query_ends, Role::kInput);
  add("actualCmpSeqKvLen", c->key_ends, Role::kInput);
  add("qOffset", c->offsets, Role::kInput);
  add("softmaxMax", c->softmax_max, Role::kOutput);
  add("softmaxSum", c->softmax_sum, Role::kOutput);
  add("attentionOut", c->output, Role::kOutput);
  add("topkIndices", c->indices, Role::kOutput);
  launcher.add("workspace", workspace.data(), static_cast<int64_t>(workspace.size()),
               Role::kWorkspace);
  launcher.run(cores, tiling, [&] {
    const auto kernel =
        c->bfloat16 != 0 ? nsa_compress_attention_bfloat16 : nsa_compress_attention_float16;
    kernel(address(c->query.data), address(c->key.data), address(c->value.data),
           address(c->atten_mask.data), address(c->topk_mask.data), address(c->query_ends.data),
           address(c->key_ends.data), nullptr, address(c->offsets.data),
           address(c->softmax_max.data), address(c->softmax_sum.data), address(c->output.data),
           address(c->indices.data), workspace.data(), address(&tiling));
  });
}
