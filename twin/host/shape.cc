#include <algorithm>

#include "graph/tensor.h"

namespace ge {

Shape::Shape(const std::vector<int64_t>& dims) : dims_(dims) {
  if (std::count(dims.begin(), dims.end(), UNKNOWN_DIM_NUM) > 0) dims_ = {UNKNOWN_DIM_NUM};
}

size_t Shape::GetDimNum() const {
  return std::count(dims_.begin(), dims_.end(), UNKNOWN_DIM_NUM) > 0 ? 0 : dims_.size();
}

graphStatus Shape::SetDimNum(size_t count) {
  dims_.assign(count, UNKNOWN_DIM);
  return GRAPH_SUCCESS;
}

graphStatus Shape::SetIsUnknownDimNum() {
  dims_ = {UNKNOWN_DIM_NUM};
  return GRAPH_SUCCESS;
}

graphStatus Shape::SetDim(size_t index, int64_t value) {
  if (GetDimNum() <= index) return GRAPH_FAILED;
  dims_[index] = value;
  return GRAPH_SUCCESS;
}

int64_t Shape::GetShapeSize() const {
  if (dims_.empty()) return 0;
  int64_t size = 1;
  for (int64_t dim : dims_) {
    if (dim == UNKNOWN_DIM || dim == UNKNOWN_DIM_NUM) return UNKNOWN_DIM_SIZE;
    if (__builtin_mul_overflow(size, dim, &size)) return 0;
  }
  return size;
}

}  // namespace ge
