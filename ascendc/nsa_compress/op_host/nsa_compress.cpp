// NsaCompress as CANN sees it: definition, inference and tiling.
#include "ascendc/common/op_host/op_context.h"
#include "ascendc/nsa_compress/op_host/nsa_compress_tiling.h"

namespace nsa::ascend {

namespace {

enum Input : size_t { kInput, kWeight, kActSeqLen };
enum Attr : size_t { kLayout, kBlockSize, kStride, kActSeqLenType };

// The rules of infer/ for the call; `rows` of the output.
std::vector<OutputDesc> check(const TensorDesc& input, const TensorDesc& weight,
                              const TensorDesc& list, const gert::RuntimeAttrs& attrs,
                              int64_t rows) {
  check_layout("nsa_compress", attrs, kLayout, kActSeqLenType);
  Attrs values;
  values.set("compress_block_size", *attrs.GetInt(kBlockSize))
      .set("compress_stride", *attrs.GetInt(kStride))
      .set("num_windows", rows);
  return infer("NsaCompress", {input, weight, list}, values, Target::kAscend);
}

ge::graphStatus infer_shape(gert::InferShapeContext* context) {
  return guarded(context->GetNodeName(), [&] {
    const HostList list(context->GetOptionalInputTensor(kActSeqLen));
    const gert::RuntimeAttrs& attrs = *context->GetAttrs();
    const int64_t rows = compressed_rows(list.values(), *attrs.GetInt(kBlockSize),
                                         std::max<int64_t>(1, *attrs.GetInt(kStride)));
    const auto outputs = check(describe(*context->GetInputShape(kInput), DType::kUnknown),
                               describe(*context->GetInputShape(kWeight), DType::kUnknown),
                               list.desc(), attrs, rows);
    set_shape(context->GetOutputShape(0), outputs[0].shape);
  });
}

ge::graphStatus infer_data_type(gert::InferDataTypeContext* context) {
  return context->SetOutputDataType(0, context->GetInputDataType(kInput));
}

ge::graphStatus tiling(gert::TilingContext* context) {
  return guarded(context->GetNodeName(), [&] {
    const gert::RuntimeAttrs& attrs = *context->GetAttrs();
    const TensorDesc input = describe_input(*context, kInput);
    const TensorDesc weight = describe_input(*context, kWeight);
    const HostList list(context->GetOptionalInputTensor(kActSeqLen));
    const std::vector<int64_t> output = dims_of(context->GetOutputShape(0)->GetStorageShape());
    check_output("nsa_compress", "output", output,
                 check(input, weight, list.desc(), attrs, output.empty() ? 0 : output[0])[0]);
    const CompressSizes sizes{input.shape[0],
                              output[0],
                              static_cast<int32_t>(input.shape[1]),
                              static_cast<int32_t>(input.shape[2]),
                              static_cast<int32_t>(*attrs.GetInt(kBlockSize)),
                              static_cast<int32_t>(*attrs.GetInt(kStride))};
    const VectorCores machine(*context);
    const int32_t cores = tile_nsa_compress(sizes, list.values(), machine.count, machine.ub_bytes,
                                            context->GetTilingData<NsaCompressTilingData>());
    context->SetBlockDim(static_cast<uint32_t>(cores));
    context->SetTilingKey(0);
    context->GetWorkspaceSizes(1)[0] = machine.library_workspace;
  });
}

}  // namespace
}  // namespace nsa::ascend

namespace ops {

class NsaCompress : public OpDef {
 public:
  explicit NsaCompress(const char* name) : OpDef(name) {
    nsa::ascend::define_tensor(Input("input"));
    nsa::ascend::define_tensor(Input("weight"));
    nsa::ascend::define_list(Input("actSeqLen"));
    nsa::ascend::define_tensor(Output("output"));
    Attr("layout").AttrType(OPTIONAL).String("TND");
    Attr("compressBlockSize").AttrType(REQUIRED).Int();
    Attr("compressStride").AttrType(REQUIRED).Int();
    Attr("actSeqLenType").AttrType(REQUIRED).Int();
    SetInferShape(nsa::ascend::infer_shape).SetInferDataType(nsa::ascend::infer_data_type);
    AICore().SetTiling(nsa::ascend::tiling).AddConfig("ascend910b");
  }
};

OP_ADD(NsaCompress);

}  // namespace ops
