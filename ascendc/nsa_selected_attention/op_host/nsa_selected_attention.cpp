// NsaSelectedAttention as CANN sees it: signature, inference and tiling.
#include "ascendc/attention/op_host/selected_call.h"
#include "ascendc/common/op_host/products.h"
#include "ascendc/nsa_selected_attention/op_host/nsa_selected_attention_tiling.h"

namespace nsa::ascend {

namespace {

const Signature& signature() {
  static const Signature signature =
      Signature("NsaSelectedAttention", kSelectedFloats)
          .input("query")
          .input("key")
          .input("value")
          .input("topkIndices", "topk_indices", {ge::DT_INT32})
          .unread("attenMask", kSelectedMask)
          .list("actualSeqQLen", "actual_seq_qlen")
          .list("actualSeqKvLen", "actual_seq_kvlen")
          .list("qOffset", "q_offset")
          .attr("scaleValue", AttrKind::kFloat)
          .attr("headNum", AttrKind::kInt)
          .fixed("inputLayout", "TND")
          .flag("sparseMode", "causal", 2)
          .attr("selectedBlockSize", AttrKind::kInt, "select_block_size")
          .attr("selectedBlockCount", AttrKind::kInt, "select_block_count")
          .output("softmaxMax", "softmax_max", {ge::DT_FLOAT})
          .output("softmaxSum", "softmax_sum", {ge::DT_FLOAT})
          .output("attentionOut");
  return signature;
}

ge::graphStatus tiling(gert::TilingContext* context) {
  return guarded(context->GetNodeName(), [&] {
    const DescribedCall described(signature(), *context);
    described.check(*context);
    const CubeCores machine(*context);
    auto* data = context->GetTilingData<NsaSelectedAttentionTilingData>();
    const int32_t cores = tile_nsa_selected_attention(selected_call(described), machine.count,
                                                      machine.vector.ub_bytes, data);
    // All cores wait for each other when the lists are sorted.
    describe_launch(context, machine.vector, cores, nsa_selected_attention_workspace(*data, cores),
                    Schedule::kAllCoresAtOnce);
  });
}

}  // namespace
}  // namespace nsa::ascend

namespace ops {

class MsnsaSelectedAttention : public OpDef {
 public:
  explicit MsnsaSelectedAttention(const char* name) : OpDef(name) {
    nsa::ascend::signature().define(this);
    SetInferShape(nsa::ascend::infer_shape<nsa::ascend::signature>);
    SetInferDataType(nsa::ascend::infer_data_type<nsa::ascend::signature>);
    AICore().SetTiling(nsa::ascend::tiling);
    nsa::ascend::add_products(AICore(), "nsa_selected_attention");
  }
};

OP_ADD(MsnsaSelectedAttention);

}  // namespace ops
