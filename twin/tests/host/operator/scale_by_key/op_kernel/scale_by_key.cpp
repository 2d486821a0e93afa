#include "kernel_operator.h"
#include "scale_by_key_keys.h"

struct ScaleByKeyTiling {
  uint32_t length;
};

template <typename T, int FACTOR, bool NEGATE, int FORMAT>
__global__ __aicore__ void scale_by_key(GM_ADDR x, GM_ADDR y, GM_ADDR workspace, GM_ADDR tiling) {
  (void)workspace;
  GET_TILING_DATA_WITH_STRUCT(ScaleByKeyTiling, data, tiling);
  static_assert(sizeof(T) == sizeof(DTYPE_X), "only this unit's dtype");
  AscendC::GlobalTensor<T> from, to;
  from.SetGlobalBuffer(reinterpret_cast<__gm__ T*>(x), data.length);
  to.SetGlobalBuffer(reinterpret_cast<__gm__ T*>(y), data.length);
  AscendC::TPipe pipe;
  AscendC::TQueBind<AscendC::TPosition::VECIN, AscendC::TPosition::VECOUT, 1> in;
  AscendC::TQue<AscendC::TPosition::VECOUT, 1> out;
  pipe.InitBuffer(in, 1, data.length * sizeof(T));
  pipe.InitBuffer(out, 1, data.length * sizeof(T));
  AscendC::LocalTensor<T> a = in.template AllocTensor<T>();
  AscendC::DataCopy(a, from, data.length);
  AscendC::SetFlag<AscendC::HardEvent::MTE2_V>(0);
  AscendC::WaitFlag<AscendC::HardEvent::MTE2_V>(0);
  AscendC::LocalTensor<T> b = out.template AllocTensor<T>();
  constexpr int sign = NEGATE ? -1 : 1;
  constexpr int shift = FORMAT == C_FORMAT_ND ? 0 : 100;
  AscendC::Muls(b, a, static_cast<T>(sign * FACTOR + shift), data.length);
  in.FreeTensor(a);
  out.EnQue(b);
  b = out.template DeQue<T>();
  AscendC::DataCopy(to, b, data.length);
  out.FreeTensor(b);
}
