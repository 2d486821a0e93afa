// Kernel entry of NsaCompress, vector cores only.
#include "ascendc/common/keep_nan.h"
#include "ascendc/nsa_compress/op_kernel/nsa_compress_kernel.h"

using nsa::ascend::NsaCompressTilingData;

extern "C" __global__ __aicore__ void msnsa_compress(GM_ADDR input, GM_ADDR weight,
                                                     GM_ADDR act_seq_len, GM_ADDR output,
                                                     [[maybe_unused]] GM_ADDR workspace,
                                                     GM_ADDR tiling) {
  KERNEL_TASK_TYPE_DEFAULT(KERNEL_TYPE_AIV_ONLY);
  REGISTER_TILING_DEFAULT(NsaCompressTilingData);
  GET_TILING_DATA_WITH_STRUCT(NsaCompressTilingData, tiling_data, tiling);
  AscendC::TPipe pipe;
  const nsa::ascend::KeepNan keep_nan;
  nsa::ascend::NsaCompressKernel<DTYPE_INPUT> kernel;
  kernel.Init(&pipe, input, weight, act_seq_len, output, &tiling_data);
  kernel.Process();
}
