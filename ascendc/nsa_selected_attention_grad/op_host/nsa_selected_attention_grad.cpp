// NsaSelectedAttentionGrad as CANN sees it: signature, inference and tiling.
#include "ascendc/attention/op_host/selected_call.h"
#include "ascendc/common/op_host/products.h"
#include "ascendc/nsa_selected_attention_grad/op_host/nsa_selected_attention_grad_tiling.h"

namespace nsa::ascend {

namespace {

const Signature& signature() {
  static const Signature signature =
      Signature("NsaSelectedAttentionGrad", kSelectedFloats)
          .input("query")
          .input("key")
          .input("value")
          .input("attentionOut")
          .input("attentionOutGrad")
          .input("softmaxMax", "softmax_max", {ge::DT_FLOAT})
          .input("softmaxSum", "softmax_sum", {ge::DT_FLOAT})
          .input("topkIndices", "topk_indices", {ge::DT_INT32})
          .list("actualSeqQLen", "actual_seq_qlen")
          .list("actualSeqKvLen", "actual_seq_kvlen")
          .unread("attenMask", kSelectedMask)
          .list("qOffset", "q_offset")
          .optional("softmaxSumGrad", "softmax_sum_grad", {ge::DT_FLOAT})
          .attr("scaleValue", AttrKind::kFloat)
          .attr("selectedBlockSize", AttrKind::kInt, "select_block_size")
          .attr("selectedBlockCount", AttrKind::kInt, "select_block_count")
          .attr("headNum", AttrKind::kInt)
          .fixed("inputLayout", "TND")
          .flag("sparseMode", "causal", 2)
          .output("dq")
          .output("dk")
          .output("dv");
  return signature;
}

ge::graphStatus tiling(gert::TilingContext* context) {
  return guarded(context->GetNodeName(), [&] {
    const DescribedCall described(signature(), *context);
    described.check(*context);
    const CubeCores machine(*context);
    auto* data = context->GetTilingData<NsaSelectedAttentionGradTilingData>();
    SelectedCall call = selected_call(described);
    call.sum_grad = described.input("softmax_sum_grad").present;
    const int32_t cores = tile_nsa_selected_attention_grad(call, machine.count, data);
    // All cores wait for each other between the phases before the steps.
    describe_launch(context, machine.vector, cores,
                    nsa_selected_attention_grad_workspace(*data, cores), Schedule::kAllCoresAtOnce);
  });
}

}  // namespace
}  // namespace nsa::ascend

namespace ops {

class MsnsaSelectedAttentionGrad : public OpDef {
 public:
  explicit MsnsaSelectedAttentionGrad(const char* name) : OpDef(name) {
    nsa::ascend::signature().define(this);
    SetInferShape(nsa::ascend::infer_shape<nsa::ascend::signature>);
    SetInferDataType(nsa::ascend::infer_data_type<nsa::ascend::signature>);
    AICore().SetTiling(nsa::ascend::tiling);
    nsa::ascend::add_products(AICore(), "nsa_selected_attention_grad");
  }
};

OP_ADD(MsnsaSelectedAttentionGrad);

}  // namespace ops
