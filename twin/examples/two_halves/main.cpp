// Runs the two halves of a kernel as one. On the device the call would be
//   scaled_product<<<blocks, nullptr, stream>>>(a, b, c, alpha);
#include <cstdio>

#include "kernel_operator.h"
#include "tikicpulib.h"

extern "C" void cube_half(GM_ADDR a, GM_ADDR b, GM_ADDR c, float alpha);
extern "C" void vector_half(GM_ADDR a, GM_ADDR b, GM_ADDR c, float alpha);

extern "C" __global__ __aicore__ void scaled_product(GM_ADDR a, GM_ADDR b, GM_ADDR c, float alpha) {
  KERNEL_TASK_TYPE_DEFAULT(KERNEL_TYPE_MIX_AIC_1_2);
  g_coreType == AscendC::AIC ? cube_half(a, b, c, alpha) : vector_half(a, b, c, alpha);
}

int main() {
  constexpr int blocks = 3, tile = 64, rows = blocks * tile;
  half* a = static_cast<half*>(AscendC::GmAlloc(rows * tile * sizeof(half)));
  half* b = static_cast<half*>(AscendC::GmAlloc(tile * tile * sizeof(half)));
  float* c = static_cast<float*>(AscendC::GmAlloc(rows * tile * sizeof(float)));
  for (int i = 0; i < rows * tile; ++i) a[i] = i % 7 - 3;
  for (int i = 0; i < tile * tile; ++i) b[i] = i % 5 - 2;

  ICPU_RUN_KF(scaled_product, blocks, reinterpret_cast<GM_ADDR>(a), reinterpret_cast<GM_ADDR>(b),
              reinterpret_cast<GM_ADDR>(c), 0.5f);

  int wrong = 0;
  for (int row = 0; row < rows; ++row) {
    for (int column = 0; column < tile; ++column) {
      float sum = 0;
      for (int k = 0; k < tile; ++k) {
        sum += static_cast<float>(a[row * tile + k]) * static_cast<float>(b[k * tile + column]);
      }
      wrong += c[row * tile + column] != 0.5f * sum;
    }
  }
  std::printf("%d of %d elements are wrong\n", wrong, rows * tile);
  for (void* memory : {static_cast<void*>(a), static_cast<void*>(b), static_cast<void*>(c)}) {
    AscendC::GmFree(memory);
  }
  return wrong != 0;
}
