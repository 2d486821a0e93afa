#include "binding/op_call.h"

#include <cstdint>
#include <new>
#include <string>
#include <utility>

#include "cpu/runtime.h"

namespace nsa {

namespace {

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

void describe(const OpSchema& op_schema, const std::vector<CallTensor>& inputs, Described& all) {
  all.descs.resize(inputs.size());
  all.lists.resize(inputs.size());
  for (size_t i = 0; i < inputs.size(); ++i) {
    TensorDesc& desc = all.descs[i];
    desc.present = inputs[i].present;
    desc.values = nullptr;
    desc.dtype = desc.present ? inputs[i].dtype : DType::kUnknown;
    desc.shape.clear();
    if (!desc.present) continue;
    desc.shape = inputs[i].shape;
    const bool is_list = i < op_schema.inputs.size() && op_schema.inputs[i].list();
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

// That of the standard library has no text of its own: nobody would know which call it was.
class NoMemory : public std::bad_alloc {
 public:
  explicit NoMemory(std::string text) : text_(std::move(text)) {}
  const char* what() const noexcept override { return text_.c_str(); }

 private:
  std::string text_;
};

void run_on_cpu(const CheckedCall& call) {
  const OpEntry& entry = op_entry(call.context.op());
  const cpu::SingleThread single(entry.work(call) < kSingleThreadWork);
  cpu::start_team();
  try {
    entry.run(call);
  } catch (const std::bad_alloc&) {
    throw NoMemory(std::string(call.context.function()) +
                   ": no memory for the scratch of the call");
  }
}

}  // namespace

const OpEntry& op_entry(OpId op) {
  // In the order of OpId.
  static constexpr const OpEntry* kEntries[] = {
#define NSA_OP_ENTRY(op, function, outputs) &function##_entry,
      NSA_OPERATORS(NSA_OP_ENTRY)
#undef NSA_OP_ENTRY
  };
  return *kEntries[static_cast<size_t>(op)];
}

const Backend kCpuBackend{Target::kCpu, run_on_cpu};

void call(std::string_view op, const std::vector<CallTensor>& inputs,
          const std::vector<CallTensor>& outputs, const Attrs& attrs, const Backend& backend) {
  const OpSchema& op_schema = schema(op);
  thread_local Described all;
  describe(op_schema, inputs, all);
  const Context context(op_schema, all.descs, attrs, backend.rules);
  check_outputs(op_schema, outputs, infer(context));
  const CheckedCall checked{context, all.descs, inputs, outputs, attrs};
  const OpEntry& entry = op_entry(op_schema.id);
  if (entry.check_contents != nullptr) entry.check_contents(checked);
  backend.run(checked);
}

}  // namespace nsa
