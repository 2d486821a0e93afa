#include "twin/device/slice.h"

namespace twin {

SliceRuns RunsOf(const char* role, const AscendC::SliceInfo* slices,
                 const AscendC::ShapeInfo& shape, bool use_values, uint32_t dims, uint32_t element,
                 const Where& where) {
  const auto check = [&](bool right, const char* what, uint32_t dim) {
    if (!right) Fail("DataCopy", where, Format("%s of dimension %u of %s", what, dim, role));
  };
  if (dims == 0 || dims > K_MAX_SHAPE_DIM) {
    Fail("DataCopy", where, Format("dimValue is %u, expected 1 to 8", dims));
  }
  SliceRuns runs;
  runs.starts = {slices[0].startIndex};
  check(slices[0].endIndex >= slices[0].startIndex, "endIndex is less than startIndex", 0);
  const uint64_t burst = uint64_t{slices[0].burstLen} * kBlockBytes / element;
  check(burst > 0, "burstLen is 0", 0);
  const uint64_t length = uint64_t{slices[0].endIndex} - slices[0].startIndex + 1;
  runs.bursts = (length + slices[0].stride) / (burst + slices[0].stride);
  uint64_t size = 1;  // elements of one index
  for (uint32_t i = 1; i < dims; ++i) {
    const AscendC::SliceInfo& s = slices[i];
    check(s.endIndex >= s.startIndex, "endIndex is less than startIndex", i);
    size *= use_values ? slices[i - 1].shapeValue : shape.shape[i - 1];
    const uint64_t step = 1 + uint64_t{s.stride};
    const uint64_t count = (s.endIndex - s.startIndex + step) / step;
    const std::vector<uint64_t> inner = runs.starts;
    runs.starts.clear();
    for (uint64_t index = 0; index < count; ++index) {
      for (uint64_t start : inner) {
        runs.starts.push_back(start + (s.startIndex + index * step) * size);
      }
    }
  }
  return runs;
}

void CheckSlices(const SliceRuns& dst, const SliceRuns& src, const Where& where) {
  if (dst.starts.size() == src.starts.size()) return;
  Fail("DataCopy", where,
       Format("the slice of src has %zu runs, that of dst %zu", src.starts.size(),
              dst.starts.size()));
}

}  // namespace twin
