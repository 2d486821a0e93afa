// NsaCompress as CANN sees it: signature, inference and tiling.
#include "ascendc/common/op_host/described_call.h"
#include "ascendc/common/op_host/products.h"
#include "ascendc/nsa_compress/op_host/nsa_compress_tiling.h"

namespace nsa::ascend {

namespace {

const Signature& signature() {
  static const Signature signature = Signature("NsaCompress", {ge::DT_FLOAT16, ge::DT_BF16})
                                         .input("input")
                                         .input("weight")
                                         .list("actSeqLen", "actual_seq_len")
                                         .fixed("layout", "TND")
                                         .attr("compressBlockSize", AttrKind::kInt)
                                         .attr("compressStride", AttrKind::kInt)
                                         .fixed("actSeqLenType", 0, "prefix sums")
                                         .output("output");
  return signature;
}

ge::graphStatus infer_windows(gert::InferShapeContext* context) {
  return guarded(context->GetNodeName(), [&] {
    DescribedCall call(signature(), *context);
    call.attrs.set(
        "num_windows",
        compressed_rows(call.values("actual_seq_len"), call.int_attr("compress_block_size"),
                        std::max<int64_t>(1, call.int_attr("compress_stride"))));
    set_shape(context->GetOutputShape(0), call.infer()[0].shape);
  });
}

ge::graphStatus tiling(gert::TilingContext* context) {
  return guarded(context->GetNodeName(), [&] {
    DescribedCall call(signature(), *context);
    const gert::Shape& output = context->GetOutputShape(0)->GetStorageShape();
    const int64_t rows = output.GetDimNum() == 0 ? 0 : output.GetDim(0);
    call.attrs.set("num_windows", rows);
    call.check(*context);
    const std::vector<int64_t>& input = call.input("input").shape;
    const CompressSizes sizes{input[0],
                              rows,
                              static_cast<int32_t>(input[1]),
                              static_cast<int32_t>(input[2]),
                              static_cast<int32_t>(call.int_attr("compress_block_size")),
                              static_cast<int32_t>(call.int_attr("compress_stride"))};
    const VectorCores machine(*context);
    const int32_t cores =
        tile_nsa_compress(sizes, call.values("actual_seq_len"), machine.count, machine.ub_bytes,
                          context->GetTilingData<NsaCompressTilingData>());
    describe_launch(context, machine, cores, 0);
  });
}

}  // namespace
}  // namespace nsa::ascend

namespace ops {

class MsnsaCompress : public OpDef {
 public:
  explicit MsnsaCompress(const char* name) : OpDef(name) {
    nsa::ascend::signature().define(this);
    SetInferShape(nsa::ascend::infer_windows);
    SetInferDataType(nsa::ascend::infer_data_type<nsa::ascend::signature>);
    AICore().SetTiling(nsa::ascend::tiling);
    nsa::ascend::add_products(AICore(), "nsa_compress");
  }
};

OP_ADD(MsnsaCompress);

}  // namespace ops
