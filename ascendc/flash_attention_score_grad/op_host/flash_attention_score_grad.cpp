// FlashAttentionScoreGrad as CANN sees it: signature, inference and tiling.
#include "ascendc/attention/op_host/flash_call.h"
#include "ascendc/common/op_host/products.h"
#include "ascendc/flash_attention_score_grad/op_host/flash_attention_score_grad_tiling.h"

namespace nsa::ascend {

namespace {

const Signature& signature() {
  static const Signature signature =
      Signature("FlashAttentionScoreGrad", kFlashFloats)
          .input("query")
          .input("keyIn", "key")
          .input("value")
          .input("dy")
          .optional("pseShift", "real_shift", kFlashBias)
          .optional("dropMask", "drop_mask", {ge::DT_UINT8})
          .absent("paddingMask")
          .optional("attenMask", "attn_mask", kFlashMask)
          .optional("softmaxMax", "softmax_max", {ge::DT_FLOAT})
          .optional("softmaxSum", "softmax_sum", {ge::DT_FLOAT})
          .absent("softmaxIn")
          .optional("attentionIn", "attention_in")
          .list("prefix")
          .list("actualSeqQLen", "actual_seq_qlen")
          .list("actualSeqKvLen", "actual_seq_kvlen")
          .list("qStartIdx", "q_start_idx")
          .list("kvStartIdx", "kv_start_idx")
          .optional("sink", "sink", {ge::DT_FLOAT})
          .list("qOffset", "q_offset")
          .optional("softmaxSumGrad", "softmax_sum_grad", {ge::DT_FLOAT})
          .attr("scaleValue", AttrKind::kFloat, "scalar_value")
          .attr("keepProb", AttrKind::kFloat)
          .attr("preTokens", AttrKind::kInt)
          .attr("nextTokens", AttrKind::kInt)
          .attr("headNum", AttrKind::kInt)
          .attr("inputLayout", AttrKind::kString)
          .without_effect("innerPrecise", 4)
          .attr("sparseMode", AttrKind::kInt)
          .attr("pseType", AttrKind::kInt)
          .attr("compressBlockSize", AttrKind::kInt)
          .attr("compressStride", AttrKind::kInt)
          .attr("pseGrad", AttrKind::kInt)
          .output("dq")
          .output("dk")
          .output("dv")
          .output("dpse")
          .output("dsink", "dsink", {ge::DT_FLOAT});
  return signature;
}

ge::graphStatus tiling(gert::TilingContext* context) {
  return guarded(context->GetNodeName(), [&] {
    const DescribedCall described(signature(), *context);
    described.check(*context);
    FlashCall call = flash_call(described, "FlashAttentionScoreGrad",
                                FlashInputs(kFlashAttentionScoreGradInputs));
    call.compress_block = described.int_attr("compress_block_size");
    call.compress_stride = described.int_attr("compress_stride");
    call.query_offsets = described.values("q_offset");
    call.sum_grad = described.input("softmax_sum_grad").present;
    call.pse_grad = described.int_attr("pse_grad") != 0;
    const CubeCores machine(*context);
    auto* data = context->GetTilingData<FlashAttentionScoreGradTilingData>();
    const int32_t cores =
        tile_flash_attention_score_grad(call, machine.count, machine.vector.ub_bytes, data);
    // All blocks wait for each other in the middle of the kernel.
    describe_launch(context, machine.vector, cores,
                    flash_attention_score_grad_workspace(*data, call.element_bytes, cores),
                    Schedule::kAllCoresAtOnce);
  });
}

}  // namespace
}  // namespace nsa::ascend

namespace ops {

class MsnsaFlashAttentionGrad : public OpDef {
 public:
  explicit MsnsaFlashAttentionGrad(const char* name) : OpDef(name) {
    nsa::ascend::signature().define(this);
    SetInferShape(nsa::ascend::infer_shape<nsa::ascend::signature>);
    SetInferDataType(nsa::ascend::infer_data_type<nsa::ascend::signature>);
    AICore().SetTiling(nsa::ascend::tiling);
    nsa::ascend::add_products(AICore(), "flash_attention_score_grad");
  }
};

OP_ADD(MsnsaFlashAttentionGrad);

}  // namespace ops
