// DataCopy of slices: a range of every dimension of a tensor, the innermost first.
#pragma once

#include <vector>

#include "twin/device/data_copy.h"

namespace AscendC {

struct SliceInfo {
  SliceInfo() {}
  SliceInfo(const uint32_t startIndexIn, const uint32_t endIndexIn, const uint32_t strideIn,
            const uint32_t burstLenIn, const uint32_t shapeValueIn = 0)
      : startIndex(startIndexIn),
        endIndex(endIndexIn),
        stride(strideIn),
        burstLen(burstLenIn),
        shapeValue(shapeValueIn) {}

  uint32_t startIndex = 0;
  uint32_t endIndex = 31;
  uint32_t stride = 0;     // elements left out between two bursts, or indices between two
  uint32_t burstLen = 32;  // of the innermost dimension, in data blocks
  uint32_t shapeValue = 0;
};

}  // namespace AscendC

namespace twin {

// Where the runs of a slice begin, in elements from the start of its tensor.
struct SliceRuns {
  std::vector<uint64_t> starts;
  uint64_t bursts = 0;  // of a run
};
TWIN_API SliceRuns RunsOf(const char* role, const AscendC::SliceInfo* slices,
                          const AscendC::ShapeInfo& shape, bool use_values, uint32_t dims,
                          uint32_t element, const Where& where);
TWIN_API void CheckSlices(const SliceRuns& dst, const SliceRuns& src, const Where& where);

}  // namespace twin

namespace AscendC {

template <typename T>
void DataCopy(const LocalTensor<T>& dst, const GlobalTensor<T>& src, const SliceInfo dstSliceInfo[],
              const SliceInfo srcSliceInfo[], const uint32_t dimValue = 1,
              twin::Where where = twin::Here()) {
  const bool values = srcSliceInfo[0].shapeValue != 0;
  const auto to =
      twin::RunsOf("dst", dstSliceInfo, dst.GetShapeInfo(), values, dimValue, sizeof(T), where);
  const auto from =
      twin::RunsOf("src", srcSliceInfo, src.GetShapeInfo(), values, dimValue, sizeof(T), where);
  twin::CheckSlices(to, from, where);
  const SliceInfo& inner = srcSliceInfo[0];
  const DataCopyExtParams params(
      from.bursts, inner.burstLen * twin::kBlockBytes,
      inner.stride * static_cast<uint32_t>(sizeof(T)),
      dstSliceInfo[0].stride * static_cast<uint32_t>(sizeof(T)) / twin::kBlockBytes, 0);
  for (size_t i = 0; i < from.starts.size(); ++i) {
    DataCopyPad(dst[static_cast<uint32_t>(to.starts[i])], src[from.starts[i]], params,
                DataCopyPadExtParams<T>(), where);
  }
}

template <typename T>
void DataCopy(const GlobalTensor<T>& dst, const LocalTensor<T>& src, const SliceInfo dstSliceInfo[],
              const SliceInfo srcSliceInfo[], const uint32_t dimValue = 1,
              twin::Where where = twin::Here()) {
  const bool values = srcSliceInfo[0].shapeValue != 0;
  const auto to =
      twin::RunsOf("dst", dstSliceInfo, dst.GetShapeInfo(), values, dimValue, sizeof(T), where);
  const auto from =
      twin::RunsOf("src", srcSliceInfo, src.GetShapeInfo(), values, dimValue, sizeof(T), where);
  twin::CheckSlices(to, from, where);
  const SliceInfo& inner = srcSliceInfo[0];
  const DataCopyExtParams params(
      from.bursts, inner.burstLen * twin::kBlockBytes,
      inner.stride * static_cast<uint32_t>(sizeof(T)) / twin::kBlockBytes,
      dstSliceInfo[0].stride * static_cast<uint32_t>(sizeof(T)), 0);
  for (size_t i = 0; i < from.starts.size(); ++i) {
    DataCopyPad(dst[to.starts[i]], src[static_cast<uint32_t>(from.starts[i])], params, where);
  }
}

}  // namespace AscendC
