// NsaCacheStep as CANN sees it: signature, inference and tiling.
#include "ascendc/common/op_host/described_call.h"
#include "ascendc/common/op_host/products.h"
#include "ascendc/nsa_cache_step/op_host/nsa_cache_step_tiling.h"

namespace nsa::ascend {

namespace {

// New tokens come as the layer's projections give them, in float. Vector cores have neither sines
// nor float64, so that the angles come as tables; what they follow from is in the state of a cache.
// An input that is written cannot be absent: dense attention has a Tensor in the place of `others`.
const Signature& signature() {
  static const Signature signature = Signature("NsaCacheStep", {ge::DT_FLOAT16, ge::DT_BF16})
                                         .input("query", nullptr, {ge::DT_FLOAT})
                                         .input("key", nullptr, {ge::DT_FLOAT})
                                         .input("value", nullptr, {ge::DT_FLOAT})
                                         .written("selected")
                                         .written("state", nullptr, {ge::DT_INT64})
                                         .optional("actualSeqLen", "actual_seq_len", {ge::DT_INT64})
                                         .optional("gates", nullptr, {ge::DT_FLOAT})
                                         .optional("weightK", nullptr, {ge::DT_FLOAT})
                                         .optional("weightV", nullptr, {ge::DT_FLOAT})
                                         .optional("positionK", nullptr, {ge::DT_FLOAT})
                                         .optional("positionV", nullptr, {ge::DT_FLOAT})
                                         .written("others")
                                         .input("angles", nullptr, {ge::DT_FLOAT})
                                         .input("fineAngles", nullptr, {ge::DT_FLOAT})
                                         .attr("scaleValue", AttrKind::kFloat)
                                         .attr("theta", AttrKind::kFloat)
                                         .attr("ropeFactor", AttrKind::kFloat)
                                         .attr("ropeLow", AttrKind::kFloat)
                                         .attr("ropeHigh", AttrKind::kFloat)
                                         .attr("sharedKv", AttrKind::kInt)
                                         .attr("windowSize", AttrKind::kInt)
                                         .attr("rollback", AttrKind::kInt)
                                         .attr("compressBlockSize", AttrKind::kInt)
                                         .attr("compressStride", AttrKind::kInt)
                                         .attr("selectBlockSize", AttrKind::kInt)
                                         .attr("selectBlockCount", AttrKind::kInt)
                                         .attr("initBlocks", AttrKind::kInt)
                                         .attr("localBlocks", AttrKind::kInt)
                                         .attr("importance", AttrKind::kString)
                                         .attr("layer", AttrKind::kInt)
                                         .output("attentionOut");
  return signature;
}

CacheStepCall cache_step_call(const DescribedCall& call) {
  const std::vector<int64_t>& query = call.input("query").shape;
  const std::vector<int64_t>& selected = call.input("selected").shape;
  NsaCacheStepAttrs attrs{};
  attrs.shared_kv = call.int_attr("shared_kv") != 0;
  attrs.window_size = call.int_attr("window_size");
  attrs.rollback = call.int_attr("rollback");
  attrs.compress_block_size = call.int_attr("compress_block_size");
  attrs.compress_stride = call.int_attr("compress_stride");
  attrs.select_block_size = call.int_attr("select_block_size");
  attrs.select_block_count = call.int_attr("select_block_count");
  attrs.init_blocks = call.int_attr("init_blocks");
  attrs.local_blocks = call.int_attr("local_blocks");
  attrs.layer = call.int_attr("layer");
  return {selected[0],
          query[0],
          selected[2],
          query[1],
          selected[1],
          query[2],
          call.input("value").shape[2],
          static_cast<float>(call.attrs.get_float("scale_value", 1)),
          call.input("gates").present,
          call.attrs.get_str("importance", "cann") == "overlap",
          attrs};
}

ge::graphStatus tiling(gert::TilingContext* context) {
  return guarded(context->GetNodeName(), [&] {
    const DescribedCall described(signature(), *context);
    described.check(*context);
    const CubeCores machine(*context);
    auto* data = context->GetTilingData<NsaCacheStepTilingData>();
    const int32_t cores = tile_nsa_cache_step(cache_step_call(described), machine.count,
                                              machine.vector.ub_bytes, data);
    // All cores wait for each other between writing and reading the cache.
    describe_launch(context, machine.vector, cores, nsa_cache_step_workspace(*data, cores),
                    Schedule::kAllCoresAtOnce);
  });
}

}  // namespace
}  // namespace nsa::ascend

namespace ops {

class MsnsaCacheStep : public OpDef {
 public:
  explicit MsnsaCacheStep(const char* name) : OpDef(name) {
    nsa::ascend::signature().define(this);
    SetInferShape(nsa::ascend::infer_shape<nsa::ascend::signature>);
    SetInferDataType(nsa::ascend::infer_data_type<nsa::ascend::signature>);
    AICore().SetTiling(nsa::ascend::tiling);
    nsa::ascend::add_products(AICore(), "nsa_cache_step");
  }
};

OP_ADD(MsnsaCacheStep);

}  // namespace ops
