// The main program of CANN's examples for running a kernel on the host.
#include <cstdio>
#include <cstring>

#ifdef ASCENDC_CPU_DEBUG
#include "tikicpulib.h"
extern "C" __global__ __aicore__ void add_custom(GM_ADDR x, GM_ADDR y, GM_ADDR z);
extern "C" __global__ __aicore__ void careless_custom(GM_ADDR x);
extern "C" __global__ __aicore__ void forgetful_custom(GM_ADDR x, GM_ADDR workspace);
extern "C" __global__ __aicore__ void printing_custom();
extern "C" __global__ __aicore__ void unsynchronised_custom(GM_ADDR x);
extern "C" __global__ __aicore__ void elements_custom(GM_ADDR x);
extern "C" __global__ __aicore__ void view_custom();
extern "C" __global__ __aicore__ void padded_custom(GM_ADDR x, GM_ADDR y);
extern "C" __global__ __aicore__ void by_workspace_custom(GM_ADDR x, GM_ADDR y, GM_ADDR workspace,
                                                          bool reads);
#else
#error "this program is for the host"
#endif

int32_t main(int32_t argc, char* argv[]) {
  const char* mode = argc > 1 ? argv[1] : "right";
  const uint32_t blocks = 8, count = 2048;
  const size_t bytes = count * sizeof(uint16_t);
  // The error case has an input that is too small for the kernel.
  auto* x = (uint8_t*)AscendC::GmAlloc(std::strcmp(mode, "short") == 0 ? bytes - 256 : bytes);
  auto* y = (uint8_t*)AscendC::GmAlloc(bytes);
  auto* z = (uint8_t*)AscendC::GmAlloc(bytes);
  auto* a = reinterpret_cast<half*>(x);
  auto* b = reinterpret_cast<half*>(y);
  const uint32_t in_x = std::strcmp(mode, "short") == 0 ? count - 128 : count;
  for (uint32_t i = 0; i < in_x; ++i) a[i] = half(static_cast<int>(i % 100));
  if (std::strcmp(mode, "unwritten") != 0) {
    for (uint32_t i = 0; i < count; ++i) b[i] = half(static_cast<int>(i % 7));
  }
  if (std::strcmp(mode, "free") == 0) AscendC::GmFree(x + 2);
  AscendC::SetKernelMode(KernelMode::AIV_MODE);
  ICPU_SET_TILING_KEY(3);
  if (std::strcmp(mode, "careless") == 0) ICPU_RUN_KF(careless_custom, 2, x);
  if (std::strcmp(mode, "forgetful") == 0) ICPU_RUN_KF(forgetful_custom, 2, z, x);
  if (std::strcmp(mode, "printing") == 0) ICPU_RUN_KF(printing_custom, 1);
  if (std::strcmp(mode, "unsynchronised") == 0) ICPU_RUN_KF(unsynchronised_custom, 1, z);
  if (std::strcmp(mode, "elements") == 0) ICPU_RUN_KF(elements_custom, 1, x);
  if (std::strcmp(mode, "view") == 0) ICPU_RUN_KF(view_custom, 1);
  if (std::strcmp(mode, "padded") == 0) {
    // The kernel writes a part of the output, and the host has written the rest.
    for (uint32_t i = 0; i < count; ++i) reinterpret_cast<half*>(z)[i] = half(0);
    ICPU_RUN_KF(padded_custom, 1, x, z);
  }
  if (std::strncmp(mode, "workspace", 9) == 0) {
    auto* workspace = (uint8_t*)AscendC::GmAlloc(256);
    ICPU_RUN_KF(by_workspace_custom, 1, x, y, workspace, std::strcmp(mode, "workspace") == 0);
    AscendC::GmFree((void*)workspace);
  }
  ICPU_RUN_KF(add_custom, blocks, x, y, z);
  uint32_t right = 0;
  for (uint32_t i = 0; i < count; ++i) {
    right += reinterpret_cast<half*>(z)[i] == static_cast<float>(i % 100 + i % 7);
  }
  std::printf("%u of %u sums are right, key %d\n", right, count, 3);
  AscendC::GmFree((void*)x);
  AscendC::GmFree((void*)y);
  AscendC::GmFree((void*)z);
  return 0;
}
