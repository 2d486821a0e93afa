// z = x + y, as a kernel of CANN's examples.
#include "kernel_operator.h"

namespace {

constexpr int32_t kTile = 128;

class AddKernel {
 public:
  __aicore__ inline void Init(GM_ADDR x, GM_ADDR y, GM_ADDR z, uint32_t total) {
    length_ = total / AscendC::GetBlockNum();
    const auto first = length_ * AscendC::GetBlockIdx();
    x_.SetGlobalBuffer((__gm__ half*)x + first, length_);
    y_.SetGlobalBuffer((__gm__ half*)y + first, length_);
    z_.SetGlobalBuffer((__gm__ half*)z + first, length_);
    pipe_.InitBuffer(in_x_, 2, kTile * sizeof(half));
    pipe_.InitBuffer(in_y_, 2, kTile * sizeof(half));
    pipe_.InitBuffer(out_, 2, kTile * sizeof(half));
  }
  __aicore__ inline void Process() {
    for (uint32_t i = 0; i < length_ / kTile; ++i) {
      AscendC::LocalTensor<half> x = in_x_.AllocTensor<half>(), y = in_y_.AllocTensor<half>();
      AscendC::DataCopy(x, x_[i * kTile], kTile);
      AscendC::DataCopy(y, y_[i * kTile], kTile);
      in_x_.EnQue(x);
      in_y_.EnQue(y);
      x = in_x_.DeQue<half>();
      y = in_y_.DeQue<half>();
      AscendC::LocalTensor<half> z = out_.AllocTensor<half>();
      AscendC::Add(z, x, y, kTile);
      out_.EnQue<half>(z);
      in_x_.FreeTensor(x);
      in_y_.FreeTensor(y);
      z = out_.DeQue<half>();
      AscendC::DataCopy(z_[i * kTile], z, kTile);
      out_.FreeTensor(z);
    }
  }

 private:
  AscendC::TPipe pipe_;
  AscendC::TQue<AscendC::QuePosition::VECIN, 2> in_x_, in_y_;
  AscendC::TQue<AscendC::QuePosition::VECOUT, 2> out_;
  AscendC::GlobalTensor<half> x_, y_, z_;
  uint32_t length_ = 0;
};

}  // namespace

extern "C" __global__ __aicore__ void add_custom(GM_ADDR x, GM_ADDR y, GM_ADDR z) {
  AddKernel kernel;
  if (TILING_KEY_IS(3)) {
    kernel.Init(x, y, z, 2048);
    kernel.Process();
  }
}

extern "C" __global__ __aicore__ void careless_custom(GM_ADDR x) {
  AscendC::GlobalTensor<half> in;
  in.SetGlobalBuffer((__gm__ half*)x);
  in.SetL2CacheHint(AscendC::CacheMode::CACHE_MODE_DISABLE);
  for (int i = 0; i < 3; ++i) AscendC::SetFlag<AscendC::HardEvent::MTE2_V>(7);
  for (int i = 0; i < 3; ++i) AscendC::WaitFlag<AscendC::HardEvent::MTE2_V>(7);
}

// Writes 32 of the 4096 bytes of x, and none of y, which the host has written.
extern "C" __global__ __aicore__ void forgetful_custom(GM_ADDR x, GM_ADDR) {
  if (AscendC::GetBlockIdx() != 0) return;
  AscendC::GlobalTensor<half> out;
  out.SetGlobalBuffer((__gm__ half*)x);
  AscendC::LocalTensor<half> t(AscendC::TPosition::VECOUT, 0, 16);
  AscendC::Duplicate(t, half(1), 16);
  AscendC::SetFlag<AscendC::HardEvent::V_MTE3>(0);
  AscendC::WaitFlag<AscendC::HardEvent::V_MTE3>(0);
  AscendC::DataCopy(out, t, 16);
}

extern "C" __global__ __aicore__ void printing_custom() {
  AscendC::LocalTensor<half> t(AscendC::TPosition::VECCALC, 0, 16);
  AscendC::Duplicate(t, half(1.5f), 16);
  AscendC::printf("half %g, %d and %s\n", half(1.5f), 7, "text");
  AscendC::DumpTensor(t, 5, 3);
}

// CANN's compiler is left this: no barrier between two vector instructions, which read 8 bytes more
// than there are.
extern "C" __global__ __aicore__ void unsynchronised_custom(GM_ADDR x) {
  AscendC::GlobalTensor<half> out;
  out.SetGlobalBuffer((__gm__ half*)x);
  AscendC::LocalTensor<half> t(AscendC::TPosition::VECCALC, 0, 128);
  AscendC::LocalTensor<half> u(AscendC::TPosition::VECCALC, 256, 128);
  AscendC::Duplicate(t, half(1), 124);
  AscendC::Adds(u, t, half(1), 128);
  AscendC::SetFlag<AscendC::HardEvent::V_MTE3>(0);
  AscendC::WaitFlag<AscendC::HardEvent::V_MTE3>(0);
  AscendC::DataCopy(out, u, 128);
}

