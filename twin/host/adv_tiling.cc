#include "twin/host/adv_tiling.h"

#include "twin/host/log.h"
#include "twin/host/objects.h"

namespace twin {

bool GetRows(const char* function, const char* name, const ge::Shape& shape, Rows2D* rows) {
  const std::vector<int64_t> dims = shape.GetDims();
  bool positive = !dims.empty();
  for (int64_t dim : dims) positive = positive && dim > 0;
  const int64_t size = shape.GetShapeSize();
  if (!positive || size <= 0 || size > INT32_MAX) {
    LogError(function, std::string(name) + " must have positive dimensions and fewer than 2^31 " +
                           "elements, got " + ShapeText(dims));
    return false;
  }
  rows->columns = static_cast<uint32_t>(dims.back());
  rows->rows = static_cast<uint32_t>(size) / rows->columns;
  return true;
}

bool CheckTypeSize(const char* function, const char* name, uint32_t size, const char* sizes) {
  const std::string number = std::to_string(size);
  if (size != 0 && std::string(sizes).find(number) != std::string::npos) return true;
  LogError(function, std::string(name) + " must be " + sizes + ", got " + number);
  return false;
}

}  // namespace twin
