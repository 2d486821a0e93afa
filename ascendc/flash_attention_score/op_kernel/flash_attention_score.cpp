// Kernel entry of FlashAttentionScore: a cube core and two vector cores to a block.
#include "ascendc/common/keep_nan.h"
#include "ascendc/flash_attention_score/op_kernel/flash_attention_score_cube.h"
#include "ascendc/flash_attention_score/op_kernel/flash_attention_score_vector.h"

using nsa::ascend::FlashAttentionScoreTilingData;

extern "C" __global__ __aicore__ void msnsa_flash_attention(
    GM_ADDR query, GM_ADDR key, GM_ADDR value, GM_ADDR real_shift, GM_ADDR drop_mask,
    [[maybe_unused]] GM_ADDR padding_mask, GM_ADDR atten_mask, GM_ADDR prefix,
    GM_ADDR actual_seq_qlen, GM_ADDR actual_seq_kvlen, GM_ADDR q_start_idx, GM_ADDR kv_start_idx,
    GM_ADDR sink, GM_ADDR softmax_max, GM_ADDR softmax_sum, [[maybe_unused]] GM_ADDR softmax_out,
    GM_ADDR attention_out, GM_ADDR workspace, GM_ADDR tiling) {
  KERNEL_TASK_TYPE_DEFAULT(KERNEL_TYPE_MIX_AIC_1_2);
  REGISTER_TILING_DEFAULT(FlashAttentionScoreTilingData);
  GET_TILING_DATA_WITH_STRUCT(FlashAttentionScoreTilingData, tiling_data, tiling);
  GM_ADDR user = AscendC::GetUserWorkspace(workspace);
  AscendC::TPipe pipe;
  const nsa::ascend::KeepNan keep_nan;
  if ASCEND_IS_AIC {
    nsa::ascend::FlashAttentionScoreCube<DTYPE_QUERY> kernel;
    kernel.Init(&pipe, &tiling_data, query, key, value, actual_seq_qlen, actual_seq_kvlen, prefix,
                user);
    kernel.Process();
  }
  if ASCEND_IS_AIV {
    nsa::ascend::FlashAttentionScoreVector<DTYPE_QUERY> kernel;
    kernel.Init(
        &pipe, &tiling_data,
        {real_shift, drop_mask, q_start_idx, kv_start_idx, atten_mask, prefix, actual_seq_qlen,
         actual_seq_kvlen, sink, softmax_max, softmax_sum, attention_out, user});
    kernel.Process();
  }
}
