// NsaCompressAttention as CANN sees it: signature, inference and tiling.
#include "ascendc/common/op_host/described_call.h"
#include "ascendc/common/op_host/products.h"
#include "ascendc/nsa_compress_attention/op_host/nsa_compress_attention_tiling.h"

namespace nsa::ascend {

namespace {

// Every dtype of the query with every two of those of the masks.
const Dtypes kFloats{ge::DT_FLOAT16, ge::DT_FLOAT16, ge::DT_FLOAT16, ge::DT_FLOAT16,
                     ge::DT_BF16,    ge::DT_BF16,    ge::DT_BF16,    ge::DT_BF16};
const Dtypes kAttenMask{ge::DT_BOOL, ge::DT_BOOL, ge::DT_UINT8, ge::DT_UINT8,
                        ge::DT_BOOL, ge::DT_BOOL, ge::DT_UINT8, ge::DT_UINT8};
const Dtypes kTopkMask{ge::DT_BOOL, ge::DT_UINT8, ge::DT_BOOL, ge::DT_UINT8,
                       ge::DT_BOOL, ge::DT_UINT8, ge::DT_BOOL, ge::DT_UINT8};

const Signature& signature() {
  static const Signature signature = Signature("NsaCompressAttention", kFloats)
                                         .input("query")
                                         .input("key")
                                         .input("value")
                                         .optional("attenMask", "atten_mask", kAttenMask)
                                         .optional("topkMask", "topk_mask", kTopkMask)
                                         .list("actualSeqQLen", "actual_seq_qlen")
                                         .list("actualCmpSeqKvLen", "actual_cmp_seq_kvlen")
                                         .list("actualSelSeqKvLen", "actual_sel_seq_kvlen")
                                         .list("qOffset", "q_offset")
                                         .attr("scaleValue", AttrKind::kFloat)
                                         .attr("headNum", AttrKind::kInt)
                                         .fixed("inputLayout", "TND")
                                         .without_effect("sparseMode", 1)
                                         .attr("compressBlockSize", AttrKind::kInt)
                                         .attr("compressStride", AttrKind::kInt)
                                         .attr("selectBlockSize", AttrKind::kInt)
                                         .attr("selectBlockCount", AttrKind::kInt)
                                         .attr("causal", AttrKind::kInt)
                                         .attr("initBlocks", AttrKind::kInt)
                                         .attr("localBlocks", AttrKind::kInt)
                                         .attr("importance", AttrKind::kString)
                                         .output("softmaxMax", "softmax_max", {ge::DT_FLOAT})
                                         .output("softmaxSum", "softmax_sum", {ge::DT_FLOAT})
                                         .output("attentionOut")
                                         .output("topkIndices", "topk_indices", {ge::DT_INT32});
  return signature;
}

CompressAttentionCall call_of(const DescribedCall& described) {
  const std::vector<int64_t>& query = described.input("query").shape;
  const std::vector<int64_t>& value = described.input("value").shape;
  const auto columns = [&](const char* mask) {
    return described.input(mask).present ? described.input(mask).shape[1] : int64_t{0};
  };
  if (!described.input("actual_cmp_seq_kvlen").present) {
    throw OpError(OpError::kValue,
                  "nsa_compress_attention: actual_cmp_seq_kvlen must be given on Ascend, got None");
  }
  CompressAttentionCall call;
  call.queries = query[0];
  call.keys = value[0];
  call.heads = query[1];
  call.key_heads = value[1];
  call.dim = query[2];
  call.value_dim = value[2];
  call.rule = {described.int_attr("compress_block_size"), described.int_attr("compress_stride"),
               described.int_attr("select_block_size"), described.int_attr("causal") != 0,
               described.attrs.get_str("importance", "cann") == "overlap" ? Importance::kOverlap
                                                                          : Importance::kCann};
  call.query_ends = described.values("actual_seq_qlen");
  call.key_ends = described.values("actual_cmp_seq_kvlen");
  call.query_offsets = described.values("q_offset");
  call.count = described.int_attr("select_block_count");
  call.init_blocks = described.int_attr("init_blocks");
  call.local_blocks = described.int_attr("local_blocks");
  call.mask_row = columns("atten_mask");
  call.topk_mask_row = columns("topk_mask");
  call.scale = static_cast<float>(described.attrs.get_float("scale_value", 1));
  return call;
}

ge::graphStatus tiling(gert::TilingContext* context) {
  return guarded(context->GetNodeName(), [&] {
    const DescribedCall described(signature(), *context);
    described.check(*context);
    const CompressAttentionCall call = call_of(described);
    const CubeCores machine(*context);
    auto* data = context->GetTilingData<NsaCompressAttentionTilingData>();
    const int32_t cores =
        tile_nsa_compress_attention(call, machine.count, machine.vector.ub_bytes, data);
    describe_launch(context, machine.vector, cores, nsa_compress_attention_workspace(*data, cores));
  });
}

}  // namespace
}  // namespace nsa::ascend

namespace ops {

class MsnsaCompressAttention : public OpDef {
 public:
  explicit MsnsaCompressAttention(const char* name) : OpDef(name) {
    nsa::ascend::signature().define(this);
    SetInferShape(nsa::ascend::infer_shape<nsa::ascend::signature>);
    SetInferDataType(nsa::ascend::infer_data_type<nsa::ascend::signature>);
    AICore().SetTiling(nsa::ascend::tiling);
    nsa::ascend::add_products(AICore(), "nsa_compress_attention");
  }
};

OP_ADD(MsnsaCompressAttention);

}  // namespace ops
