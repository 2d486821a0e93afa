// The kernel of ScaleAdd. Its dtypes are macros here, not parameters of a template: CANN compiles
// each combination of dtypes by itself, and the class then is another one in each.
#pragma once

#include <cmath>

#include "kernel_operator.h"

namespace AscendC {

__aicore__ inline void LoadsWaitForStores() {
  const auto event = static_cast<event_t>(GetTPipePtr()->FetchEventID<HardEvent::MTE3_MTE2>());
  SetFlag<HardEvent::MTE3_MTE2>(event);
  WaitFlag<HardEvent::MTE3_MTE2>(event);
}

}  // namespace AscendC

class ScaleAddKernel {
 public:
  __aicore__ inline void Init(GM_ADDR x, GM_ADDR z, GM_ADDR y, GM_ADDR workspace, int64_t length) {
    length_ = static_cast<uint32_t>(length);
    const uint64_t begin = static_cast<uint64_t>(AscendC::GetBlockIdx()) * length_;
    x_.SetGlobalBuffer((__gm__ DTYPE_X*)x + begin, length_);
    if (z != nullptr) z_.SetGlobalBuffer((__gm__ DTYPE_Z_VALUE*)z + begin, length_);
    y_.SetGlobalBuffer((__gm__ DTYPE_Y*)y + begin, length_);
    if (workspace != nullptr) {
      stage_.SetGlobalBuffer((__gm__ DTYPE_Y*)AscendC::GetUserWorkspace(workspace) + begin,
                             length_);
    }
    pipe_.InitBuffer(in_, 2, length_ * sizeof(DTYPE_X));
    pipe_.InitBuffer(out_, 1, length_ * sizeof(DTYPE_Y));
  }

  __aicore__ inline void Run(bool has_z, float a, float b, float offset, bool staged) {
    const auto count = static_cast<int32_t>(length_);
    AscendC::LocalTensor<DTYPE_X> x = Load(x_);
    AscendC::LocalTensor<DTYPE_Y> y = out_.AllocTensor<DTYPE_Y>();
    AscendC::Muls(y, x, static_cast<DTYPE_X>(a), count);
    AscendC::PipeBarrier<PIPE_V>();
    AscendC::Adds(y, y, static_cast<DTYPE_X>(offset), count);
    in_.FreeTensor(x);
    if (has_z) {
      AscendC::LocalTensor<DTYPE_X> z = Load(z_);
      AscendC::PipeBarrier<PIPE_V>();
      AscendC::Axpy(y, z, static_cast<DTYPE_X>(b), count);
      in_.FreeTensor(z);
    }
    out_.EnQue(y);
    Store(staged ? stage_ : y_);
    if (!staged) return;
    // The workspace is copied to the output.
    AscendC::LoadsWaitForStores();
    x = Load(stage_);
    y = out_.AllocTensor<DTYPE_Y>();
    AscendC::Adds(y, x, static_cast<DTYPE_X>(0), count);
    in_.FreeTensor(x);
    out_.EnQue(y);
    Store(y_);
  }

 private:
  __aicore__ inline AscendC::LocalTensor<DTYPE_X> Load(const AscendC::GlobalTensor<DTYPE_X>& from) {
    AscendC::LocalTensor<DTYPE_X> tensor = in_.AllocTensor<DTYPE_X>();
    AscendC::DataCopy(tensor, from, length_);
    in_.EnQue(tensor);
    return in_.DeQue<DTYPE_X>();
  }
  __aicore__ inline void Store(const AscendC::GlobalTensor<DTYPE_Y>& to) {
    AscendC::LocalTensor<DTYPE_Y> y = out_.DeQue<DTYPE_Y>();
    AscendC::DataCopy(to, y, length_);
    out_.FreeTensor(y);
  }

  uint32_t length_ = 0;
  AscendC::TPipe pipe_;
  AscendC::TQue<AscendC::TPosition::VECIN, 2> in_;
  AscendC::TQue<AscendC::TPosition::VECOUT, 1> out_;
  AscendC::GlobalTensor<DTYPE_X> x_, z_, y_, stage_;
};
