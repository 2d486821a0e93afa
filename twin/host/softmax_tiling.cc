// Every function has a form: the temporary space of a row, and the least rows of a pass.
#include "lib/activation/softmax_tiling.h"

#include <algorithm>

#include "twin/adv/softmax_tiling.h"
#include "twin/host/adv_tiling.h"
#include "twin/host/log.h"

namespace {

using AscendC::TensorShape;
using AscendC::tiling::SoftMaxTiling;

struct Flash {
  uint32_t data;  // bytes of an element
  uint32_t stat;
  bool basic_block;
  bool one_per_row;
};

struct Need {
  twin::Rows2D shape;
  uint32_t row_floats = 0;  // 0: the arguments make no sense
  uint32_t least_rows = 1;

  uint32_t Bytes(uint32_t rows) const {
    const uint64_t bytes = uint64_t{row_floats} * rows * sizeof(float);
    return static_cast<uint32_t>(std::min<uint64_t>(bytes, UINT32_MAX));
  }
  uint32_t Least() const { return Bytes(least_rows); }
  uint32_t Most() const { return Bytes(shape.rows); }
};

Need NeedOf(const char* function, const TensorShape& shape, uint32_t stat) {
  Need need;
  if (twin::CheckTypeSize(function, "dataTypeSize", stat, "2 or 4") &&
      twin::GetRows(function, "srcShape", shape, &need.shape)) {
    need.row_floats = twin::SoftmaxRowSpace(need.shape.columns, stat);
  }
  return need;
}

Need NeedOfGrad(const char* function, const TensorShape& shape, uint32_t data, bool front) {
  Need need;
  if (twin::CheckTypeSize(function, "dataTypeSize", data, "2 or 4") &&
      twin::GetRows(function, "srcShape", shape, &need.shape)) {
    need.row_floats = twin::GradRowSpace(need.shape.columns, data, front);
  }
  return need;
}

Need NeedOfFlash(const char* function, const TensorShape& shape, const Flash& flash) {
  Need need;
  if (twin::CheckTypeSize(function, "dataTypeSize1", flash.data, "2 or 4") &&
      twin::CheckTypeSize(function, "dataTypeSize2", flash.stat, "2 or 4") &&
      twin::GetRows(function, "srcShape", shape, &need.shape)) {
    const twin::Rows2D& s = need.shape;
    const bool blocks = twin::FlashBasicBlock(s.rows, s.columns, flash.basic_block);
    need.row_floats = twin::FlashRowSpace(s.columns, flash.data, flash.stat, blocks);
    if (flash.one_per_row) need.least_rows = std::min(s.rows, twin::FlashUnit(flash.data, true));
  }
  return need;
}

// Tiling for a pass of rows(floats of temporary space); without rows where the space is too small,
// which the kernel refuses.
template <class Rows>
SoftMaxTiling MakeTiling(const char* function, const Need& need, uint32_t stat, uint32_t bytes,
                         Rows rows) {
  if (need.row_floats == 0) return {};
  if (bytes < need.Least()) {
    twin::LogError(function, "localWorkSpaceSize must be at least " + std::to_string(need.Least()) +
                                 " bytes for this shape, got " + std::to_string(bytes));
  }
  const uint32_t floats = bytes / static_cast<uint32_t>(sizeof(float));
  return twin::MakeSoftmaxTiling(need.shape.rows, need.shape.columns, 32 / stat,
                                 bytes < need.Least() ? 0 : rows(floats));
}

void Assign(const SoftMaxTiling& from, SoftMaxTiling* to) { *to = from; }
void Assign(const SoftMaxTiling& from, optiling::SoftMaxTiling* to) {
#define TWIN_ASSIGN(type, name) to->set_##name(from.name);
  TWIN_SOFTMAX_TILING(TWIN_ASSIGN)
#undef TWIN_ASSIGN
}

template <class Tiling>
void TileSoftmax(const TensorShape& shape, uint32_t stat, uint32_t bytes, Tiling* tiling) {
  const char* function = "SoftMaxTilingFunc";
  const Need need = NeedOf(function, shape, stat);
  Assign(MakeTiling(function, need, stat, bytes,
                    [&](uint32_t floats) {
                      return twin::SoftmaxRows(floats, need.row_floats, need.shape.rows,
                                               need.shape.columns);
                    }),
         tiling);
}

template <class Tiling>
void TileGrad(const TensorShape& shape, uint32_t data, uint32_t bytes, bool front, Tiling* tiling) {
  const char* function = "SoftMaxGradTilingFunc";
  const Need need = NeedOfGrad(function, shape, data, front);
  Assign(MakeTiling(function, need, data, bytes,
                    [&](uint32_t floats) {
                      return twin::SoftmaxRows(floats, need.row_floats, need.shape.rows,
                                               need.shape.columns);
                    }),
         tiling);
}

template <class Tiling>
void TileFlash(const TensorShape& shape, const Flash& flash, uint32_t bytes, Tiling* tiling) {
  const char* function = "SoftMaxFlashV2TilingFunc";
  const Need need = NeedOfFlash(function, shape, flash);
  Assign(MakeTiling(function, need, flash.stat, bytes,
                    [&](uint32_t floats) {
                      return twin::FlashRows(floats, flash.data, flash.stat, need.shape.rows,
                                             need.shape.columns, flash.basic_block,
                                             flash.one_per_row);
                    }),
         tiling);
}

bool IsBasicBlock(uint32_t m, uint32_t k, uint32_t data) {
  return data != 0 && k % 64 == 0 && k < 2048 && k >= 256 / data && m != 0 && m % 8 == 0;
}

}  // namespace

