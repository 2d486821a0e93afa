// Temporary space of Broadcast, and of Select with a mask of whole elements.
#include <algorithm>

#include "lib/pad/broadcast_tiling.h"
#include "lib/select/selectwithbytesmask_tiling.h"
#include "twin/adv/broadcast.h"
#include "twin/adv/select_bytes.h"
#include "twin/host/adv_tiling.h"
#include "twin/host/log.h"

namespace {

using AscendC::TensorShape;

struct SelectShape {
  const TensorShape& src0;
  const TensorShape& src1;
  uint32_t data;  // bytes of an element
  const TensorShape& mask;
  uint32_t mask_data;
  bool reuse_mask;
};

uint32_t SelectSpace(const char* function, const SelectShape& shape, bool most) {
  if (!twin::CheckTypeSize(function, "srcTypeSize", shape.data, "2 or 4") ||
      !twin::CheckTypeSize(function, "maskTypeSize", shape.mask_data, "1, 2 or 4")) {
    return 0;
  }
  const auto is_scalar = [](const TensorShape& of) {
    return of.GetShapeSize() == 0 || of.GetShapeSize() == 1;
  };
  const bool scalar0 = is_scalar(shape.src0), scalar1 = is_scalar(shape.src1);
  if (scalar0 == scalar1) {
    twin::LogError(function, "one of src0Shape and src1Shape must be that of a scalar, {1}");
    return 0;
  }
  twin::Rows2D src, mask;
  if (!twin::GetRows(function, scalar0 ? "src1Shape" : "src0Shape",
                     scalar0 ? shape.src1 : shape.src0, &src) ||
      !twin::GetRows(function, "maskShape", shape.mask, &mask)) {
    return 0;
  }
  if (mask.rows != src.rows || mask.columns < src.columns) {
    twin::LogError(function,
                   "maskShape must have the rows of the source, " + std::to_string(src.rows) +
                       ", and at least its columns, " + std::to_string(src.columns) + ", got " +
                       std::to_string(mask.rows) + " and " + std::to_string(mask.columns));
    return 0;
  }
  return twin::SelectBytesSpace(src.rows * src.columns, mask.columns == src.columns,
                                shape.mask_data, shape.reuse_mask, most);
}

}  // namespace

namespace AscendC {

void GetBroadCastMaxMinTmpSize(const platform_ascendc::PlatformAscendC&,
                               const TensorShape& srcShape, const TensorShape& dstShape,
                               uint32_t typeSize, const bool, uint32_t& maxValue,
                               uint32_t& minValue) {
  const char* function = "GetBroadCastMaxMinTmpSize";
  maxValue = minValue = 0;
  twin::Rows2D src, dst;
  if (!twin::CheckTypeSize(function, "typeSize", typeSize, "1, 2 or 4") ||
      !twin::GetRows(function, "srcShape", srcShape, &src) ||
      !twin::GetRows(function, "dstShape", dstShape, &dst)) {
    return;
  }
  const size_t rank = dstShape.GetDimNum();
  const bool fits =
      (src.rows == dst.rows || src.rows == 1) && (src.columns == dst.columns || src.columns == 1);
  if (rank > 2 || srcShape.GetDimNum() != rank || !fits) {
    twin::LogError(function,
                   "srcShape and dstShape must have one or two dimensions each, and a dimension of "
                   "srcShape must be that of dstShape or 1");
    return;
  }
  const uint32_t from[2] = {src.rows, src.columns}, to[2] = {dst.rows, dst.columns};
  minValue = twin::BroadcastSpace(to, from, typeSize, false);
  maxValue = std::max(minValue, twin::BroadcastSpace(to, from, typeSize, true));
}

#define TWIN_SELECT_SPACE(Name)                                                                   \
  uint32_t Get##Name##MinTmpSize(const TensorShape& src0Shape, const TensorShape& src1Shape,      \
                                 const uint32_t srcTypeSize, const TensorShape& maskShape,        \
                                 const uint32_t maskTypeSize, const bool isReuseMask) {           \
    return SelectSpace("Get" #Name "MinTmpSize",                                                  \
                       {src0Shape, src1Shape, srcTypeSize, maskShape, maskTypeSize, isReuseMask}, \
                       false);                                                                    \
  }                                                                                               \
  uint32_t Get##Name##MaxTmpSize(const TensorShape& src0Shape, const TensorShape& src1Shape,      \
                                 const uint32_t srcTypeSize, const TensorShape& maskShape,        \
                                 const uint32_t maskTypeSize, const bool isReuseMask) {           \
    return SelectSpace("Get" #Name "MaxTmpSize",                                                  \
                       {src0Shape, src1Shape, srcTypeSize, maskShape, maskTypeSize, isReuseMask}, \
                       true);                                                                     \
  }                                                                                               \
  void Get##Name##MaxMinTmpSize(const TensorShape& src0Shape, const TensorShape& src1Shape,       \
                                const uint32_t srcTypeSize, const TensorShape& maskShape,         \
                                const uint32_t maskTypeSize, const bool isReuseMask,              \
                                uint32_t& maxValue, uint32_t& minValue) {                         \
    const SelectShape shape{src0Shape, src1Shape,    srcTypeSize,                                 \
                            maskShape, maskTypeSize, isReuseMask};                                \
    minValue = SelectSpace("Get" #Name "MaxMinTmpSize", shape, false);                            \
    maxValue = minValue == 0 ? 0 : SelectSpace("Get" #Name "MaxMinTmpSize", shape, true);         \
  }
TWIN_SELECT_SPACE(Select)
TWIN_SELECT_SPACE(SelectWithBytesMask)
#undef TWIN_SELECT_SPACE

}  // namespace AscendC
