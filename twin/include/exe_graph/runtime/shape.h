// Dimensions of a tensor.
#pragma once

// clang-format off: first of all includes.
#include "twin/device/macros_off.h"
// clang-format on

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <limits>

namespace gert {

struct Shape {
 public:
  static constexpr size_t kMaxDimNum = 25;
  static constexpr int64_t kInvalidDimValue = std::numeric_limits<int64_t>::min();

  Shape() = default;
  Shape(const std::initializer_list<int64_t>& dims) {
    if (dims.size() > kMaxDimNum) return;
    for (int64_t dim : dims) dims_[dim_num_++] = dim;
  }

  bool operator==(const Shape& other) const {
    if (dim_num_ != other.dim_num_) return false;
    for (size_t i = 0; i < dim_num_; ++i) {
      if (dims_[i] != other.dims_[i]) return false;
    }
    return true;
  }
  bool operator!=(const Shape& other) const { return !(*this == other); }

  // Product of the dimensions; kInvalidDimValue where it overflows.
  int64_t GetShapeSize() const {
    int64_t size = 1;
    for (size_t i = 0; i < dim_num_; ++i) {
      if (__builtin_mul_overflow(size, dims_[i], &size)) return kInvalidDimValue;
    }
    return size;
  }
  bool IsScalar() const { return dim_num_ == 0; }
  void SetScalar() { dim_num_ = 0; }

  size_t GetDimNum() const { return dim_num_; }
  void SetDimNum(size_t dim_num) { dim_num_ = dim_num; }
  int64_t GetDim(size_t index) const {
    return index < kMaxDimNum ? dims_[index] : kInvalidDimValue;
  }
  void SetDim(size_t index, int64_t value) {
    if (index >= kMaxDimNum) return;
    dims_[index] = value;
    // The number of dimensions grows to `index`, not to index + 1, as CANN has it.
    if (dim_num_ < index) dim_num_ = index;
  }
  Shape& AppendDim(int64_t value) {
    if (dim_num_ < kMaxDimNum) dims_[dim_num_++] = value;
    return *this;
  }
  const int64_t& operator[](size_t index) const { return dims_[index]; }
  int64_t& operator[](size_t index) { return dims_[index]; }

 private:
  size_t dim_num_ = 0;
  int64_t dims_[kMaxDimNum] = {};
};

}  // namespace gert

// clang-format off: last of all includes.
#include "twin/device/macros_on.h"
// clang-format on
