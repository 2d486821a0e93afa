// Helpers of the cube's test kernels. Tensors lie at fixed addresses; what a memory without a path
// to GM holds is copied out behind the twin's back.
#pragma once

#include <cstring>

#include "twin/tests/harness.h"

namespace cube_test {

using namespace AscendC;
using harness::Order;

template <typename T>
LocalTensor<T> At(TPosition position, uint32_t address, uint64_t bytes) {
  return LocalTensor<T>(position, address, static_cast<uint32_t>(bytes / sizeof(T)));
}

template <typename T>
void Dump(GM_ADDR to, const LocalTensor<T>& from, uint64_t bytes) {
  std::memcpy(to, from.GetPhyAddr(), bytes);
}
template <typename T>
void Poison(const LocalTensor<T>& tensor, uint64_t bytes) {
  std::memset(tensor.GetPhyAddr(), 0xee, bytes);
}

// `bytes` of GM, a multiple of 512, into L0A or L0B as they are.
template <typename T>
void LoadFractals(const LocalTensor<T>& to, GM_ADDR from, int64_t bytes) {
  auto source = harness::Global<T>(from);
  for (int64_t at = 0; at < bytes / 512; at += 255) {
    const int64_t here = bytes / 512 - at < 255 ? bytes / 512 - at : 255;
    LoadData2DParams params;
    params.repeatTimes = here;
    params.srcStride = 1;
    const uint32_t skipped = static_cast<uint32_t>(at * 512 / sizeof(T));
    LoadData(to[skipped], source[skipped], params);
  }
}

}  // namespace cube_test
