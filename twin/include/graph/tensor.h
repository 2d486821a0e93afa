// Shape of a tensor, for the host side of the high-level kernel APIs.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "graph/error_codes.h"
#include "graph/types.h"
#include "twin/device/where.h"

namespace ge {

constexpr int64_t UNKNOWN_DIM = -1;
constexpr int64_t UNKNOWN_DIM_NUM = -2;
constexpr int64_t UNKNOWN_DIM_SIZE = -1;

class TWIN_API Shape {
 public:
  Shape() = default;
  // A dimension UNKNOWN_DIM_NUM: even their number is unknown.
  explicit Shape(const std::vector<int64_t>& dims);

  // 0 where the number is unknown.
  size_t GetDimNum() const;
  // Makes so many unknown dimensions.
  graphStatus SetDimNum(size_t count);
  graphStatus SetIsUnknownDimNum();
  // 0 past the last one.
  int64_t GetDim(size_t index) const { return index < dims_.size() ? dims_[index] : 0; }
  graphStatus SetDim(size_t index, int64_t value);
  std::vector<int64_t> GetDims() const { return dims_; }
  // Product of the dimensions: UNKNOWN_DIM_SIZE where one is unknown, 0 without dimensions and
  // where it overflows.
  int64_t GetShapeSize() const;

 private:
  std::vector<int64_t> dims_;
};

}  // namespace ge
