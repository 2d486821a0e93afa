#include "lib/sort/topk_tiling.h"

#include "twin/adv/topk_space.h"
#include "twin/host/adv_tiling.h"
#include "twin/host/log.h"

namespace {

using AscendC::TopKMode;
using AscendC::tiling::TopkTiling;

struct TopKShape {
  int32_t inner;
  int32_t outter;
  uint32_t data;  // bytes of an element
  bool with_index;
  bool small;
  bool largest;

  uint32_t Space() const {
    return twin::TopKSpace(static_cast<uint32_t>(inner), static_cast<uint32_t>(outter), with_index,
                           small, largest);
  }
};

bool Refuse(const char* function, const std::string& what) {
  twin::LogError(function, what);
  return false;
}

bool Check(const char* function, const TopKShape& shape) {
  if (!twin::CheckTypeSize(function, "dataTypeSize", shape.data, "2 or 4")) return false;
  if (shape.small && shape.inner != 32) {
    return Refuse(function, "inner must be 32 for TOPK_NSMALL, got " + std::to_string(shape.inner));
  }
  if (shape.inner < 32 || shape.inner > 4096 || shape.inner % 32 != 0) {
    return Refuse(function,
                  "inner must be a multiple of 32 up to 4096, got " + std::to_string(shape.inner));
  }
  if (shape.outter < 1 || shape.outter > (1 << 20)) {
    return Refuse(function,
                  "outter must be positive and at most 2^20, got " + std::to_string(shape.outter));
  }
  return true;
}

uint32_t AlignUp(int32_t value, uint32_t unit) {
  return (static_cast<uint32_t>(value) + unit - 1) / unit * unit;
}

// The twin's kernel checks these members, or a program may read them. It sorts a row at once,
// without the passes that the other members are for.
bool Fill(const TopKShape& shape, int32_t k, TopkTiling* tiling) {
  const char* function = "TopKTilingFunc";
  if (!Check(function, shape)) return false;
  if (k < 1 || k > shape.inner) {
    return Refuse(function, "k must be 1 to inner, " + std::to_string(shape.inner) + ", got " +
                                std::to_string(k));
  }
  tiling->tmpLocalSize = static_cast<int32_t>(shape.Space() / shape.data);
  tiling->allDataSize = shape.inner * shape.outter;
  tiling->innerDataSize = shape.inner * static_cast<int32_t>(8 / shape.data);
  tiling->sortRepeat = static_cast<uint32_t>(shape.inner) / 32;
  tiling->kAlignFourBytes = static_cast<int32_t>(AlignUp(k, 8));
  tiling->kAlignTwoBytes = static_cast<int32_t>(AlignUp(k, 16));
  return true;
}

}  // namespace

namespace AscendC {

bool GetTopKMaxMinTmpSize(const platform_ascendc::PlatformAscendC&, const int32_t inner,
                          const int32_t outter, const bool, const bool isInitIndex,
                          enum TopKMode mode, const bool isLargest, const uint32_t dataTypeSize,
                          uint32_t& maxValue, uint32_t& minValue) {
  const TopKShape shape{inner,    outter, dataTypeSize, isInitIndex, mode == TopKMode::TOPK_NSMALL,
                        isLargest};
  const bool good = Check("GetTopKMaxMinTmpSize", shape);
  maxValue = minValue = good ? shape.Space() : 0;
  return good;
}

bool TopKTilingFunc(const platform_ascendc::PlatformAscendC&, const int32_t inner,
                    const int32_t outter, const int32_t k, const uint32_t dataTypeSize,
                    const bool isInitIndex, enum TopKMode mode, const bool isLargest,
                    tiling::TopkTiling& topKTiling) {
  return Fill({inner, outter, dataTypeSize, isInitIndex, mode == TopKMode::TOPK_NSMALL, isLargest},
              k, &topKTiling);
}

bool TopKTilingFunc(const platform_ascendc::PlatformAscendC& ascendcPlatform, const int32_t inner,
                    const int32_t outter, const int32_t k, const uint32_t dataTypeSize,
                    const bool isInitIndex, enum TopKMode mode, const bool isLargest,
                    optiling::TopkTiling& topKTiling) {
  TopkTiling from;
  if (!TopKTilingFunc(ascendcPlatform, inner, outter, k, dataTypeSize, isInitIndex, mode, isLargest,
                      from)) {
    return false;
  }
#define TWIN_ASSIGN(type, name) topKTiling.set_##name(from.name);
  TWIN_TOPK_TILING(TWIN_ASSIGN)
#undef TWIN_ASSIGN
  return true;
}

}  // namespace AscendC
