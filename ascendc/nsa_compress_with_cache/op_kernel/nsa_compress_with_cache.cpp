// Kernel entry of NsaCompressWithCache, vector cores only.
#include "ascendc/common/keep_nan.h"
#include "ascendc/nsa_compress_with_cache/op_kernel/nsa_compress_with_cache_kernel.h"

using nsa::ascend::NsaCompressWithCacheTilingData;

// The cache is an input and an output, of the same memory.
extern "C" __global__ __aicore__ void msnsa_compress_with_cache(
    GM_ADDR input, GM_ADDR weight, GM_ADDR slot_mapping, [[maybe_unused]] GM_ADDR cache,
    GM_ADDR act_seq_len, GM_ADDR block_table, GM_ADDR rows, GM_ADDR cache_ref,
    [[maybe_unused]] GM_ADDR workspace, GM_ADDR tiling) {
  KERNEL_TASK_TYPE_DEFAULT(KERNEL_TYPE_AIV_ONLY);
  REGISTER_TILING_DEFAULT(NsaCompressWithCacheTilingData);
  GET_TILING_DATA_WITH_STRUCT(NsaCompressWithCacheTilingData, tiling_data, tiling);
  AscendC::TPipe pipe;
  const nsa::ascend::KeepNan keep_nan;
  nsa::ascend::NsaCompressWithCacheKernel<DTYPE_INPUT> kernel;
  kernel.Init(&pipe, input, weight, slot_mapping, act_seq_len, block_table, rows, cache_ref,
              &tiling_data);
  kernel.Process();
}
