// A kernel of your own on the twin: python -m ascendc_twin run own_kernel.cpp
#include "kernel_operator.h"

// y = max(x, 0) of 128 floats on each core.
extern "C" __global__ __aicore__ void relu(GM_ADDR x, GM_ADDR y) {
  KERNEL_TASK_TYPE_DEFAULT(KERNEL_TYPE_AIV_ONLY);
  constexpr uint32_t n = 128;
  AscendC::GlobalTensor<float> from, to;
  from.SetGlobalBuffer(reinterpret_cast<__gm__ float*>(x) + n * AscendC::GetBlockIdx(), n);
  to.SetGlobalBuffer(reinterpret_cast<__gm__ float*>(y) + n * AscendC::GetBlockIdx(), n);
  AscendC::TPipe pipe;
  AscendC::TQueBind<AscendC::TPosition::VECIN, AscendC::TPosition::VECOUT, 1> queue;
  pipe.InitBuffer(queue, 1, n * sizeof(float));
  AscendC::LocalTensor<float> a = queue.AllocTensor<float>();
  AscendC::DataCopy(a, from, n);
  queue.EnQue<AscendC::TPosition::GM, AscendC::TPosition::VECIN>(a);
  a = queue.DeQue<AscendC::TPosition::GM, AscendC::TPosition::VECIN, float>();
  AscendC::Relu(a, a, n);
  queue.EnQue<AscendC::TPosition::VECOUT, AscendC::TPosition::GM>(a);
  a = queue.DeQue<AscendC::TPosition::VECOUT, AscendC::TPosition::GM, float>();
  AscendC::DataCopy(to, a, n);
  queue.FreeTensor(a);
}

#include <cstdio>

#include "tikicpulib.h"

int main() {
  constexpr int cores = 2, n = 128 * cores;
  float* x = static_cast<float*>(AscendC::GmAlloc(n * sizeof(float)));
  float* y = static_cast<float*>(AscendC::GmAlloc(n * sizeof(float)));
  for (int i = 0; i < n; ++i) x[i] = i % 2 ? i : -i;
  AscendC::SetKernelMode(KernelMode::AIV_MODE);
  ICPU_RUN_KF(relu, cores, reinterpret_cast<GM_ADDR>(x), reinterpret_cast<GM_ADDR>(y));
  std::printf("%g %g %g\n", y[1], y[2], y[n - 1]);
}