namespace AscendC {

uint32_t GetSoftMaxMinTmpSize(const TensorShape& srcShape, const uint32_t dataTypeSize,
                              const bool) {
  return NeedOf("GetSoftMaxMinTmpSize", srcShape, dataTypeSize).Least();
}

uint32_t GetSoftMaxMaxTmpSize(const TensorShape& srcShape, const uint32_t dataTypeSize,
                              const bool) {
  return NeedOf("GetSoftMaxMaxTmpSize", srcShape, dataTypeSize).Most();
}

void SoftMaxTilingFunc(const TensorShape& srcShape, const uint32_t dataTypeSize,
                       const uint32_t localWorkSpaceSize, optiling::SoftMaxTiling& softmaxTiling) {
  TileSoftmax(srcShape, dataTypeSize, localWorkSpaceSize, &softmaxTiling);
}

void SoftMaxTilingFunc(const TensorShape& srcShape, const uint32_t dataTypeSize,
                       const uint32_t localWorkSpaceSize, tiling::SoftMaxTiling& softmaxTiling) {
  TileSoftmax(srcShape, dataTypeSize, localWorkSpaceSize, &softmaxTiling);
}

uint32_t GetSoftMaxFlashV2MinTmpSize(const TensorShape& srcShape, const uint32_t dataTypeSize1,
                                     const uint32_t dataTypeSize2, const bool,
                                     const bool isBasicBlock, const bool isFlashOutputBrc) {
  const Flash flash{dataTypeSize1, dataTypeSize2, isBasicBlock, isFlashOutputBrc};
  return NeedOfFlash("GetSoftMaxFlashV2MinTmpSize", srcShape, flash).Least();
}

uint32_t GetSoftMaxFlashV2MaxTmpSize(const TensorShape& srcShape, const uint32_t dataTypeSize1,
                                     const uint32_t dataTypeSize2, const bool,
                                     const bool isBasicBlock, const bool isFlashOutputBrc) {
  const Flash flash{dataTypeSize1, dataTypeSize2, isBasicBlock, isFlashOutputBrc};
  return NeedOfFlash("GetSoftMaxFlashV2MaxTmpSize", srcShape, flash).Most();
}

void SoftMaxFlashV2TilingFunc(const TensorShape& srcShape, const uint32_t dataTypeSize1,
                              const uint32_t dataTypeSize2, const uint32_t localWorkSpaceSize,
                              optiling::SoftMaxTiling& softmaxFlashTiling, const bool,
                              const bool isBasicBlock, const bool isFlashOutputBrc) {
  const Flash flash{dataTypeSize1, dataTypeSize2, isBasicBlock, isFlashOutputBrc};
  TileFlash(srcShape, flash, localWorkSpaceSize, &softmaxFlashTiling);
}

void SoftMaxFlashV2TilingFunc(const TensorShape& srcShape, const uint32_t dataTypeSize1,
                              const uint32_t dataTypeSize2, const uint32_t localWorkSpaceSize,
                              tiling::SoftMaxTiling& softmaxFlashTiling, const bool,
                              const bool isBasicBlock, const bool isFlashOutputBrc) {
  const Flash flash{dataTypeSize1, dataTypeSize2, isBasicBlock, isFlashOutputBrc};
  TileFlash(srcShape, flash, localWorkSpaceSize, &softmaxFlashTiling);
}

uint32_t GetSoftMaxGradMinTmpSize(const TensorShape& srcShape, const uint32_t dataTypeSize,
                                  const bool isFront, const bool) {
  return NeedOfGrad("GetSoftMaxGradMinTmpSize", srcShape, dataTypeSize, isFront).Least();
}

uint32_t GetSoftMaxGradMaxTmpSize(const TensorShape& srcShape, const uint32_t dataTypeSize,
                                  const bool isFront, const bool) {
  return NeedOfGrad("GetSoftMaxGradMaxTmpSize", srcShape, dataTypeSize, isFront).Most();
}

void SoftMaxGradTilingFunc(const TensorShape& srcShape, const uint32_t dataTypeSize,
                           const uint32_t localWorkSpaceSize,
                           optiling::SoftMaxTiling& softmaxGradTiling, const bool isFront) {
  TileGrad(srcShape, dataTypeSize, localWorkSpaceSize, isFront, &softmaxGradTiling);
}

void SoftMaxGradTilingFunc(const TensorShape& srcShape, const uint32_t dataTypeSize,
                           const uint32_t localWorkSpaceSize,
                           tiling::SoftMaxTiling& softmaxGradTiling, const bool isFront) {
  TileGrad(srcShape, dataTypeSize, localWorkSpaceSize, isFront, &softmaxGradTiling);
}

bool IsBasicBlockInSoftMax(optiling::SoftMaxTiling& tiling, const uint32_t dataTypeSize) {
  return IsBasicBlock(tiling.get_srcM(), tiling.get_srcK(), dataTypeSize);
}

bool IsBasicBlockInSoftMax(tiling::SoftMaxTiling& tiling, const uint32_t dataTypeSize) {
  return IsBasicBlock(tiling.srcM, tiling.srcK, dataTypeSize);
}

}  // namespace AscendC
