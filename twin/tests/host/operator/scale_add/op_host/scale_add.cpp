// ScaleAdd: y = a * x + b * z + offset, in the dtype of x. The offset is the sum of the steps, and
// of offsets[i] * weights[i] where used[i]. An operator for tests of the host side: each of its
// parts goes another way than the project's operators do.
#include <algorithm>
#include <cstring>

#include "log/log.h"
#include "register/op_def_registry.h"
#include "register/op_impl_registry.h"
#include "scale_add_tiling.h"
#include "tiling/platform/platform_ascendc.h"

namespace optiling {

enum Input : size_t { kX, kZ, kSteps };
enum Attr : size_t { kA, kB, kNegate, kOffsets, kWeights, kUsed, kWay, kMode };

// In ways of running the kernel.
constexpr int64_t kThroughWorkspace = 4, kSilentFailure = 13;

struct ScaleAddCompileInfo {
  uint32_t cores = 0;
  uint64_t ub_bytes = 0;
};

static ge::graphStatus Parse(gert::TilingParseContext* context) {
  auto* info = context->GetCompiledInfo<ScaleAddCompileInfo>();
  const platform_ascendc::PlatformAscendC platform(context->GetPlatformInfo());
  info->cores = platform.GetCoreNumAiv();
  platform.GetCoreMemSize(platform_ascendc::CoreMemType::UB, info->ub_bytes);
  return ge::GRAPH_SUCCESS;
}

// The sum of the lists of attributes; false where their lengths differ.
static bool SumOffsets(const gert::RuntimeAttrs& attrs, float* sum) {
  const auto* offsets = attrs.GetListFloat(kOffsets);
  const auto* weights = attrs.GetListInt(kWeights);
  const auto* used = attrs.GetAttrPointer<gert::TypedContinuousVector<bool>>(kUsed);
  if (offsets->GetSize() != weights->GetSize() || offsets->GetSize() != used->GetSize()) {
    return false;
  }
  for (size_t i = 0; i < offsets->GetSize(); ++i) {
    if (!used->GetData()[i]) continue;
    *sum += offsets->GetData()[i] * static_cast<float>(weights->GetData()[i]);
  }
  return true;
}

static void SetSteps(const gert::Tensor* steps, ScaleAddTilingData* tiling) {
  int32_t values[3] = {0, 0, 0};
  for (int64_t i = 0; steps != nullptr && i < steps->GetShapeSize() && i < 3; ++i) {
    values[i] = static_cast<int32_t>(steps->GetData<int64_t>()[i]);
  }
  tiling->set_steps(values);
}

static ge::graphStatus Tile(gert::TilingContext* context) {
  const auto* info = context->GetCompileInfo<ScaleAddCompileInfo>();
  const gert::RuntimeAttrs& attrs = *context->GetAttrs();
  const int64_t length = context->GetInputShape(kX)->GetStorageShape().GetShapeSize();
  const auto bytes =
      static_cast<size_t>(ge::GetSizeByDataType(context->GetInputDesc(kX)->GetDataType()));
  // The buffers of the kernel: two of inputs and one of the output.
  if (3 * static_cast<uint64_t>(length) * bytes > info->ub_bytes) {
    OP_LOGE(context, "x is too long: %ld elements", static_cast<long>(length));
    return ge::GRAPH_FAILED;
  }
  if (*attrs.GetInt(kWay) == kSilentFailure) return ge::GRAPH_FAILED;
  if (std::strcmp(attrs.GetStr(kMode), "plain") != 0) return ge::GRAPH_PARAM_INVALID;

  ScaleAddTilingData tiling;
  tiling.set_hasZ(context->GetOptionalInputShape(kZ) == nullptr ? 0 : 1);
  tiling.set_a(*attrs.GetBool(kNegate) ? -*attrs.GetFloat(kA) : *attrs.GetFloat(kA));
  tiling.set_b(*attrs.GetFloat(kB));
  float offset = 0;
  if (!SumOffsets(attrs, &offset)) {
    OP_LOGE(context, "offsets, weights and used must be of the same length");
    return ge::GRAPH_PARAM_INVALID;
  }
  tiling.set_offset(offset);
  SetSteps(context->GetOptionalInputTensor(kSteps), &tiling);
  const int64_t shares = std::max<int64_t>(1, std::min<int64_t>(info->cores, length / 16));
  const int64_t blocks = length % (16 * shares) == 0 ? shares : 1;
  tiling.share.set_flag(7);
  tiling.share.set_length(length / blocks);
  gert::TilingData* raw = context->GetRawTilingData();
  tiling.SaveToBuffer(raw->GetData(), raw->GetCapacity());
  raw->SetDataSize(tiling.GetDataSize());
  context->SetBlockDim(static_cast<uint32_t>(blocks));
  context->SetTilingKey(static_cast<uint64_t>(*attrs.GetInt(kWay)));
  const platform_ascendc::PlatformAscendC platform(context->GetPlatformInfo());
  size_t* workspaces = context->GetWorkspaceSizes(2);
  workspaces[0] = platform.GetLibApiWorkSpaceSize();
  workspaces[1] =
      *attrs.GetInt(kWay) == kThroughWorkspace ? static_cast<size_t>(length) * bytes : 0;
  return ge::GRAPH_SUCCESS;
}

IMPL_OP_OPTILING(ScaleAdd)
    .Tiling(Tile)
    .TilingParse<ScaleAddCompileInfo>(Parse)
    .TilingInputsDataDependency({kSteps});

}  // namespace optiling

