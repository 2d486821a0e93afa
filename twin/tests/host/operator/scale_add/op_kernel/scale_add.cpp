#include "scale_add_kernel.h"

extern "C" __global__ __aicore__ void scale_add(GM_ADDR x, GM_ADDR z_value, GM_ADDR step_list,
                                                GM_ADDR y, GM_ADDR block_count, GM_ADDR workspace,
                                                GM_ADDR tiling) {
  GET_TILING_DATA(data, tiling);
  const float offset = data.offset +
                       static_cast<float>(data.steps[0] + data.steps[1] + data.steps[2]) +
                       (data.share.flag == 7 ? 0.0f : 1000.0f);
  if (TILING_KEY_IS(1)) {
#if ORIG_DTYPE_X == DT_FLOAT16
    static_assert(std::is_same<DTYPE_X, half>::value && std::is_same<DTYPE_Y, half>::value);
#else
    static_assert(std::is_same<DTYPE_X, float>::value && std::is_same<DTYPE_Y, float>::value);
#endif
    ScaleAddKernel op;
    op.Init(x, z_value, y, nullptr, data.share.length);
    op.Run(data.hasZ != 0, data.a, data.b, offset, false);
  } else if (TILING_KEY_IS(2)) {
    // Leaves the whole output unwritten.
    AscendC::PipeBarrier<PIPE_ALL>();
  } else if (TILING_KEY_IS(3)) {
    // Writes into x, an input.
    AscendC::GlobalTensor<DTYPE_X> global;
    global.SetGlobalBuffer((__gm__ DTYPE_X*)x);
    global.SetValue(0, static_cast<DTYPE_X>(1));
  } else if (TILING_KEY_IS(4)) {
    ScaleAddKernel op;
    op.Init(x, z_value, y, workspace, data.share.length);
    op.Run(data.hasZ != 0, data.a, data.b, offset, true);
  }
}
