// Kernel entry of NsaCompressGrad, vector cores only.
#include "ascendc/common/keep_nan.h"
#include "ascendc/nsa_compress_grad/op_kernel/nsa_compress_grad_kernel.h"
#include "ascendc/nsa_compress_grad/op_kernel/weight_grad_sum.h"

using nsa::ascend::NsaCompressGradTilingData;

extern "C" __global__ __aicore__ void msnsa_compress_grad(GM_ADDR output_grad, GM_ADDR input,
                                                          GM_ADDR weight, GM_ADDR act_seq_len,
                                                          GM_ADDR input_grad, GM_ADDR weight_grad,
                                                          GM_ADDR workspace, GM_ADDR tiling) {
  // Flags between cores, which SyncAll sets, do not work in a kernel of type AIV_ONLY.
  KERNEL_TASK_TYPE_DEFAULT(KERNEL_TYPE_MIX_AIV_1_0);
  REGISTER_TILING_DEFAULT(NsaCompressGradTilingData);
  GET_TILING_DATA_WITH_STRUCT(NsaCompressGradTilingData, tiling_data, tiling);
  GM_ADDR partial = AscendC::GetUserWorkspace(workspace);
  AscendC::TPipe pipe;
  const nsa::ascend::KeepNan keep_nan;
  nsa::ascend::NsaCompressGradKernel<DTYPE_INPUT> gradients;
  gradients.Init(&pipe, output_grad, input, weight, act_seq_len, input_grad, partial, &tiling_data);
  gradients.Process();
  AscendC::SyncAll();
  pipe.Reset();
  nsa::ascend::WeightGradSum<DTYPE_INPUT> sum;
  sum.Init(&pipe, partial, weight_grad, tiling_data);
  sum.Process();
}
