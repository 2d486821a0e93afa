// Launches NsaSelectedAttention and its gradient on the twin: the tiling of op_host, then the
// kernel on as many cores as asked for. Driven by selected_runner.py through ctypes.
#include <vector>

#include "ascendc/nsa_selected_attention/op_host/nsa_selected_attention_tiling.h"
#include "ascendc/nsa_selected_attention_grad/op_host/nsa_selected_attention_grad_tiling.h"
#include "tests/ascendc/launcher.h"

// A kernel source is compiled once per dtype, as CANN does it.
#define DTYPE_QUERY half
#define nsa_selected_attention nsa_selected_attention_float16
#define nsa_selected_attention_grad nsa_selected_attention_grad_float16
#include "ascendc/nsa_selected_attention/op_kernel/nsa_selected_attention.cpp"
#include "ascendc/nsa_selected_attention_grad/op_kernel/nsa_selected_attention_grad.cpp"
#undef DTYPE_QUERY
#undef nsa_selected_attention
#undef nsa_selected_attention_grad
#define DTYPE_QUERY bfloat16_t
#define nsa_selected_attention nsa_selected_attention_bfloat16
#define nsa_selected_attention_grad nsa_selected_attention_grad_bfloat16
#include "ascendc/nsa_selected_attention/op_kernel/nsa_selected_attention.cpp"
#include "ascendc/nsa_selected_attention_grad/op_kernel/nsa_selected_attention_grad.cpp"
#undef nsa_selected_attention
#undef nsa_selected_attention_grad

namespace {

struct Tensor {
  const void* data;
  int64_t bytes;
};

// Fields as selected_runner.py has them.
struct Call {
  int64_t t1, t2, n1, n2, d, dv, bfloat16, block_size, block_count, causal, tile_queries, cores,
      seed;
  double scale;
  Tensor query, key, value, indices, query_ends, key_ends, offsets;
  Tensor output, softmax_max, softmax_sum;  // inputs of the gradient
  Tensor output_grad, query_grad, key_grad, value_grad;
};

nsa::SeqList list_of(const Tensor& tensor) {
  const auto* data = static_cast<const int64_t*>(tensor.data);
  return nsa::SeqList(data, data + tensor.bytes / 8);
}

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
  call.block_size = c.block_size;
  call.block_count = c.block_count;
  call.causal = c.causal != 0;
  call.scale = static_cast<float>(c.scale);
  call.tile_queries = c.tile_queries;
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
  add("topkIndices", c.indices, Role::kInput);
  add("actualSeqQLen", c.query_ends, Role::kInput);
  add("actualSeqKvLen", c.key_ends, Role::kInput);
  add("qOffset", c.offsets, Role::kInput);
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

EXPORT void run_selected(const Call* c, runner::Result* result) {
  std::memset(result, 0, sizeof(*result));
  nsa::ascend::NsaSelectedAttentionTilingData tiling;
  std::memset(static_cast<void*>(&tiling), runner::kGarbage, sizeof(tiling));
  const int32_t cores = nsa::ascend::tile_nsa_selected_attention(
      call_of(*c), static_cast<int32_t>(c->cores), nsa::ascend::kUbBytes, &tiling);
  std::vector<uint8_t> workspace =
      workspace_of(nsa::ascend::nsa_selected_attention_workspace(tiling, cores));
  runner::Launcher launcher("nsa_selected_attention", c->seed, result);
  add_shared(&launcher, *c, Role::kOutput);
  launcher.add("workspace", workspace.data(), static_cast<int64_t>(workspace.size()),
               Role::kWorkspace);
  launcher.run(cores, tiling, [&] {
    const auto kernel =
        c->bfloat16 != 0 ? nsa_selected_attention_bfloat16 : nsa_selected_attention_float16;
    kernel(address(c->query.data), address(c->key.data), address(c->value.data),
           address(c->indices.data), nullptr, address(c->query_ends.data),
           address(c->key_ends.data), address(c->offsets.data), address(c->softmax_max.data),
           address(c->softmax_sum.data), address(c->output.data), workspace.data(),
           address(&tiling));
  });
}

EXPORT void run_selected_grad(const Call* c, runner::Result* result) {
  std::memset(result, 0, sizeof(*result));
  nsa::ascend::NsaSelectedAttentionGradTilingData tiling;
  std::memset(static_cast<void*>(&tiling), runner::kGarbage, sizeof(tiling));
  const int32_t cores = nsa::ascend::tile_nsa_selected_attention_grad(
      call_of(*c), static_cast<int32_t>(c->cores), &tiling);
  std::vector<uint8_t> workspace =
      workspace_of(nsa::ascend::nsa_selected_attention_grad_workspace(tiling, cores));
  runner::Launcher launcher("nsa_selected_attention_grad", c->seed, result);
  add_shared(&launcher, *c, Role::kInput);
  launcher.add("attentionOutGrad", c->output_grad.data, c->output_grad.bytes, Role::kInput);
  launcher.add("dq", c->query_grad.data, c->query_grad.bytes, Role::kOutput);
  launcher.add("dk", c->key_grad.data, c->key_grad.bytes, Role::kOutput);
  launcher.add("dv", c->value_grad.data, c->value_grad.bytes, Role::kOutput);
  launcher.add("workspace", workspace.data(), static_cast<int64_t>(workspace.size()),
               Role::kWorkspace);
  launcher.run(cores, tiling, [&] {
    const auto kernel = c->bfloat16 != 0 ? nsa_selected_attention_grad_bfloat16
                                         : nsa_selected_attention_grad_float16;
    kernel(address(c->query.data), address(c->key.data), address(c->value.data),
           address(c->output.data), address(c->output_grad.data), address(c->softmax_max.data),
           address(c->softmax_sum.data), address(c->indices.data), address(c->query_ends.data),
           address(c->key_ends.data), nullptr, address(c->offsets.data),
           address(c->query_grad.data), address(c->key_grad.data), address(c->value_grad.data),
           workspace.data(), address(&tiling));
  });
}