namespace ops {

static ge::graphStatus InferShape(gert::InferShapeContext* context) {
  const gert::Shape* z = context->GetOptionalInputShape(optiling::kZ);
  const gert::Shape& x = *context->GetInputShape(optiling::kX);
  if (z != nullptr && *z != x) {
    OP_LOGE(context, "z must be of the shape of x");
    return ge::GRAPH_FAILED;
  }
  *context->GetOutputShape(0) = x;
  *context->GetOutputShape(1) = gert::Shape({1});
  return ge::GRAPH_SUCCESS;
}

static ge::graphStatus InferDataType(gert::InferDataTypeContext* context) {
  context->SetOutputDataType(0, context->GetInputDataType(optiling::kX));
  return context->SetOutputDataType(1, ge::DT_INT32);
}

class ScaleAdd : public OpDef {
 public:
  explicit ScaleAdd(const char* name) : OpDef(name) {
    this->Input("x")
        .ParamType(REQUIRED)
        .DataType({ge::DT_FLOAT16, ge::DT_FLOAT})
        .Format({ge::FORMAT_ND, ge::FORMAT_ND})
        .AutoContiguous();
    this->Input("z_value").ParamType(OPTIONAL).Follow("x");
    this->Input("step_list")
        .ParamType(OPTIONAL)
        .DataType({ge::DT_INT64, ge::DT_INT64})
        .Format({ge::FORMAT_ND, ge::FORMAT_ND})
        .ValueDepend(OPTIONAL)
        .Comment("steps, the \"list\"");
    this->Output("y").ParamType(REQUIRED).Follow("x");
    this->Output("block_count")
        .ParamType(REQUIRED)
        .DataType({ge::DT_INT32, ge::DT_INT32})
        .Format({ge::FORMAT_ND, ge::FORMAT_ND})
        .InitValue(5);
    this->Attr("a").AttrType(REQUIRED).Float();
    this->Attr("b").AttrType(OPTIONAL).Float(1.0f);
    this->Attr("negate").AttrType(OPTIONAL).Bool(false);
    this->Attr("offsets").AttrType(OPTIONAL).ListFloat({0.25f, 0.5f, 8.0f});
    this->Attr("weights").AttrType(OPTIONAL).ListInt({1, -3, 100});
    this->Attr("used").AttrType(OPTIONAL).ListBool({true, true, false});
    this->Attr("way").AttrType(REQUIRED).Int();
    this->Attr("mode").AttrType(OPTIONAL).String("plain");
    SetInferShape(ops::InferShape);
    SetInferDataType(ops::InferDataType);
    OpAICoreConfig config;
    config.DynamicShapeSupportFlag(true).ExtendCfgInfo("coreType.value", "VectorCore");
    this->AICore().AddConfig("ascend910b", config);
  }
};

OP_ADD(ScaleAdd);

}  // namespace ops
