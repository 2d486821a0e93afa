// NsaCompressGrad as CANN sees it: signature, inference and tiling.
#include "ascendc/common/op_host/described_call.h"
#include "ascendc/common/op_host/products.h"
#include "ascendc/nsa_compress_grad/op_host/nsa_compress_grad_tiling.h"

namespace nsa::ascend {

namespace {

const Signature& signature() {
  static const Signature signature = Signature("NsaCompressGrad", {ge::DT_FLOAT16, ge::DT_BF16})
                                         .input("outputGrad")
                                         .input("input")
                                         .input("weight")
                                         .list("actSeqLen", "actual_seq_len")
                                         .attr("compressBlockSize", AttrKind::kInt)
                                         .attr("compressStride", AttrKind::kInt)
                                         .fixed("actSeqLenType", 0, "prefix sums")
                                         .fixed("layout", "TND")
                                         .output("inputGrad")
                                         .output("weightGrad");
  return signature;
}

ge::graphStatus tiling(gert::TilingContext* context) {
  return guarded(context->GetNodeName(), [&] {
    const DescribedCall call(signature(), *context);
    call.check(*context);
    const std::vector<int64_t>& input = call.input("input").shape;
    const CompressSizes sizes{input[0],
                              call.input("output_grad").shape[0],
                              static_cast<int32_t>(input[1]),
                              static_cast<int32_t>(input[2]),
                              static_cast<int32_t>(call.int_attr("compress_block_size")),
                              static_cast<int32_t>(call.int_attr("compress_stride"))};
    const VectorCores machine(*context);
    auto* data = context->GetTilingData<NsaCompressGradTilingData>();
    const int32_t cores = tile_nsa_compress_grad(sizes, call.values("actual_seq_len"),
                                                 machine.count, machine.ub_bytes, data);
    // All cores of the kernel wait for each other, so they have to run at the same time.
    describe_launch(context, machine, cores, nsa_compress_grad_workspace(*data),
                    Schedule::kAllCoresAtOnce);
  });
}

}  // namespace
}  // namespace nsa::ascend

namespace ops {

class MsnsaCompressGrad : public OpDef {
 public:
  explicit MsnsaCompressGrad(const char* name) : OpDef(name) {
    nsa::ascend::signature().define(this);
    SetInferShape(nsa::ascend::infer_shape<nsa::ascend::signature>);
    SetInferDataType(nsa::ascend::infer_data_type<nsa::ascend::signature>);
    AICore().SetTiling(nsa::ascend::tiling);
    nsa::ascend::add_products(AICore(), "nsa_compress_grad");
  }
};

OP_ADD(MsnsaCompressGrad);

}  // namespace ops
