// Kernel entry of NsaCompressAttention: a cube core and two vector cores to a block.
#include "ascendc/common/keep_nan.h"
#include "ascendc/nsa_compress_attention/op_kernel/nsa_compress_attention_cube.h"
#include "ascendc/nsa_compress_attention/op_kernel/nsa_compress_attention_vector.h"

using nsa::ascend::NsaCompressAttentionTilingData;

extern "C" __global__ __aicore__ void msnsa_compress_attention(
    GM_ADDR query, GM_ADDR key, GM_ADDR value, GM_ADDR atten_mask, GM_ADDR topk_mask,
    GM_ADDR actual_seq_qlen, GM_ADDR actual_cmp_seq_kvlen,
    [[maybe_unused]] GM_ADDR actual_sel_seq_kvlen, GM_ADDR q_offset, GM_ADDR softmax_max,
    GM_ADDR softmax_sum, GM_ADDR attention_out, GM_ADDR topk_indices, GM_ADDR workspace,
    GM_ADDR tiling) {
  KERNEL_TASK_TYPE_DEFAULT(KERNEL_TYPE_MIX_AIC_1_2);
  REGISTER_TILING_DEFAULT(NsaCompressAttentionTilingData);
  GET_TILING_DATA_WITH_STRUCT(NsaCompressAttentionTilingData, tiling_data, tiling);
  const nsa::ascend::NsaCompressAttentionArguments arguments{query,
                                                             key,
                                                             value,
                                                             atten_mask,
                                                             topk_mask,
                                                             actual_seq_qlen,
                                                             actual_cmp_seq_kvlen,
                                                             q_offset,
                                                             softmax_max,
                                                             softmax_sum,
                                                             attention_out,
                                                             topk_indices,
                                                             AscendC::GetUserWorkspace(workspace)};
  AscendC::TPipe pipe;
  const nsa::ascend::KeepNan keep_nan;
  if ASCEND_IS_AIC {
    nsa::ascend::NsaCompressAttentionCube<DTYPE_QUERY> kernel;
    kernel.Init(&pipe, &tiling_data, arguments);
    kernel.Process();
  }
  if ASCEND_IS_AIV {
    nsa::ascend::NsaCompressAttentionVector<DTYPE_QUERY> kernel;
    kernel.Init(&pipe, &tiling_data, arguments);
    kernel.Process();
  }
}
