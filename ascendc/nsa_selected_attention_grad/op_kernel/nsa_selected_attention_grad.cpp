// Kernel entry of NsaSelectedAttentionGrad: a cube core and two vector cores to a block.
#include "ascendc/common/keep_nan.h"
#include "ascendc/nsa_selected_attention_grad/op_kernel/nsa_selected_attention_grad_cube.h"
#include "ascendc/nsa_selected_attention_grad/op_kernel/nsa_selected_attention_grad_vector.h"

using nsa::ascend::NsaSelectedAttentionGradTilingData;

extern "C" __global__ __aicore__ void msnsa_selected_attention_grad(
    GM_ADDR query, GM_ADDR key, GM_ADDR value, GM_ADDR attention_out, GM_ADDR attention_out_grad,
    GM_ADDR softmax_max, GM_ADDR softmax_sum, GM_ADDR topk_indices, GM_ADDR actual_seq_qlen,
    GM_ADDR actual_seq_kvlen, [[maybe_unused]] GM_ADDR atten_mask, GM_ADDR q_offset,
    GM_ADDR softmax_sum_grad, GM_ADDR dq, GM_ADDR dk, GM_ADDR dv, GM_ADDR workspace,
    GM_ADDR tiling) {
  KERNEL_TASK_TYPE_DEFAULT(KERNEL_TYPE_MIX_AIC_1_2);
  REGISTER_TILING_DEFAULT(NsaSelectedAttentionGradTilingData);
  GET_TILING_DATA_WITH_STRUCT(NsaSelectedAttentionGradTilingData, tiling_data, tiling);
  const nsa::ascend::NsaSelectedAttentionGradArguments arguments{
      query,
      key,
      value,
      attention_out,
      attention_out_grad,
      softmax_max,
      softmax_sum,
      softmax_sum_grad,
      topk_indices,
      actual_seq_qlen,
      actual_seq_kvlen,
      q_offset,
      dq,
      dk,
      dv,
      AscendC::GetUserWorkspace(workspace)};
  AscendC::TPipe pipe;
  const nsa::ascend::KeepNan keep_nan;
  // The lists of all queries, then the counts of all blocks, then the lists of these.
  if ASCEND_IS_AIC {
    nsa::ascend::NsaSelectedAttentionGradCube<DTYPE_QUERY> kernel;
    kernel.Init(&pipe, &tiling_data, arguments);
    for (int32_t phase = 0; phase < 3; ++phase) AscendC::SyncAll<false>();
    kernel.Process();
  }
  if ASCEND_IS_AIV {
    nsa::ascend::NsaSelectedAttentionGradVector<DTYPE_QUERY> kernel;
    kernel.Init(&pipe, &tiling_data, arguments);
    kernel.SortLists();
    AscendC::SyncAll<false>();
    kernel.CountQueries();
    AscendC::SyncAll<false>();
    kernel.ListQueries();
    AscendC::SyncAll<false>();
    kernel.Process();
  }
}
