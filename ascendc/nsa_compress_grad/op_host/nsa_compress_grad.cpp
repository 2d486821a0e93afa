// NsaCompressGrad as CANN sees it: definition, inference and tiling.
#include "ascendc/common/op_host/op_context.h"
#include "ascendc/nsa_compress_grad/op_host/nsa_compress_grad_tiling.h"

namespace nsa::ascend {

namespace {

enum Input : size_t { kOutputGrad, kInput, kWeight, kActSeqLen };
enum Output : size_t { kInputGrad, kWeightGrad };
enum Attr : size_t { kBlockSize, kStride, kActSeqLenType, kLayout };

// All cores of the kernel wait for each other, so they have to run at the same time.
constexpr uint32_t kAllCoresAtOnce = 1;

std::vector<OutputDesc> check(const std::vector<TensorDesc>& inputs,
                              const gert::RuntimeAttrs& attrs) {
  check_layout("nsa_compress_grad", attrs, kLayout, kActSeqLenType);
  Attrs values;
  values.set("compress_block_size", *attrs.GetInt(kBlockSize))
      .set("compress_stride", *attrs.GetInt(kStride));
  return infer("NsaCompressGrad", inputs, values, Target::kAscend);
}

ge::graphStatus infer_shape(gert::InferShapeContext* context) {
  return guarded(context->GetNodeName(), [&] {
    const HostList list(context->GetOptionalInputTensor(kActSeqLen));
    const auto outputs =
        check({describe(*context->GetInputShape(kOutputGrad), DType::kUnknown),
               describe(*context->GetInputShape(kInput), DType::kUnknown),
               describe(*context->GetInputShape(kWeight), DType::kUnknown), list.desc()},
              *context->GetAttrs());
    set_shape(context->GetOutputShape(kInputGrad), outputs[kInputGrad].shape);
    set_shape(context->GetOutputShape(kWeightGrad), outputs[kWeightGrad].shape);
  });
}

ge::graphStatus infer_data_type(gert::InferDataTypeContext* context) {
  const ge::DataType dtype = context->GetInputDataType(kInput);
  const ge::graphStatus status = context->SetOutputDataType(kInputGrad, dtype);
  return status == ge::GRAPH_SUCCESS ? context->SetOutputDataType(kWeightGrad, dtype) : status;
}

ge::graphStatus tiling(gert::TilingContext* context) {
  return guarded(context->GetNodeName(), [&] {
    const gert::RuntimeAttrs& attrs = *context->GetAttrs();
    const TensorDesc output_grad = describe_input(*context, kOutputGrad);
    const TensorDesc input = describe_input(*context, kInput);
    const HostList list(context->GetOptionalInputTensor(kActSeqLen));
    const auto outputs =
        check({output_grad, input, describe_input(*context, kWeight), list.desc()}, attrs);
    constexpr const char* kNames[] = {"input_grad", "weight_grad"};
    for (size_t i : {kInputGrad, kWeightGrad}) {
      check_output("nsa_compress_grad", kNames[i],
                   dims_of(context->GetOutputShape(i)->GetStorageShape()), outputs[i]);
    }
    const CompressSizes sizes{input.shape[0],
                              output_grad.shape[0],
                              static_cast<int32_t>(input.shape[1]),
                              static_cast<int32_t>(input.shape[2]),
                              static_cast<int32_t>(*attrs.GetInt(kBlockSize)),
                              static_cast<int32_t>(*attrs.GetInt(kStride))};
    const VectorCores machine(*context);
    auto* data = context->GetTilingData<NsaCompressGradTilingData>();
    const int32_t cores =
        tile_nsa_compress_grad(sizes, list.values(), machine.count, machine.ub_bytes, data);
    context->SetBlockDim(static_cast<uint32_t>(cores));
    context->SetTilingKey(0);
    context->SetScheduleMode(kAllCoresAtOnce);
    context->GetWorkspaceSizes(1)[0] =
        machine.library_workspace + nsa_compress_grad_workspace(*data);
  });
}

}  // namespace
}  // namespace nsa::ascend

namespace ops {

class NsaCompressGrad : public OpDef {
 public:
  explicit NsaCompressGrad(const char* name) : OpDef(name) {
    nsa::ascend::define_tensor(Input("outputGrad"));
    nsa::ascend::define_tensor(Input("input"));
    nsa::ascend::define_tensor(Input("weight"));
    nsa::ascend::define_list(Input("actSeqLen"));
    nsa::ascend::define_tensor(Output("inputGrad"));
    nsa::ascend::define_tensor(Output("weightGrad"));
    Attr("compressBlockSize").AttrType(REQUIRED).Int();
    Attr("compressStride").AttrType(REQUIRED).Int();
    Attr("actSeqLenType").AttrType(REQUIRED).Int();
    Attr("layout").AttrType(OPTIONAL).String("TND");
    SetInferShape(nsa::ascend::infer_shape).SetInferDataType(nsa::ascend::infer_data_type);
    AICore().SetTiling(nsa::ascend::tiling).AddConfig("ascend910b");
  }
};

OP_ADD(NsaCompressGrad);

}  // namespace ops
