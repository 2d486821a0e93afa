// Kernel entry of FlashAttentionScoreGrad: a cube core and two vector cores to a block.
#include "ascendc/common/keep_nan.h"
#include "ascendc/flash_attention_score_grad/op_kernel/flash_attention_score_grad_cube.h"
#include "ascendc/flash_attention_score_grad/op_kernel/flash_attention_score_grad_vector.h"

using nsa::ascend::FlashAttentionScoreGradTilingData;

extern "C" __global__ __aicore__ void msnsa_flash_attention_grad(
    GM_ADDR query, GM_ADDR key, GM_ADDR value, GM_ADDR dy, GM_ADDR pse_shift, GM_ADDR drop_mask,
    [[maybe_unused]] GM_ADDR padding_mask, GM_ADDR atten_mask, GM_ADDR softmax_max,
    GM_ADDR softmax_sum, [[maybe_unused]] GM_ADDR softmax_in, GM_ADDR attention_in, GM_ADDR prefix,
    GM_ADDR actual_seq_qlen, GM_ADDR actual_seq_kvlen, GM_ADDR q_start_idx, GM_ADDR kv_start_idx,
    GM_ADDR sink, GM_ADDR q_offset, GM_ADDR softmax_sum_grad, GM_ADDR dq, GM_ADDR dk, GM_ADDR dv,
    GM_ADDR dpse, GM_ADDR dsink, GM_ADDR workspace, GM_ADDR tiling) {
  KERNEL_TASK_TYPE_DEFAULT(KERNEL_TYPE_MIX_AIC_1_2);
  REGISTER_TILING_DEFAULT(FlashAttentionScoreGradTilingData);
  GET_TILING_DATA_WITH_STRUCT(FlashAttentionScoreGradTilingData, tiling_data, tiling);
  const nsa::ascend::FlashAttentionScoreGradArguments arguments{
      query,
      key,
      value,
      dy,
      attention_in,
      pse_shift,
      drop_mask,
      q_start_idx,
      kv_start_idx,
      atten_mask,
      prefix,
      actual_seq_qlen,
      actual_seq_kvlen,
      q_offset,
      softmax_max,
      softmax_sum,
      softmax_sum_grad,
      dq,
      dk,
      dv,
      dpse,
      dsink,
      sink,
      AscendC::GetUserWorkspace(workspace)};
  AscendC::TPipe pipe;
  const nsa::ascend::KeepNan keep_nan;
  if ASCEND_IS_AIC {
    nsa::ascend::FlashAttentionScoreGradCube<DTYPE_QUERY> kernel;
    kernel.Init(&pipe, &tiling_data, arguments);
    AscendC::SyncAll<false>();
    kernel.Process();
    if (tiling_data.key_parts > 1) AscendC::SyncAll<false>();
  }
  if ASCEND_IS_AIV {
    nsa::ascend::FlashAttentionScoreGradVector<DTYPE_QUERY> kernel;
    kernel.Init(&pipe, &tiling_data, arguments);
    kernel.Prepare();
    AscendC::SyncAll<false>();
    kernel.Process();
    if (tiling_data.key_parts > 1) {
      AscendC::SyncAll<false>();
      kernel.FinishParts();
    }
  }
}
