// Tiling of SoftMax, SimpleSoftMax, SoftmaxFlashV2 and SoftmaxGradFront: how many rows fit the
// temporary space at once. Used by the host functions and, for a shape that is known only there, by
// kernels.
#pragma once

#include <algorithm>

#include "twin/adv/softmax_run.h"

namespace twin {

// Floats of temporary space per row; `k` columns, `stat` bytes of an element of the statistics,
// `data` of the data.
constexpr uint32_t SoftmaxRowSpace(uint32_t k, uint32_t stat) { return 32 / stat + k + 64; }
constexpr uint32_t GradRowSpace(uint32_t k, uint32_t data, bool front) {
  if (data == 2) return 2 * 16 + 3 * k + 64;
  return (front ? 8u : 16u) + k + 64;
}
constexpr bool FlashBasicBlock(uint32_t m, uint32_t k, bool basic_block) {
  return basic_block && k % 64 == 0 && m % 8 == 0;
}
constexpr uint32_t FlashRowSpace(uint32_t k, uint32_t data, uint32_t stat, bool basic_block) {
  const uint32_t block = 32 / stat;
  if (basic_block) return block + (data == 2 ? k : 0) + (k == 1024 ? 128 : 64);
  return data == 2 ? 2 * block + k + 64 : block + 64;
}

// Rows of one pass: a multiple of 8 where possible, and a divisor of the rows where the shape is
// one of basic blocks, within the 255 repeats of an instruction.
inline uint32_t BasicBlockRows(uint32_t rows, uint32_t m, uint32_t k) {
  if (rows > 8 && m % 8 == 0 && k % 64 == 0) {
    rows = rows / 8 * 8;
    while (m % rows != 0) rows -= 8;
    while (rows * k >= 64 * 256) rows /= 2;
  }
  return rows;
}
inline uint32_t SoftmaxRows(uint32_t floats, uint32_t row_space, uint32_t m, uint32_t k) {
  uint32_t rows = std::min(floats / row_space, m);
  if (rows < m && rows > 8) rows = rows / 8 * 8;
  return BasicBlockRows(rows, m, k);
}
// A pass has a multiple of so many rows, unless it has fewer. Statistics that are not broadcast to
// blocks fill whole blocks then.
constexpr uint32_t FlashUnit(uint32_t data, bool one_per_row) {
  return one_per_row && data == 2 ? 16 : 8;
}
inline uint32_t FlashRows(uint32_t floats, uint32_t data, uint32_t stat, uint32_t m, uint32_t k,
                          bool basic_block, bool one_per_row) {
  const uint32_t unit = FlashUnit(data, one_per_row);
  const bool blocks = FlashBasicBlock(m, k, basic_block);
  uint32_t rows = std::min(floats / FlashRowSpace(k, data, stat, blocks), m);
  if (blocks) rows = BasicBlockRows(rows, m, k);
  if (rows < m && rows > unit) rows = rows / unit * unit;
  return rows;
}

inline AscendC::SoftMaxTiling MakeSoftmaxTiling(uint32_t m, uint32_t k, uint32_t stat_elements,
                                                uint32_t rows) {
  AscendC::SoftMaxTiling t;
  t.srcM = m;
  t.srcK = k;
  t.srcSize = m * k;
  t.outMaxM = m;
  t.outMaxK = stat_elements;
  t.outMaxSize = m * stat_elements;
  t.splitM = t.reduceM = rows;
  t.splitK = k;
  t.splitSize = rows * k;
  t.reduceK = stat_elements;
  t.reduceSize = rows * stat_elements;
  if (rows != 0) {
    t.rangeM = m / rows;
    t.tailM = m % rows;
  }
  t.tailSplitSize = t.tailM * k;
  t.tailReduceSize = t.tailM * stat_elements;
  return t;
}

}  // namespace twin

namespace AscendC {

// In a kernel whose shape is not the host's.
inline SoftMaxTiling SoftMaxFlashV2TilingFunc(
    const SoftMaxShapeInfo& shapeInfo, const uint32_t dataTypeSize1, const uint32_t dataTypeSize2,
    const uint32_t localWorkSpaceSize, const bool isUpdate = false, const bool isBasicBlock = false,
    const bool isDataFormatNZ = false, const bool isFlashOutputBrc = false) {
  (void)isUpdate;
  (void)isDataFormatNZ;
  const uint32_t rows =
      twin::FlashRows(localWorkSpaceSize / 4, dataTypeSize1, dataTypeSize2, shapeInfo.srcM,
                      shapeInfo.srcK, isBasicBlock, isFlashOutputBrc);
  return twin::MakeSoftmaxTiling(shapeInfo.srcM, shapeInfo.srcK, 32 / dataTypeSize2, rows);
}

}  // namespace AscendC
