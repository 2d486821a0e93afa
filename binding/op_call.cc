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
void copy_list(const TensorDesc& tensor, SeqList& list) {
  const T* data = static_cast<const T*>(tensor.data);
  const int64_t size = tensor.shape.size() == 1 ? tensor.shape[0] : 0;
  list.assign(data, data + size);
}

// Gives the inputs that are lists their values, which `lists` keeps.
void read_lists(const OpSchema& op_schema, std::vector<TensorDesc>& inputs,
                std::vector<SeqList>& lists) {
  lists.resize(inputs.size());
  for (size_t i = 0; i < inputs.size() && i < op_schema.inputs.size(); ++i) {
    TensorDesc& input = inputs[i];
    input.values = nullptr;
    if (!input.present || !op_schema.inputs[i].list()) continue;
    // A list of another dtype stays without values: the rules reject its dtype first.
    if (input.dtype == DType::kInt64) {
      copy_list<int64_t>(input, lists[i]);
    } else if (input.dtype == DType::kInt32) {
      copy_list<int32_t>(input, lists[i]);
    } else {
      continue;
    }
    input.values = &lists[i];
  }
}

void check_outputs(const OpSchema& schema, const std::vector<TensorDesc>& outputs,
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

// std::bad_alloc has no text of its own: nobody would know which call it was.
class NoMemory : public std::bad_alloc {
 public:
  explicit NoMemory(std::string text) : text_(std::move(text)) {}
  const char* what() const noexcept override { return text_.c_str(); }

 private:
  std::string text_;
};

void run_on_cpu(const CheckedCall& call) {
  const CpuKernelEntry& entry = cpu_kernel_entry(call.context.op());
  const cpu::SingleThread single(entry.work(call) < kSingleThreadWork);
  cpu::start_team();
  try {
    entry.run_kernel(call);
  } catch (const std::bad_alloc&) {
    throw NoMemory(std::string(call.context.function()) +
                   ": no memory for the scratch of the call");
  }
}

}  // namespace

const CpuKernelEntry& cpu_kernel_entry(OpId op) {
  // In the order of OpId.
  static constexpr const CpuKernelEntry* kEntries[] = {
#define NSA_OP_ENTRY(op, function, outputs) &function##_entry,
      NSA_OPERATORS(NSA_OP_ENTRY)
#undef NSA_OP_ENTRY
  };
  return *kEntries[static_cast<size_t>(op)];
}

const Backend kCpuBackend{Target::kCpu, run_on_cpu};

void check_and_run(const BoundAttrs& attrs, std::vector<TensorDesc>& inputs,
                   const std::vector<TensorDesc>& outputs, const Backend& backend) {
  const OpSchema& op_schema = attrs.schema();
  thread_local std::vector<SeqList> lists;  // for its memory
  read_lists(op_schema, inputs, lists);
  const Context context(attrs, inputs, backend.rules);
  check_outputs(op_schema, outputs, infer(context));
  const CheckedCall checked{context, outputs};
  const CpuKernelEntry& entry = cpu_kernel_entry(op_schema.id);
  if (entry.check_contents != nullptr) entry.check_contents(checked);
  backend.run_checked(checked);
}

}  // namespace nsa