// Elements in between: of what a vector instruction wrote, and of what one reads.
extern "C" __global__ __aicore__ void elements_custom(GM_ADDR x) {
  AscendC::GlobalTensor<half> out;
  out.SetGlobalBuffer((__gm__ half*)x);
  AscendC::LocalTensor<half> t(AscendC::TPosition::VECCALC, 0, 128);
  AscendC::LocalTensor<half> u(AscendC::TPosition::VECCALC, 256, 64);
  AscendC::DataCopy(t, out, 128);
  t.SetValue(0, t.GetValue(1));
  AscendC::Adds(u, t, half(1), 64);
  AscendC::Adds(u[32], t, half(2), 64);
  u(3) = u(2);
  AscendC::DataCopy(out, u, 64);
}

// A view from behind its tensor on, in the tensor's memory.
extern "C" __global__ __aicore__ void view_custom() {
  const AscendC::LocalTensor<half> t(AscendC::TPosition::VECCALC, 0, 64);
  AscendC::Duplicate(t[128], half(1), 16);
}

// y = exp(x) + x of 40 elements, computed for a whole tile, as is usual where a tail is short.
extern "C" __global__ __aicore__ void padded_custom(GM_ADDR x, GM_ADDR y) {
  constexpr uint32_t n = 40;
  AscendC::GlobalTensor<half> from, to;
  from.SetGlobalBuffer((__gm__ half*)x);
  to.SetGlobalBuffer((__gm__ half*)y);
  AscendC::TPipe pipe;
  AscendC::TQue<AscendC::QuePosition::VECIN, 1> in;
  AscendC::TQue<AscendC::QuePosition::VECOUT, 1> out;
  pipe.InitBuffer(in, 1, kTile * sizeof(half));
  pipe.InitBuffer(out, 1, kTile * sizeof(half));
  AscendC::LocalTensor<half> a = in.AllocTensor<half>();
  AscendC::DataCopyPad(a, from, AscendC::DataCopyExtParams(1, n * sizeof(half), 0, 0, 0),
                       AscendC::DataCopyPadExtParams<half>());
  in.EnQue(a);
  a = in.DeQue<half>();
  AscendC::LocalTensor<half> b = out.AllocTensor<half>();
  AscendC::Exp(b, a, kTile);
  AscendC::PipeBarrier<PIPE_V>();
  AscendC::Add(b, b, a, kTile);
  out.EnQue(b);
  in.FreeTensor(a);
  b = out.DeQue<half>();
  AscendC::DataCopyPad(to, b, AscendC::DataCopyExtParams(1, n * sizeof(half), 0, 0, 0));
  out.FreeTensor(b);
}

// y = x of 40 elements by way of whole tiles in a workspace, which it reads again, or forgets to.
extern "C" __global__ __aicore__ void by_workspace_custom(GM_ADDR x, GM_ADDR y, GM_ADDR workspace,
                                                          bool reads) {
  constexpr uint32_t n = 40;
  AscendC::GlobalTensor<half> from, to, between;
  from.SetGlobalBuffer((__gm__ half*)x);
  to.SetGlobalBuffer((__gm__ half*)y);
  between.SetGlobalBuffer((__gm__ half*)workspace);
  const AscendC::DataCopyExtParams tail(1, n * sizeof(half), 0, 0, 0);
  AscendC::LocalTensor<half> t(AscendC::TPosition::VECCALC, 0, kTile);
  AscendC::DataCopyPad(t, from, tail, AscendC::DataCopyPadExtParams<half>());
  AscendC::SetFlag<AscendC::HardEvent::MTE2_MTE3>(0);
  AscendC::WaitFlag<AscendC::HardEvent::MTE2_MTE3>(0);
  AscendC::DataCopy(between, t, kTile);
  AscendC::SetFlag<AscendC::HardEvent::MTE3_MTE2>(0);
  AscendC::WaitFlag<AscendC::HardEvent::MTE3_MTE2>(0);
  if (reads) AscendC::DataCopy(t, between, kTile);
  AscendC::SetFlag<AscendC::HardEvent::MTE2_MTE3>(0);
  AscendC::WaitFlag<AscendC::HardEvent::MTE2_MTE3>(0);
  AscendC::DataCopyPad(to, t, tail);
}

#ifndef ASCENDC_CPU_DEBUG
void add_custom_do(uint32_t blocks, void* stream, uint8_t* x, uint8_t* y, uint8_t* z) {
  add_custom<<<blocks, nullptr, stream>>>(x, y, z);
}
#endif
