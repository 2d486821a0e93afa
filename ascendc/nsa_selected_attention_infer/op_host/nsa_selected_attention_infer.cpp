// NsaSelectedAttentionInfer as CANN sees it: signature, inference and tiling.
#include "ascendc/common/op_host/described_call.h"
#include "ascendc/common/op_host/products.h"
#include "ascendc/decoding/op_host/split_call.h"
#include "ascendc/nsa_selected_attention_infer/op_host/nsa_selected_attention_infer_tiling.h"

namespace nsa::ascend {

namespace {

const Signature& signature() {
  static const Signature signature =
      Signature("NsaSelectedAttentionInfer", {ge::DT_FLOAT16, ge::DT_BF16})
          .input("query")
          .input("key")
          .input("value")
          .input("topkIndices", nullptr, {ge::DT_INT32})
          .optional("blockTable", nullptr, {ge::DT_INT32})
          .optional("actualSeqQLen", "actual_seq_qlen", {ge::DT_INT64})
          .input("actualSeqKvLen", "actual_seq_kvlen", {ge::DT_INT64})
          .attr("scaleValue", AttrKind::kFloat)
          .attr("headNum", AttrKind::kInt)
          .attr("keyValueHeadNum", AttrKind::kInt)
          .attr("selectBlockSize", AttrKind::kInt)
          .attr("selectBlockCount", AttrKind::kInt)
          .attr("pageBlockSize", AttrKind::kInt)
          .attr("layout", AttrKind::kString)
          .output("attentionOut");
  return signature;
}

ge::graphStatus tiling(gert::TilingContext* context) {
  return guarded(context->GetNodeName(), [&] {
    const DescribedCall described(signature(), *context);
    described.check(*context);
    const CubeCores machine(*context);
    auto* data = context->GetTilingData<NsaSelectedAttentionInferTilingData>();
    const int32_t cores = tile_nsa_selected_attention_infer(
        split_call(described, "actual_seq_kvlen"), described.int_attr("select_block_size"),
        described.int_attr("select_block_count"), machine.count, data);
    // All cores wait for each other before the splits are added up.
    describe_launch(context, machine.vector, cores, split_workspace(data->splits, cores),
                    Schedule::kAllCoresAtOnce);
  });
}

}  // namespace
}  // namespace nsa::ascend

namespace ops {

class MsnsaSelectedAttentionInfer : public OpDef {
 public:
  explicit MsnsaSelectedAttentionInfer(const char* name) : OpDef(name) {
    nsa::ascend::signature().define(this);
    SetInferShape(nsa::ascend::infer_shape<nsa::ascend::signature>);
    SetInferDataType(nsa::ascend::infer_data_type<nsa::ascend::signature>);
    AICore().SetTiling(nsa::ascend::tiling);
    nsa::ascend::add_products(AICore(), "nsa_selected_attention_infer");
  }
};

OP_ADD(MsnsaSelectedAttentionInfer);

}  // namespace ops
