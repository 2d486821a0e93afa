// Launches FlashAttentionScore on the twin: the tiling of op_host, then the kernel on as many cores
// as asked for. Driven by flash_runner.py through ctypes.
#include <vector>

#include "ascendc/flash_attention_score/op_host/flash_attention_score_tiling.h"
#include "tests/ascendc/launcher.h"

// A kernel source is compiled once per dtype, as CANN does it.
#define DTYPE_QUERY half
#define flash_attention_score flash_attention_score_float16
#include "ascendc/flash_attention_score/op_kernel/flash_attention_score.cpp"
#undef DTYPE_QUERY
#undef flash_attention_score
#define DTYPE_QUERY bfloat16_t
#define flash_attention_score flash_attention_score_bfloat16
#include "ascendc/flash_attention_score/op_kernel/flash_attention_score.cpp"
#undef DTYPE_QUERY
#undef flash_attention_score
#define DTYPE_QUERY float
#define flash_attention_score flash_attention_score_float32
#include "ascendc/flash_attention_score/op_kernel/flash_attention_score.cpp"
#undef flash_attention_score

namespace {

struct Tensor {
  const void* data;
  int64_t bytes;
};

// Fields as flash_runner.py has them.
struct Call {
  int64_t layout, batch, n1, n2, s1, s2, d, dv;
  int64_t dtype;  // 0 float16, 1 bfloat16, 2 float32
  int64_t sparse_mode, pre_tokens, next_tokens, pse_type, q_start, kv_start;
  double scale, keep_prob;
  int64_t mask_shape[4], pse_shape[4], mask_rank, pse_rank;
  int64_t cores, seed;
  Tensor query, key, value, pse, drop, mask, prefix, query_ends, key_ends, sink;
  Tensor output, softmax_max, softmax_sum;
};

nsa::SeqList list_of(const Tensor& tensor) {
  const auto* data = static_cast<const int64_t*>(tensor.data);
  return nsa::SeqList(data, data + tensor.bytes / 8);
}

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
  call.q_start = c.q_start;
  call.kv_start = c.kv_start;
  call.scale = static_cast<float>(c.scale);
  call.keep_prob = static_cast<float>(c.keep_prob);
  call.sink = c.sink.data != nullptr;
  return call;
}

}  // namespace

#define EXPORT extern "C" __attribute__((visibility("default")))

EXPORT void run_flash(const Call* c, runner::Result* result) {
  using runner::address;
  std::memset(result, 0, sizeof(*result));
  nsa::ascend::FlashAttentionScoreTilingData tiling;
  std::memset(static_cast<void*>(&tiling), runner::kGarbage, sizeof(tiling));
  const nsa::ascend::FlashCall call = call_of(*c);
  const int32_t cores = nsa::ascend::tile_flash_attention_score(
      call, static_cast<int32_t>(c->cores), nsa::ascend::kUbBytes, &tiling);
  std::vector<uint8_t> workspace(static_cast<size_t>(nsa::ascend::flash_attention_score_workspace(
                                     tiling, call.element_bytes, cores)),
                                 static_cast<uint8_t>(runner::kGarbage));
  runner::Launcher launcher("flash_attention_score", c->seed, result);
  const auto add = [&](const char* name, const Tensor& tensor, twin::Role role) {
    if (tensor.data != nullptr) launcher.add(name, tensor.data, tensor.bytes, role);
  };
  add("query", c->query, twin::Role::kInput);
  add("key", c->key, twin::Role::kInput);
  add("value", c->value, twin::Role::kInput);
  add("realShift", c->pse, twin::Role::kInput);
  add("dropMask", c->drop, twin::Role::kInput);
  add("attenMask", c->mask, twin::Role::kInput);
  add("prefix", c->prefix, twin::Role::kInput);
  add("actualSeqQLen", c->query_ends, twin::Role::kInput);
  add("actualSeqKvLen", c->key_ends, twin::Role::kInput);
  add("sink", c->sink, twin::Role::kInput);
  add("softmaxMax", c->softmax_max, twin::Role::kOutput);
  add("softmaxSum", c->softmax_sum, twin::Role::kOutput);
  add("attentionOut", c->output, twin::Role::kOutput);
  launcher.add("workspace", workspace.data(), static_cast<int64_t>(workspace.size()),
               twin::Role::kWorkspace);
  launcher.run(cores, tiling, [&] {
    const auto kernel = c->dtype == 0   ? flash_attention_score_float16
                        : c->dtype == 1 ? flash_attention_score_bfloat16
                                        : flash_attention_score_float32;
    kernel(address(c->query.data), address(c->key.data), address(c->value.data),
           address(c->pse.data), address(c->drop.data), nullptr, address(c->mask.data),
           address(c->prefix.data), address(c->query_ends.data), address(c->key_ends.data), nullptr,
           nullptr, address(c->sink.data), address(c->softmax_max.data),
           address(c->softmax_sum.data), nullptr, address(c->output.data), workspace.data(),
           address(&tiling));
  });
}
