#include "twin/host/tiling.h"

#include <cstring>
#include <deque>
#include <memory>

#include "twin/host/machine.h"

namespace twin {

namespace {

// Far more than a kernel should read: every core copies the data to its stack.
constexpr size_t kTilingCapacity = 32 * 1024;

template <class T>
void AppendList(const std::vector<T>& values, gert::RuntimeAttrs* attrs) {
  std::vector<uint8_t> bytes(sizeof(gert::ContinuousVector) + values.size() * sizeof(T));
  gert::ContinuousVector head;
  head.Init(values.size());
  head.SetSize(values.size());
  std::memcpy(bytes.data(), &head, sizeof(head));
  if (!values.empty()) {
    std::memcpy(bytes.data() + sizeof(head), values.data(), values.size() * sizeof(T));
  }
  attrs->Append(bytes.data(), bytes.size());
}

void SetShape(const std::vector<int64_t>& dims, gert::Shape* shape) {
  shape->SetDimNum(0);
  for (int64_t dim : dims) shape->AppendDim(dim);
}

gert::StorageShape StorageShapeOf(const aclTensor& tensor) {
  // A tensor with gaps reaches the kernel as a contiguous one, whose storage is the view.
  gert::StorageShape shape;
  SetShape(tensor.dims, &shape.MutableOriginShape());
  SetShape(tensor.dims, &shape.MutableStorageShape());
  return shape;
}

gert::StorageFormat FormatOf(const aclTensor& tensor) {
  const auto format = static_cast<ge::Format>(tensor.format);
  return {format, format};
}

gert::CompileTimeTensorDesc DescOf(const aclTensor& tensor) {
  return {static_cast<ge::DataType>(tensor.dtype), FormatOf(tensor)};
}

using CompileInfo = std::unique_ptr<void, void (*)(void*)>;

CompileInfo ParseOnce(const OpSpec& spec, gert::ComputeNodeInfo* node, fe::PlatFormInfos* platform,
                      ge::graphStatus* status) {
  *status = ge::GRAPH_SUCCESS;
  CompileInfo info(nullptr, [](void*) {});
  if (spec.create_compile_info == nullptr) return info;
  info = CompileInfo(spec.create_compile_info(), spec.delete_compile_info);
  gert::TilingParseContext context(node, info.get(), platform);
  *status = spec.tiling_parse(&context);
  return info;
}

std::string CheckTiled(const gert::TilingContext& context, const fe::PlatFormInfos& platform,
                       const Tiled& tiled) {
  constexpr uint32_t kAllAtOnce = 1;
  if (tiled.blocks == 0) return "tiling has set no block dim";
  if (tiled.blocks > 65535) {
    return "tiling has set block dim " + std::to_string(tiled.blocks) + ", more than 65535";
  }
  if (context.GetWorkspaceNum() == 0) return "tiling has set no workspace size";
  if (tiled.workspace_bytes < kLibraryWorkspaceBytes) {
    return "tiling has set a workspace of " + std::to_string(tiled.workspace_bytes) +
           " bytes; GetLibApiWorkSpaceSize() alone is " + std::to_string(kLibraryWorkspaceBytes);
  }
  if (tiled.schedule_mode == kAllAtOnce && tiled.blocks > platform.vector_cores) {
    return "tiling wants all of " + std::to_string(tiled.blocks) + " blocks to run at once, on " +
           std::to_string(platform.vector_cores) + " vector cores";
  }
  return "";
}

}  // namespace

void AppendAttr(const AttrSpec& spec, int64_t value, gert::RuntimeAttrs* attrs) {
  if (spec.kind == AttrKind::kBool) return AppendAttr(spec, value != 0, attrs);
  attrs->Append(&value, sizeof(value));
}

void AppendAttr(const AttrSpec&, double value, gert::RuntimeAttrs* attrs) {
  const float narrow = static_cast<float>(value);
  attrs->Append(&narrow, sizeof(narrow));
}

void AppendAttr(const AttrSpec&, bool value, gert::RuntimeAttrs* attrs) {
  attrs->Append(&value, sizeof(value));
}

void AppendAttr(const AttrSpec& spec, const char* value, gert::RuntimeAttrs* attrs) {
  const char* text = value == nullptr ? spec.string_value.c_str() : value;
  attrs->Append(text, std::strlen(text) + 1);
}

void AppendAttr(const AttrSpec& spec, const aclIntArray* value, gert::RuntimeAttrs* attrs) {
  AppendList(value == nullptr ? spec.int_values : value->values, attrs);
}

void AppendAttr(const AttrSpec& spec, const aclFloatArray* value, gert::RuntimeAttrs* attrs) {
  AppendList(value == nullptr ? spec.float_values : value->values, attrs);
}

void AppendAttr(const AttrSpec& spec, const aclBoolArray* value, gert::RuntimeAttrs* attrs) {
  AppendList(value == nullptr ? spec.bool_values : value->values, attrs);
}

TilingStatus RunTiling(const OpSpec& spec, const aclOpExecutor& executor,
                       gert::ComputeNodeInfo* node, Tiled* tiled) {
  if (spec.tiling == nullptr) return {kAclnnTiling, spec.type + " has no tiling function"};
  fe::PlatFormInfos platform = CurrentMachine().info;
  gert::TilingData data(kTilingCapacity);
  std::deque<gert::Tensor> tensors;
  gert::TilingContext::Call call;
  for (size_t i = 0; i < executor.arguments.size(); ++i) {
    const KernelArgument& argument = executor.arguments[i];
    if (i >= executor.inputs) {
      node->AddOutput(DescOf(argument.tensor));
      call.outputs.push_back(StorageShapeOf(argument.tensor));
    } else if (!argument.present) {
      node->AddAbsentInput();
      call.inputs.push_back(nullptr);
    } else {
      node->AddInput(DescOf(argument.tensor));
      void* values = argument.host_values ? const_cast<uint64_t*>(argument.values.data()) : nullptr;
      tensors.emplace_back(StorageShapeOf(argument.tensor), FormatOf(argument.tensor),
                           argument.host_values ? gert::kOnHost : gert::kOnDeviceHbm,
                           static_cast<ge::DataType>(argument.tensor.dtype), values);
      call.inputs.push_back(&tensors.back());
    }
  }
  ge::graphStatus status = ge::GRAPH_SUCCESS;
  const CompileInfo compile_info = ParseOnce(spec, node, &platform, &status);
  call.compile_info = compile_info.get();
  call.platform = &platform;
  call.tiling_data = &data;
  gert::TilingContext context(node, std::move(call));
  if (status == ge::GRAPH_SUCCESS) status = spec.tiling(&context);
  if (status != ge::GRAPH_SUCCESS) {
    return {status == ge::GRAPH_PARAM_INVALID ? kAclnnInvalid : kAclnnTiling,
            "the tiling function of " + spec.type + " has returned " + std::to_string(status)};
  }
  tiled->blocks = context.GetBlockDim();
  tiled->key = context.GetTilingKey();
  tiled->schedule_mode = context.GetScheduleMode();
  tiled->data_bytes = data.GetDataSize();
  tiled->data.resize((data.GetDataSize() + sizeof(uint64_t) - 1) / sizeof(uint64_t));
  if (!tiled->data.empty()) std::memcpy(tiled->data.data(), data.GetData(), tiled->data_bytes);
  for (size_t bytes : context.workspaces()) tiled->workspace_bytes += bytes;
  const std::string wrong = CheckTiled(context, platform, *tiled);
  return wrong.empty() ? TilingStatus{} : TilingStatus{kAclnnTiling, wrong};
}

}  // namespace twin
