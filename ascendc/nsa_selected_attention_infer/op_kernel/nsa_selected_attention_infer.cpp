// Kernel entry of NsaSelectedAttentionInfer: a cube core and two vector cores to a block.
#include "ascendc/common/keep_nan.h"
#include "ascendc/decoding/split_attention.h"
#include "ascendc/nsa_selected_attention_infer/op_kernel/nsa_selected_attention_infer_keys.h"

using nsa::ascend::NsaSelectedAttentionInferTilingData;

extern "C" __global__ __aicore__ void msnsa_selected_attention_infer(
    GM_ADDR query, GM_ADDR key, GM_ADDR value, GM_ADDR topk_indices, GM_ADDR block_table,
    GM_ADDR actual_seq_qlen, GM_ADDR actual_seq_kvlen, GM_ADDR attention_out, GM_ADDR workspace,
    GM_ADDR tiling) {
  KERNEL_TASK_TYPE_DEFAULT(KERNEL_TYPE_MIX_AIC_1_2);
  REGISTER_TILING_DEFAULT(NsaSelectedAttentionInferTilingData);
  GET_TILING_DATA_WITH_STRUCT(NsaSelectedAttentionInferTilingData, tiling_data, tiling);
  const nsa::ascend::NsaSelectedAttentionInferArguments arguments{
      query,
      key,
      value,
      topk_indices,
      block_table,
      actual_seq_qlen,
      actual_seq_kvlen,
      attention_out,
      AscendC::GetUserWorkspace(workspace),
      &tiling_data};
  AscendC::TPipe pipe;
  const nsa::ascend::KeepNan keep_nan;
  nsa::ascend::AttendToSplits<DTYPE_QUERY, nsa::ascend::SelectedKeys>(&pipe, tiling_data.splits,
                                                                      arguments);
}
