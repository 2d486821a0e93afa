// FlashAttentionScore as CANN sees it: signature, inference and tiling.
#include "ascendc/attention/op_host/flash_call.h"
#include "ascendc/common/op_host/products.h"
#include "ascendc/flash_attention_score/op_host/flash_attention_score_tiling.h"

namespace nsa::ascend {

namespace {

const Signature& signature() {
  static const Signature signature = Signature("FlashAttentionScore", kFlashFloats)
                                         .input("query")
                                         .input("key")
                                         .input("value")
                                         .optional("realShift", "real_shift", kFlashBias)
                                         .optional("dropMask", "drop_mask", {ge::DT_UINT8})
                                         .absent("paddingMask")
                                         .optional("attenMask", "attn_mask", kFlashMask)
                                         .list("prefix")
                                         .list("actualSeqQLen", "actual_seq_qlen")
                                         .list("actualSeqKvLen", "actual_seq_kvlen")
                                         .list("qStartIdx", "q_start_idx")
                                         .list("kvStartIdx", "kv_start_idx")
                                         .optional("sink", "sink", {ge::DT_FLOAT})
                                         .attr("scaleValue", AttrKind::kFloat, "scalar_value")
                                         .attr("keepProb", AttrKind::kFloat)
                                         .attr("preTokens", AttrKind::kInt)
                                         .attr("nextTokens", AttrKind::kInt)
                                         .attr("headNum", AttrKind::kInt)
                                         .attr("inputLayout", AttrKind::kString)
                                         .without_effect("innerPrecise", 4)
                                         .attr("sparseMode", AttrKind::kInt)
                                         .attr("pseType", AttrKind::kInt)
                                         .output("softmaxMax", "softmax_max", {ge::DT_FLOAT})
                                         .output("softmaxSum", "softmax_sum", {ge::DT_FLOAT})
                                         .unwritten("softmaxOut")
                                         .output("attentionOut");
  return signature;
}

ge::graphStatus tiling(gert::TilingContext* context) {
  return guarded(context->GetNodeName(), [&] {
    const DescribedCall described(signature(), *context);
    described.check(*context);
    const FlashCall call =
        flash_call(described, "FlashAttentionScore", FlashInputs(kFlashAttentionScoreInputs));
    const CubeCores machine(*context);
    auto* data = context->GetTilingData<FlashAttentionScoreTilingData>();
    const int32_t cores =
        tile_flash_attention_score(call, machine.count, machine.vector.ub_bytes, data);
    describe_launch(context, machine.vector, cores,
                    flash_attention_score_workspace(*data, call.element_bytes, cores));
  });
}

}  // namespace
}  // namespace nsa::ascend

namespace ops {

class MsnsaFlashAttention : public OpDef {
 public:
  explicit MsnsaFlashAttention(const char* name) : OpDef(name) {
    nsa::ascend::signature().define(this);
    SetInferShape(nsa::ascend::infer_shape<nsa::ascend::signature>);
    SetInferDataType(nsa::ascend::infer_data_type<nsa::ascend::signature>);
    AICore().SetTiling(nsa::ascend::tiling);
    nsa::ascend::add_products(AICore(), "flash_attention_score");
  }
};

OP_ADD(MsnsaFlashAttention);

}  // namespace ops
