// ScaleByKey: y = x times a factor that is a template parameter of the kernel.
#include "../op_kernel/scale_by_key_keys.h"
#include "register/op_def_registry.h"
#include "register/op_impl_registry.h"
#include "tiling/platform/platform_ascendc.h"

namespace optiling {

static ge::graphStatus Tile(gert::TilingContext* context) {
  const gert::RuntimeAttrs& attrs = *context->GetAttrs();
  const auto length =
      static_cast<uint32_t>(context->GetInputShape(0)->GetStorageShape().GetShapeSize());
  auto* words = static_cast<uint32_t*>(context->GetRawTilingData()->GetData());
  words[0] = length;
  context->GetRawTilingData()->SetDataSize(sizeof(uint32_t));
  context->SetBlockDim(1);
  const auto dtype = static_cast<uint32_t>(context->GetInputDesc(0)->GetDataType());
  const auto factor = static_cast<uint32_t>(*attrs.GetInt(0));
  const auto format = static_cast<uint32_t>(*attrs.GetInt(2));
  const uint32_t negate = *attrs.GetBool(1) ? 1 : 0;
  ASCENDC_TPL_SEL_PARAM(context, dtype, factor, negate, format);
  if (context->GetTilingKey() == INVALID_TILING_KEY) return ge::GRAPH_FAILED;
  const platform_ascendc::PlatformAscendC platform(context->GetPlatformInfo());
  context->GetWorkspaceSizes(1)[0] = platform.GetLibApiWorkSpaceSize();
  return ge::GRAPH_SUCCESS;
}

IMPL_OP_OPTILING(ScaleByKey).Tiling(Tile);

}  // namespace optiling

namespace ops {

class ScaleByKey : public OpDef {
 public:
  explicit ScaleByKey(const char* name) : OpDef(name) {
    this->Input("x")
        .ParamType(REQUIRED)
        .DataType({ge::DT_FLOAT16, ge::DT_FLOAT})
        .Format({ge::FORMAT_ND, ge::FORMAT_ND});
    this->Output("y").ParamType(REQUIRED).Follow("x");
    this->Attr("factor").AttrType(REQUIRED).Int();
    this->Attr("negate").AttrType(REQUIRED).Bool();
    this->Attr("format").AttrType(REQUIRED).Int();
    OpAICoreConfig config;
    this->AICore().AddConfig("ascend910b", config);
  }
};

OP_ADD(ScaleByKey);

}  // namespace ops

extern "C" __attribute__((visibility("default"))) uint64_t ScaleByKeyOf(uint64_t dtype,
                                                                        uint64_t factor,
                                                                        uint64_t negate,
                                                                        uint64_t format) {
  return GET_TPL_TILING_KEY(dtype, factor, negate, format);
}
