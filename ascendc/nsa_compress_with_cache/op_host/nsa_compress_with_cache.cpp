// NsaCompressWithCache as CANN sees it: signature, inference and tiling.
#include "ascendc/common/op_host/described_call.h"
#include "ascendc/common/op_host/products.h"
#include "ascendc/nsa_compress_with_cache/op_host/nsa_compress_with_cache_tiling.h"

namespace nsa::ascend {

namespace {

// The lists are tensors on the device: what they hold changes with every token, and neither the
// host nor a graph has to know it.
const Signature& signature() {
  static const Signature signature =
      Signature("NsaCompressWithCache", {ge::DT_FLOAT16, ge::DT_BF16})
          .input("input")
          .input("weight")
          .input("slotMapping", nullptr, {ge::DT_INT64})
          .written("cache")
          .input("actSeqLen", "actual_seq_len", {ge::DT_INT64})
          .optional("blockTable", nullptr, {ge::DT_INT32})
          .fixed("layout", "TND")
          .attr("compressBlockSize", AttrKind::kInt)
          .attr("compressStride", AttrKind::kInt)
          .fixed("actSeqLenType", 1, "lengths")
          .attr("pageBlockSize", AttrKind::kInt)
          .output("rows");
  return signature;
}

ge::graphStatus tiling(gert::TilingContext* context) {
  return guarded(context->GetNodeName(), [&] {
    const DescribedCall call(signature(), *context);
    call.check(*context);
    const std::vector<int64_t>& input = call.input("input").shape;
    const std::vector<int64_t>& cache = call.input("cache").shape;
    const TensorDesc& table = call.input("block_table");
    const PagesTiling pages = table.present
                                  ? PagesTiling{input[0], input[1], table.shape[1], input[1]}
                                  : PagesTiling{input[0], 1, 0, 1};
    const CompressWithCacheSizes sizes{pages,
                                       call.input("actual_seq_len").shape[0],
                                       cache[0],
                                       call.int_attr("compress_block_size"),
                                       call.int_attr("compress_stride"),
                                       static_cast<int32_t>(cache[1]),
                                       static_cast<int32_t>(cache[2])};
    const VectorCores machine(*context);
    const int32_t cores =
        tile_nsa_compress_with_cache(sizes, machine.count, machine.ub_bytes,
                                     context->GetTilingData<NsaCompressWithCacheTilingData>());
    describe_launch(context, machine, cores, 0);
  });
}

}  // namespace
}  // namespace nsa::ascend

namespace ops {

class MsnsaCompressWithCache : public OpDef {
 public:
  explicit MsnsaCompressWithCache(const char* name) : OpDef(name) {
    nsa::ascend::signature().define(this);
    SetInferShape(nsa::ascend::infer_shape<nsa::ascend::signature>);
    SetInferDataType(nsa::ascend::infer_data_type<nsa::ascend::signature>);
    AICore().SetTiling(nsa::ascend::tiling);
    nsa::ascend::add_products(AICore(), "nsa_compress_with_cache");
  }
};

OP_ADD(MsnsaCompressWithCache);

}  // namespace ops
