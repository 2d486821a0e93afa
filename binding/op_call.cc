#include "binding/op_call.h"

#include <algorithm>
#include <cstdint>
#include <string>

#include "cpu/runtime.h"

namespace nsa {

namespace {

void run_kernel(OpId op, const CheckedCall& call) {
  switch (op) {
    case OpId::kNsaCompress:
      return call_nsa_compress(call);
    case OpId::kNsaCompressGrad:
      return call_nsa_compress_grad(call);
    case OpId::kNsaCompressAttention:
      return call_nsa_compress_attention(call);
    case OpId::kNsaSelectedAttention:
      return call_nsa_selected_attention(call);
    case OpId::kNsaSelectedAttentionGrad:
      return call_nsa_selected_attention_grad(call);
    case OpId::kFlashAttentionScore:
      return call_flash_attention_score(call);
    case OpId::kFlashAttentionScoreGrad:
      return call_flash_attention_score_grad(call);
    case OpId::kNsaDropoutMask:
      return call_dropout_mask(call);
  }
}

// Multiplications of a call, at most; those of a gradient's recomputation are not counted.
int64_t work_of(const CheckedCall& call) {
  const Context& c = call.context;
  const auto elements = [&](size_t input) { return numel(call.descs[input]); };
  switch (c.op()) {
    case OpId::kNsaCompress:
    case OpId::kNsaCompressGrad: {
      const size_t input = c.op() == OpId::kNsaCompress ? 0 : 1;
      const int64_t uses =
          ceil_div(c.int_attr("compress_block_size"), c.int_attr("compress_stride"));
      return product({elements(input), uses});
    }
    case OpId::kNsaCompressAttention:
      return product({elements(0), call.dim(1, 0)});
    case OpId::kNsaSelectedAttention:
    case OpId::kNsaSelectedAttentionGrad: {
      const int64_t gathered =
          product({c.int_attr("select_block_size"), c.int_attr("select_block_count")});
      return product({elements(0), gathered});
    }
    case OpId::kFlashAttentionScore:
    case OpId::kFlashAttentionScoreGrad: {
      // One of the key's dimensions but the last is S2, in every layout.
      const std::vector<int64_t>& key = call.inputs[1].shape;
      return product({elements(0), *std::max_element(key.begin(), key.end() - 1)});
    }
    case OpId::kNsaDropoutMask:
      return c.int_attr("numel");
  }
  return INT64_MAX;
}

// One core takes some tens of microseconds for this much, which is what a team of threads costs on
// a busy machine.
constexpr int64_t kSingleThreadWork = 1 << 16;

template <class T>
void copy_list(const CallTensor& tensor, SeqList& list) {
  const T* data = static_cast<const T*>(tensor.data);
  const int64_t size = tensor.shape.size() == 1 ? tensor.shape[0] : 0;
  list.assign(data, data + size);
}

// What the rules see of a call's inputs; kept per thread, for its memory.
struct Described {
  std::vector<TensorDesc> descs;
  std::vector<SeqList> lists;  // of the inputs that are lists
};

void describe(const OpSchema& op_schema, const std::vector<CallTensor>& inputs, int64_t present,
              Described& all) {
  all.descs.resize(inputs.size());
  all.lists.resize(inputs.size());
  for (size_t i = 0; i < inputs.size(); ++i) {
    TensorDesc& desc = all.descs[i];
    desc.present = inputs[i].present && ((present >> i) & 1) != 0;
    desc.values = nullptr;
    desc.dtype = desc.present ? inputs[i].dtype : DType::kUnknown;
    desc.shape.clear();
    if (!desc.present) continue;
    desc.shape = inputs[i].shape;
    const bool is_list = i < op_schema.inputs.size() && op_schema.inputs[i].list;
    if (!is_list) continue;
    // A list of another dtype stays without values: the rules reject its dtype first.
    if (desc.dtype == DType::kInt64) {
      copy_list<int64_t>(inputs[i], all.lists[i]);
    } else if (desc.dtype == DType::kInt32) {
      copy_list<int32_t>(inputs[i], all.lists[i]);
    } else {
      continue;
    }
    desc.values = &all.lists[i];
  }
}

void check_outputs(const OpSchema& schema, const std::vector<CallTensor>& outputs,
                   const std::vector<OutputDesc>& expected) {
  const std::string function = schema.function;
  if (outputs.size() != expected.size()) {
    throw OpError(OpError::kValue, function + ": outputs must be " +
                                       std::to_string(expected.size()) + ", got " +
                                       std::to_string(outputs.size()));
  }
  for (size_t i = 0; i < outputs.size(); ++i) {
    if (outputs[i].dtype == expected[i].dtype && outputs[i].shape == expected[i].shape) continue;
    const auto describe = [](DType dtype, const std::vector<int64_t>& shape) {
      return std::string(dtype_name(dtype)) + " " + format_shape(shape);
    };
    throw OpError(OpError::kValue, function + ": " + schema.outputs[i] + " must be " +
                                       describe(expected[i].dtype, expected[i].shape) + ", got " +
                                       describe(outputs[i].dtype, outputs[i].shape));
  }
}

void run_on_cpu(const CheckedCall& call) {
  const cpu::SingleThread single(work_of(call) < kSingleThreadWork);
  cpu::start_team();
  run_kernel(call.context.op(), call);
}

}  // namespace

const Kernels kCpuKernels{Target::kCpu, run_on_cpu};

void call(std::string_view op, const std::vector<CallTensor>& inputs,
          const std::vector<CallTensor>& outputs, const Attrs& attrs, const Kernels& kernels) {
  const OpSchema& op_schema = schema(op);
  thread_local Described all;
  describe(op_schema, inputs, attrs.get_int(kPresentAttr, -1), all);
  const Context context(op_schema, all.descs, attrs, kernels.rules);
  check_outputs(op_schema, outputs, infer(context));
  kernels.run({context, all.descs, inputs, outputs, attrs});
}

}  // namespace nsa
