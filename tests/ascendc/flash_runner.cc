// Launches FlashAttentionScore and its gradient on the twin: the tiling of op_host, then the kernel
// on as many cores as asked for. Driven by flash_runner.py through ctypes.
#include <vector>

#include "ascendc/flash_attention_score/op_host/flash_attention_score_tiling.h"
#include "ascendc/flash_attention_score_grad/op_host/flash_attention_score_grad_tiling.h"
#include "tests/ascendc/launcher.h"

// A kernel source is compiled once per dtype, as CANN does it.
#define DTYPE_QUERY half
#define flash_attention_score flash_attention_score_float16
#define flash_attention_score_grad flash_attention_score_grad_float16
#include "ascendc/flash_attention_score/op_kernel/flash_attention_score.cpp"
#include "ascendc/flash_attention_score_grad/op_kernel/flash_attention_score_grad.cpp"
#undef DTYPE_QUERY
#undef flash_attention_score
#undef flash_attention_score_grad
#define DTYPE_QUERY bfloat16_t
#define flash_attention_score flash_attention_score_bfloat16
#define flash_attention_score_grad flash_attention_score_grad_bfloat16
#include "ascendc/flash_attention_score/op_kernel/flash_attention_score.cpp"
#include "ascendc/flash_attention_score_grad/op_kernel/flash_attention_score_grad.cpp"
#undef DTYPE_QUERY
#undef flash_attention_score
#undef flash_attention_score_grad
#define DTYPE_QUERY float
#define flash_attention_score flash_attention_score_float32
#define flash_attention_score_grad flash_attention_score_grad_float32
#include "ascendc/flash_attention_score/op_kernel/flash_attention_score.cpp"
#include "ascendc/flash_attention_score_grad/op_kernel/flash_attention_score_grad.cpp"
#undef flash_attention_score
#undef flash_attention_score_grad

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
  int64_t wants_pse_grad, compress_block, compress_stride, cores, seed;
  Tensor query, key, value, pse, drop, mask, prefix, query_ends, key_ends, sink;
  Tensor output, softmax_max, softmax_sum;  // inputs of the gradient
  Tensor output_grad, offsets, query_grad, key_grad, value_grad, pse_grad, sink_grad;
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
  call.pse_grad = c.wants_pse_grad != 0;
  call.compress_block = c.compress_block;
  call.compress_stride = c.compress_stride;
  call.query_offsets = list_of(c.offsets);
  return call;
}

using runner::address;
using twin::Role;

// What the operator and its gradient are both given.
void add_shared(runner::Launcher* launcher, const Call& c, Role results) {
  const auto add = [&](const char* name, const Tensor& tensor, Role role) {
    if (tensor.data != nullptr) launcher->add(name, tensor.data, tensor.bytes, role);
  };
  add("query", c.query, Role::kInput);
  add("key", c.key, Role::kInput);
  add("value", c.value, Role::kInput);
  add("realShift", c.pse, Role::kInput);
  add("dropMask", c.drop, Role::kInput);
  add("attenMask", c.mask, Role::kInput);
  add("prefix", c.prefix, Role::kInput);
  add("actualSeqQLen", c.query_ends, Role::kInput);
  add("actualSeqKvLen", c.key_ends, Role::kInput);
  add("sink", c.sink, Role::kInput);
  add("softmaxMax", c.softmax_max, results);
  add("softmaxSum", c.softmax_sum, results);
  add("attentionOut", c.output, results);
}

// Memory of that many bytes, which holds garbage.
std::vector<uint8_t> workspace_of(int64_t bytes) {
  return std::vector<uint8_t>(static_cast<size_t>(bytes), static_cast<uint8_t>(runner::kGarbage));
}

}  // namespace

#define EXPORT extern "C" __attribute__((visibility("default")))

EXPORT void run_flash(const Call* c, runner::Result* result) {
  std::memset(result, 0, sizeof(*result));
  nsa::ascend::FlashAttentionScoreTilingData tiling;
  std::memset(static_cast<void*>(&tiling), runner::kGarbage, sizeof(tiling));
  const nsa::ascend::FlashCall call = call_of(*c);
  const int32_t cores = nsa::ascend::tile_flash_attention_score(
      call, static_cast<int32_t>(c->cores), nsa::ascend::kUbBytes, &tiling);
  std::vector<uint8_t> workspace =
      workspace_of(nsa::ascend::flash_attention_score_workspace(tiling, call.element_bytes, cores));
  runner::Launcher launcher("flash_attention_score", c->seed, result);
  add_shared(&launcher, *c, Role::kOutput);
  launcher.add("workspace", workspace.data(), static_cast<int64_t>(workspace.size()),
               Role::kWorkspace);
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

EXPORT void run_flash_grad(const Call* c, runner::Result* result) {
  std::memset(result, 0, sizeof(*result));
  nsa::ascend::FlashAttentionScoreGradTilingData tiling;
  std::memset(static_cast<void*>(&tiling), runner::kGarbage, sizeof(tiling));
  const nsa::ascend::FlashCall call = call_of(*c);
  const int32_t cores = nsa::ascend::tile_flash_attention_score_grad(
      call, static_cast<int32_t>(c->cores), nsa::ascend::kUbBytes, &tiling);
  std::vector<uint8_t> workspace = workspace_of(
      nsa::ascend::flash_attention_score_grad_workspace(tiling, call.element_bytes, cores));
  runner::Launcher launcher("flash_attention_score_grad", c->seed, result);
  add_shared(&launcher, *c, Role::kInput);
  launcher.add("dy", c->output_grad.data, c->output_grad.bytes, Role::kInput);
  if (c->offsets.data != nullptr)
    launcher.add("qOffset", c->offsets.data, c->offsets.bytes, Role::kInput);
  launcher.add("dq", c->query_grad.data, c->query_grad.bytes, Role::kOutput);
  launcher.add("dk", c->key_grad.data, c->key_grad.bytes, Role::kOutput);
  launcher.add("dv", c->value_grad.data, c->value_grad.bytes, Role::kOutput);
  launcher.add("dpse", c->pse_grad.data, c->pse_grad.bytes, Role::kOutput);
  launcher.add("dsink", c->sink_grad.data, c->sink_grad.bytes, Role::kOutput);
  launcher.add("workspace", workspace.data(), static_cast<int64_t>(workspace.size()),
               Role::kWorkspace);
  launcher.run(cores, tiling, [&] {
    const auto kernel = c->dtype == 0   ? flash_attention_score_grad_float16
                        : c->dtype == 1 ? flash_attention_score_grad_bfloat16
                                        : flash_attention_score_grad_float32;
    kernel(address(c->query.data), address(c->key.data), address(c->value.data),
           address(c->output_grad.data), address(c->pse.data), address(c->drop.data), nullptr,
           address(c->mask.data), address(c->softmax_max.data), address(c->softmax_sum.data),
           nullptr, address(c->output.data), address(c->prefix.data), address(c->query_ends.data),
           address(c->key_ends.data), nullptr, nullptr, address(c->sink.data),
           address(c->offsets.data), address(c->query_grad.data), address(c->key_grad.data),
           address(c->value_grad.data), address(c->pse_grad.data), address(c->sink_grad.data),
           workspace.data(), address(&tiling));
  });
}
