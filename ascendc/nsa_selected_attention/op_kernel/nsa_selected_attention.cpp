// Kernel entry of NsaSelectedAttention: a cube core and two vector cores to a block.
#include "ascendc/common/keep_nan.h"
#include "ascendc/nsa_selected_attention/op_kernel/nsa_selected_attention_cube.h"
#include "ascendc/nsa_selected_attention/op_kernel/nsa_selected_attention_vector.h"

using nsa::ascend::NsaSelectedAttentionTilingData;

extern "C" __global__ __aicore__ void msnsa_selected_attention(
    GM_ADDR query, GM_ADDR key, GM_ADDR value, GM_ADDR topk_indices,
    [[maybe_unused]] GM_ADDR atten_mask, GM_ADDR actual_seq_qlen, GM_ADDR actual_seq_kvlen,
    GM_ADDR q_offset, GM_ADDR softmax_max, GM_ADDR softmax_sum, GM_ADDR attention_out,
    GM_ADDR workspace, GM_ADDR tiling) {
  KERNEL_TASK_TYPE_DEFAULT(KERNEL_TYPE_MIX_AIC_1_2);
  REGISTER_TILING_DEFAULT(NsaSelectedAttentionTilingData);
  GET_TILING_DATA_WITH_STRUCT(NsaSelectedAttentionTilingData, tiling_data, tiling);
  const nsa::ascend::NsaSelectedAttentionArguments arguments{query,
                                                             key,
                                                             value,
                                                             topk_indices,
                                                             actual_seq_qlen,
                                                             actual_seq_kvlen,
                                                             q_offset,
                                                             softmax_max,
                                                             softmax_sum,
                                                             attention_out,
                                                             AscendC::GetUserWorkspace(workspace)};
  AscendC::TPipe pipe;
  const nsa::ascend::KeepNan keep_nan;
  if ASCEND_IS_AIC {
    nsa::ascend::NsaSelectedAttentionCube<DTYPE_QUERY> kernel;
    kernel.Init(&pipe, &tiling_data, arguments);
    AscendC::SyncAll<false>();
    kernel.Process();
  }
  if ASCEND_IS_AIV {
    nsa::ascend::NsaSelectedAttentionVector<DTYPE_QUERY> kernel;
    kernel.Init(&pipe, &tiling_data, arguments);
    kernel.Prepare();
    AscendC::SyncAll<false>();
    kernel.Process();
  }
}
