// Host and kernel share these of TopK: its modes and its temporary space.
#pragma once

#include <cstdint>

namespace AscendC {

enum class TopKMode {
  TOPK_NORMAL,
  TOPK_NSMALL,
};
enum class TopKAlgo { RADIX_SELECT, MERGE_SORT };
enum class TopKOrder { UNSET, LARGEST, SMALLEST };

}  // namespace AscendC

namespace twin {

// Bytes of temporary space.
constexpr uint32_t TopKSpace(uint32_t inner, uint32_t outter, bool with_index, bool small,
                             bool largest) {
  if (!small) return (with_index ? 16 : 20) * inner;
  return inner * outter * (8 + (largest ? 0 : 4) + (with_index ? 0 : 4)) + 64;
}

}  // namespace twin
