// NsaDecode as CANN sees it: signature, inference and tiling.
#include "ascendc/common/op_host/described_call.h"
#include "ascendc/common/op_host/products.h"
#include "ascendc/nsa_decode/op_host/nsa_decode_tiling.h"

namespace nsa::ascend {

namespace {

const Signature& signature() {
  static const Signature signature =
      Signature("NsaDecode", {ge::DT_FLOAT16, ge::DT_BF16})
          .input("query")
          .input("gates", nullptr, {ge::DT_FLOAT})
          .input("keyCmp")
          .input("valueCmp")
          .input("keySlc")
          .input("valueSlc")
          .input("keyWin")
          .input("valueWin")
          .optional("blockTable", nullptr, {ge::DT_INT32})
          .optional("cmpBlockTable", nullptr, {ge::DT_INT32})
          .optional("actualSeqQLen", "actual_seq_qlen", {ge::DT_INT64})
          .input("actualSeqKvLen", "actual_seq_kvlen", {ge::DT_INT64})
          .attr("scaleValue", AttrKind::kFloat)
          .attr("headNum", AttrKind::kInt)
          .attr("compressBlockSize", AttrKind::kInt)
          .attr("compressStride", AttrKind::kInt)
          .attr("selectBlockSize", AttrKind::kInt)
          .attr("selectBlockCount", AttrKind::kInt)
          .attr("windowSize", AttrKind::kInt)
          .attr("layout", AttrKind::kString)
          .attr("cacheLayout", AttrKind::kString)
          .attr("initBlocks", AttrKind::kInt)
          .attr("localBlocks", AttrKind::kInt)
          .attr("importance", AttrKind::kString)
          .output("attentionOut");
  return signature;
}

SplitCall branch_call(const DescribedCall& call, const char* key, const char* value,
                      const char* table) {
  const std::vector<int64_t>& query = call.input("query").shape;
  const std::vector<int64_t>& k = call.input(key).shape;
  const bool heads_first = call.attrs.get_str("cache_layout", "BSND") == "BNSD";
  const bool paged = table != nullptr && call.input(table).present;
  return {k[0],
          k[heads_first ? 2 : 1],
          paged ? call.input(table).shape[1] : 0,
          call.input("actual_seq_kvlen").shape[0],
          query.size() == 3 ? query[0] : query[0] * query[1],
          call.int_attr("head_num"),
          k[heads_first ? 1 : 2],
          query.back(),
          call.input(value).shape[3],
          0,
          static_cast<float>(call.attrs.get_float("scale_value", 1)),
          false,
          heads_first};
}

DecodeCall decode_call(const DescribedCall& call) {
  return {branch_call(call, "key_cmp", "value_cmp", "cmp_block_table"),
          branch_call(call, "key_slc", "value_slc", "block_table"),
          branch_call(call, "key_win", "value_win", nullptr),
          {call.int_attr("compress_block_size"), call.int_attr("compress_stride"),
           call.int_attr("select_block_size"), call.int_attr("select_block_count"),
           call.int_attr("init_blocks"), call.int_attr("local_blocks"),
           call.attrs.get_str("importance", "cann") == "overlap", true},
          call.int_attr("window_size")};
}

ge::graphStatus tiling(gert::TilingContext* context) {
  return guarded(context->GetNodeName(), [&] {
    const DescribedCall described(signature(), *context);
    described.check(*context);
    const CubeCores machine(*context);
    auto* data = context->GetTilingData<NsaDecodeTilingData>();
    const int32_t cores =
        tile_nsa_decode(decode_call(described), machine.count, machine.vector.ub_bytes, data);
    // All cores wait for each other between the branches.
    describe_launch(context, machine.vector, cores, nsa_decode_workspace(*data, cores),
                    Schedule::kAllCoresAtOnce);
  });
}

}  // namespace
}  // namespace nsa::ascend

namespace ops {

class MsnsaDecode : public OpDef {
 public:
  explicit MsnsaDecode(const char* name) : OpDef(name) {
    nsa::ascend::signature().define(this);
    SetInferShape(nsa::ascend::infer_shape<nsa::ascend::signature>);
    SetInferDataType(nsa::ascend::infer_data_type<nsa::ascend::signature>);
    AICore().SetTiling(nsa::ascend::tiling);
    nsa::ascend::add_products(AICore(), "nsa_decode");
  }
};

OP_ADD(MsnsaDecode);

}  // namespace ops
