// Kernel entry of NsaCompressAttentionInfer: a cube core and two vector cores to a block.
#include "ascendc/common/keep_nan.h"
#include "ascendc/decoding/decode_row_ranking.h"
#include "ascendc/decoding/split_attention.h"
#include "ascendc/nsa_compress_attention_infer/op_kernel/nsa_compress_attention_infer_keys.h"

using nsa::ascend::NsaCompressAttentionInferTilingData;

extern "C" __global__ __aicore__ void msnsa_compress_attention_infer(
    GM_ADDR query, GM_ADDR key, GM_ADDR value, GM_ADDR block_table, GM_ADDR actual_seq_qlen,
    GM_ADDR actual_cmp_seq_kvlen, GM_ADDR actual_sel_seq_kvlen, GM_ADDR attention_out,
    GM_ADDR topk_indices, GM_ADDR workspace, GM_ADDR tiling) {
  KERNEL_TASK_TYPE_DEFAULT(KERNEL_TYPE_MIX_AIC_1_2);
  REGISTER_TILING_DEFAULT(NsaCompressAttentionInferTilingData);
  GET_TILING_DATA_WITH_STRUCT(NsaCompressAttentionInferTilingData, tiling_data, tiling);
  const nsa::ascend::NsaCompressAttentionInferArguments arguments{
      query,
      key,
      value,
      block_table,
      actual_seq_qlen,
      actual_cmp_seq_kvlen,
      actual_sel_seq_kvlen,
      attention_out,
      topk_indices,
      AscendC::GetUserWorkspace(workspace),
      &tiling_data};
  AscendC::TPipe pipe;
  const nsa::ascend::KeepNan keep_nan;
  nsa::ascend::AttendToSplits<DTYPE_QUERY, nsa::ascend::CompressedKeys,
                              nsa::ascend::DecodeRowRanking<nsa::ascend::CompressedKeys>>(
      &pipe, tiling_data.splits, arguments);
}
