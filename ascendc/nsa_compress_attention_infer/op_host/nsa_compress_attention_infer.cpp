// NsaCompressAttentionInfer as CANN sees it: signature, inference and tiling.
#include "ascendc/common/op_host/described_call.h"
#include "ascendc/common/op_host/products.h"
#include "ascendc/decoding/op_host/split_call.h"
#include "ascendc/nsa_compress_attention_infer/op_host/nsa_compress_attention_infer_tiling.h"

namespace nsa::ascend {

namespace {

const Signature& signature() {
  static const Signature signature =
      Signature("NsaCompressAttentionInfer", {ge::DT_FLOAT16, ge::DT_BF16})
          .input("query")
          .input("key")
          .input("value")
          .optional("blockTable", nullptr, {ge::DT_INT32})
          .optional("actualSeqQLen", "actual_seq_qlen", {ge::DT_INT64})
          .input("actualCmpSeqKvLen", "actual_cmp_seq_kvlen", {ge::DT_INT64})
          .optional("actualSelSeqKvLen", "actual_sel_seq_kvlen", {ge::DT_INT64})
          .attr("scaleValue", AttrKind::kFloat)
          .attr("headNum", AttrKind::kInt)
          .attr("keyValueHeadNum", AttrKind::kInt)
          .attr("selectBlockSize", AttrKind::kInt)
          .attr("selectBlockCount", AttrKind::kInt)
          .attr("pageBlockSize", AttrKind::kInt)
          .attr("compressBlockSize", AttrKind::kInt)
          .attr("compressStride", AttrKind::kInt)
          .attr("layout", AttrKind::kString)
          .attr("initBlocks", AttrKind::kInt)
          .attr("localBlocks", AttrKind::kInt)
          .attr("importance", AttrKind::kString)
          .output("attentionOut")
          .output("topkIndices", "topk_indices", {ge::DT_INT32});
  return signature;
}

RankingRule ranking_rule(const DescribedCall& call) {
  return {call.int_attr("compress_block_size"),
          call.int_attr("compress_stride"),
          call.int_attr("select_block_size"),
          call.int_attr("select_block_count"),
          call.int_attr("init_blocks"),
          call.int_attr("local_blocks"),
          call.attrs.get_str("importance", "cann") == "overlap",
          call.input("actual_sel_seq_kvlen").present};
}

ge::graphStatus tiling(gert::TilingContext* context) {
  return guarded(context->GetNodeName(), [&] {
    const DescribedCall described(signature(), *context);
    described.check(*context);
    const CubeCores machine(*context);
    auto* data = context->GetTilingData<NsaCompressAttentionInferTilingData>();
    const int32_t cores = tile_nsa_compress_attention_infer(
        split_call(described, "actual_cmp_seq_kvlen"), ranking_rule(described), machine.count,
        machine.vector.ub_bytes, data);
    // All cores wait for each other before the splits are added up.
    describe_launch(context, machine.vector, cores, split_workspace(data->splits, cores),
                    Schedule::kAllCoresAtOnce);
  });
}

}  // namespace
}  // namespace nsa::ascend

namespace ops {

class MsnsaCompressAttentionInfer : public OpDef {
 public:
  explicit MsnsaCompressAttentionInfer(const char* name) : OpDef(name) {
    nsa::ascend::signature().define(this);
    SetInferShape(nsa::ascend::infer_shape<nsa::ascend::signature>);
    SetInferDataType(nsa::ascend::infer_data_type<nsa::ascend::signature>);
    AICore().SetTiling(nsa::ascend::tiling);
    nsa::ascend::add_products(AICore(), "nsa_compress_attention_infer");
  }
};

OP_ADD(MsnsaCompressAttentionInfer);

}  // namespace ops
