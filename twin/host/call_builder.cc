#include "twin/host/call_builder.h"

#include <algorithm>
#include <cstring>
#include <iterator>
#include <type_traits>

#include "twin/host/device_memory.h"
#include "twin/host/log.h"
#include "twin/host/tiling.h"

namespace twin {

namespace {

constexpr uint64_t kCopyAlignment = 512;

[[noreturn]] void Fail(aclnnStatus status, const std::string& what) {
  throw CallError(status, what);
}

uint64_t RoundUp(uint64_t bytes) {
  return (bytes + kCopyAlignment - 1) / kCopyAlignment * kCopyAlignment;
}

bool IsNull(const std::variant<const aclTensor*, const aclIntArray*, const aclFloatArray*,
                               const aclBoolArray*>& value) {
  return std::visit([](auto* pointer) { return pointer == nullptr; }, value);
}

// The values of a list in the dtype that the definition gives the input.
struct ListValues {
  std::vector<uint64_t> words;
  size_t count;
};

template <class To, class From>
ListValues Convert(const std::vector<From>& values) {
  ListValues list{std::vector<uint64_t>((values.size() * sizeof(To) + 7) / 8), values.size()};
  for (size_t i = 0; i < values.size(); ++i) {
    const To value = static_cast<To>(values[i]);
    std::memcpy(reinterpret_cast<uint8_t*>(list.words.data()) + i * sizeof(To), &value, sizeof(To));
  }
  return list;
}

}  // namespace

void CheckView(const KernelArgument& argument) {
  const aclTensor& tensor = argument.tensor;
  const ElementRange range = RangeOf(tensor);
  if (range.begin == range.end) return;
  int64_t stored = 1;
  for (int64_t dim : tensor.storage_dims) stored *= dim;
  if (range.begin < 0 || range.end > stored) {
    Fail(kAclnnInvalid, argument.shown + " reaches from element " + std::to_string(range.begin) +
                            " to " + std::to_string(range.end - 1) + " of a storage of " +
                            std::to_string(stored) + " elements, shape " +
                            ShapeText(tensor.storage_dims));
  }
  if (tensor.data == nullptr) return;
  const int64_t bytes = DeviceBytesFrom(tensor.data);
  const uint64_t needed = static_cast<uint64_t>(range.end) * aclDataTypeSize(tensor.dtype);
  if (bytes < 0) Fail(kAclnnInvalid, argument.shown + " is not in device memory");
  if (static_cast<uint64_t>(bytes) < needed) {
    Fail(kAclnnInvalid, argument.shown + " needs " + std::to_string(needed) +
                            " bytes, its device memory has " + std::to_string(bytes));
  }
}

void CallBuilder::FindSpec() {
  spec_ = FindOperator(call_.op_type_);
  if (spec_ == nullptr) Fail(kAclnnNoKernel, std::string(call_.op_type_) + " is not registered");
  if (call_.inputs_.size() != spec_->inputs.size() ||
      call_.outputs_.size() != spec_->outputs.size() ||
      call_.attrs_.size() != spec_->attrs.size()) {
    Fail(kAclnnInvalid, "the arguments are not those of the definition of " + spec_->type);
  }
}

// The functions were generated from this definition.
void CallBuilder::CheckKinds() const {
  // In the order of OpCall's attribute values.
  constexpr struct {
    AttrKind kind;
    const char* name;
  } kKinds[] = {{AttrKind::kInt, "an int"},    {AttrKind::kFloat, "a float"},
                {AttrKind::kBool, "a bool"},   {AttrKind::kString, "a string"},
                {AttrKind::kListInt, "ints"},  {AttrKind::kListFloat, "floats"},
                {AttrKind::kListBool, "bools"}};
  for (size_t i = 0; i < spec_->attrs.size(); ++i) {
    const auto& got = kKinds[call_.attrs_[i].value.index()];
    if (got.kind == spec_->attrs[i].kind) continue;
    const auto* expected =
        std::find_if(std::begin(kKinds), std::end(kKinds),
                     [&](const auto& entry) { return entry.kind == spec_->attrs[i].kind; });
    Fail(kAclnnInvalid, std::string(call_.attrs_[i].name) + " must be " + expected->name +
                            " as in the definition of " + spec_->type + ", got " + got.name);
  }
}

void CallBuilder::CheckNull() const {
  const auto required = [](const char* name) {
    Fail(kAclnnNullptr, std::string(name) + " must not be null");
  };
  for (size_t i = 0; i < spec_->inputs.size(); ++i) {
    if (!spec_->inputs[i].optional && IsNull(call_.inputs_[i].value))
      required(call_.inputs_[i].name);
  }
  for (size_t i = 0; i < spec_->attrs.size(); ++i) {
    if (!spec_->attrs[i].required) continue;
    const bool null = std::visit(
        [](auto value) {
          if constexpr (std::is_pointer_v<decltype(value)>) return value == nullptr;
          return false;
        },
        call_.attrs_[i].value);
    if (null) required(call_.attrs_[i].name);
  }
  for (size_t i = 0; i < spec_->outputs.size(); ++i) {
    if (!spec_->outputs[i].optional && call_.outputs_[i].value == nullptr) {
      required(call_.outputs_[i].name);
    }
  }
}

// Throws for a handle that is not null and has been destroyed.
void CallBuilder::CheckExist() const {
  const auto check = [](const char* name, auto value) {
    using Value = decltype(value);
    if constexpr (std::is_pointer_v<Value> && !std::is_same_v<Value, const char*>) {
      if (value == nullptr || Exists(value)) return;
      Fail(kAclnnInvalid, std::string(name) + " does not exist, or has been destroyed");
    }
  };
  for (const auto& input : call_.inputs_) {
    std::visit([&](auto value) { check(input.name, value); }, input.value);
  }
  for (const auto& attr : call_.attrs_) {
    std::visit([&](auto value) { check(attr.name, value); }, attr.value);
  }
  for (const auto& output : call_.outputs_) check(output.name, output.value);
}

KernelArgument CallBuilder::MakeInput(size_t index) const {
  const ParamSpec& param = spec_->inputs[index];
  KernelArgument argument;
  argument.name = param.name;
  argument.shown = call_.inputs_[index].name;
  argument.present = !IsNull(call_.inputs_[index].value);
  if (param.ref >= 0) argument.ref = static_cast<int>(spec_->inputs.size()) + param.ref;
  if (!argument.present) return argument;
  const auto take = [&](ListValues list, aclDataType dtype) {
    argument.host_values = true;
    argument.values = std::move(list.words);
    argument.tensor.dims = argument.tensor.storage_dims = {static_cast<int64_t>(list.count)};
    argument.tensor.strides = {1};
    argument.tensor.dtype = dtype;
    argument.tensor.format = ACL_FORMAT_ND;
  };
  const auto& value = call_.inputs_[index].value;
  if (const auto* tensor = std::get_if<const aclTensor*>(&value)) {
    argument.tensor = **tensor;
  } else if (const auto* ints = std::get_if<const aclIntArray*>(&value)) {
    if (param.dtypes[0] == ge::DT_INT32) {
      take(Convert<int32_t>((*ints)->values), ACL_INT32);
    } else {
      take(Convert<int64_t>((*ints)->values), ACL_INT64);
    }
  } else if (const auto* floats = std::get_if<const aclFloatArray*>(&value)) {
    take(Convert<float>((*floats)->values), ACL_FLOAT);
  } else {
    take(Convert<uint8_t>(std::get<const aclBoolArray*>(value)->values), ACL_BOOL);
  }
  return argument;
}

void CallBuilder::AddArguments() {
  executor_->op_type = spec_->type;
  executor_->inputs = spec_->inputs.size();
  for (size_t i = 0; i < spec_->inputs.size(); ++i) executor_->arguments.push_back(MakeInput(i));
  for (size_t i = 0; i < spec_->outputs.size(); ++i) {
    KernelArgument argument;
    argument.name = spec_->outputs[i].name;
    argument.shown = call_.outputs_[i].name;
    argument.output = true;
    argument.ref = spec_->outputs[i].ref;
    argument.has_init_value = spec_->outputs[i].has_init_value;
    argument.init_value = spec_->outputs[i].init_value;
    argument.present = call_.outputs_[i].value != nullptr;
    if (argument.present) argument.tensor = *call_.outputs_[i].value;
    executor_->arguments.push_back(std::move(argument));
  }
}

const ParamSpec& CallBuilder::ParamOf(size_t argument) const {
  return argument < executor_->inputs ? spec_->inputs[argument]
                                      : spec_->outputs[argument - executor_->inputs];
}

namespace {

// Formats that only name the dimensions of a tensor lie in memory as ND does.
bool FormatFits(ge::Format defined, aclFormat got) {
  if (static_cast<int>(defined) == got) return true;
  constexpr aclFormat kLikeNd[] = {ACL_FORMAT_NCL, ACL_FORMAT_NCHW, ACL_FORMAT_NHWC,
                                   ACL_FORMAT_NCDHW};
  return defined == ge::FORMAT_ND &&
         std::find(std::begin(kLikeNd), std::end(kLikeNd), got) != std::end(kLikeNd);
}

}  // namespace

// The combination of the definition that has the dtypes and formats of the call.
void CallBuilder::ChooseCombination() {
  const auto& arguments = executor_->arguments;
  size_t best = 0;  // arguments that the best combination fits before the first that it does not
  for (combination_ = 0; combination_ < spec_->combinations; ++combination_) {
    size_t fitting = 0;
    for (; fitting < arguments.size(); ++fitting) {
      const KernelArgument& argument = arguments[fitting];
      if (!argument.present) continue;
      const ParamSpec& param = ParamOf(fitting);
      if (static_cast<int>(param.dtypes[combination_]) != argument.tensor.dtype) break;
      if (!FormatFits(param.formats[combination_], argument.tensor.format)) break;
    }
    if (fitting == arguments.size()) return;
    best = std::max(best, fitting);
  }
  FailCombination(best);
}

void CallBuilder::FailCombination(size_t argument) const {
  const auto described = [](aclDataType dtype, aclFormat format) {
    return DTypeName(dtype) + (format == ACL_FORMAT_ND ? "" : " in format " + FormatName(format));
  };
  const ParamSpec& param = ParamOf(argument);
  std::string allowed;
  for (size_t i = 0; i < spec_->combinations; ++i) {
    const std::string one = described(static_cast<aclDataType>(param.dtypes[i]),
                                      static_cast<aclFormat>(param.formats[i]));
    if (allowed.find(one) == std::string::npos) allowed += (allowed.empty() ? "" : " or ") + one;
  }
  std::string others;
  for (const KernelArgument& other : executor_->arguments) {
    if (!other.present || &other == &executor_->arguments[argument]) continue;
    others += (others.empty() ? "" : ", ") + other.shown + " " + DTypeName(other.tensor.dtype);
  }
  const KernelArgument& wrong = executor_->arguments[argument];
  Fail(kAclnnInvalid, wrong.shown + " must be of dtype " + allowed +
                          " that goes with the other tensors, got " +
                          described(wrong.tensor.dtype, wrong.tensor.format) + " with " + others);
}

void CallBuilder::CheckMemory() const {
  for (size_t i = 0; i < executor_->arguments.size(); ++i) {
    const KernelArgument& argument = executor_->arguments[i];
    if (!argument.present || argument.host_values) continue;
    CheckView(argument);
    const aclTensor& tensor = argument.tensor;
    for (size_t axis = 0; argument.output && axis < tensor.dims.size(); ++axis) {
      if (tensor.dims[axis] == 1 || tensor.strides[axis] != 0) continue;
      Fail(kAclnnInvalid, argument.shown + " has stride 0 in dimension " + std::to_string(axis) +
                              ": its elements would be written to one place");
    }
    const ParamSpec* input = i < executor_->inputs ? &spec_->inputs[i] : nullptr;
    if (input != nullptr && !IsContiguous(tensor) && !input->auto_contiguous) {
      Fail(kAclnnInvalid, argument.shown +
                              " has gaps between its elements, and its definition "
                              "does not say AutoContiguous");
    }
  }
}

// A call without a result is tiled too, which checks it.
void CallBuilder::Tile() {
  executor_->launch = spec_->launch_empty;
  for (const KernelArgument& argument : executor_->arguments) {
    if (!argument.output || !argument.present) continue;
    executor_->launch = executor_->launch || ElementCount(argument.tensor) > 0;
  }
  executor_->kernel = FindKernel(spec_->type, combination_);
  if (executor_->kernel == nullptr) {
    Fail(kAclnnNoKernel, spec_->type + " has no kernel for these dtypes");
  }
  gert::ComputeNodeInfo node(spec_->type, spec_->type);
  for (size_t i = 0; i < spec_->attrs.size(); ++i) {
    std::visit([&](auto value) { AppendAttr(spec_->attrs[i], value, &node.MutableAttrs()); },
               call_.attrs_[i].value);
  }
  const uint64_t errors = ErrorCount();
  const TilingStatus status = RunTiling(*spec_, *executor_, &node, &executor_->tiled);
  if (status.code == ACL_SUCCESS) return;
  // The operator has said why; it is not said twice.
  Fail(status.code, ErrorCount() > errors ? "" : status.what);
}

// Places the contiguous copies of tensors with gaps behind the operator's own workspace.
void CallBuilder::PlanCopies() {
  if (!executor_->launch) return;
  uint64_t end = executor_->tiled.workspace_bytes;
  for (KernelArgument& argument : executor_->arguments) {
    if (!argument.present || argument.host_values || IsContiguous(argument.tensor)) continue;
    if (argument.output && argument.ref >= 0) {
      argument.copy_offset = executor_->arguments[argument.ref].copy_offset;
      continue;
    }
    end = RoundUp(end);
    argument.copy_offset = static_cast<int64_t>(end);
    end += ByteCount(argument.tensor);
  }
  executor_->workspace_bytes = end;
}

std::unique_ptr<aclOpExecutor> CallBuilder::Build() {
  FindSpec();
  CheckKinds();
  CheckNull();
  CheckExist();
  AddArguments();
  ChooseCombination();
  CheckMemory();
  Tile();
  PlanCopies();
  return std::move(executor_);
}

}  // namespace twin
