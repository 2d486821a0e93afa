// A vector whose elements follow its size in memory: how list attributes are handed over.
#pragma once

// clang-format off: first of all includes.
#include "twin/device/macros_off.h"
// clang-format on

#include <cstddef>
#include <cstdint>

#include "graph/error_codes.h"

namespace gert {

class ContinuousVector {
 public:
  void Init(size_t capacity) {
    capacity_ = capacity;
    size_ = 0;
  }
  size_t GetSize() const { return size_; }
  size_t GetCapacity() const { return capacity_; }
  ge::graphStatus SetSize(size_t size) {
    if (size > capacity_) return ge::GRAPH_PARAM_OUT_OF_RANGE;
    size_ = size;
    return ge::GRAPH_SUCCESS;
  }
  const void* GetData() const { return this + 1; }
  void* MutableData() { return this + 1; }

 private:
  size_t capacity_;
  size_t size_;
};

template <typename T>
class TypedContinuousVector : private ContinuousVector {
 public:
  using ContinuousVector::GetCapacity;
  using ContinuousVector::GetSize;
  using ContinuousVector::SetSize;
  const T* GetData() const { return static_cast<const T*>(ContinuousVector::GetData()); }
  T* MutableData() { return static_cast<T*>(ContinuousVector::MutableData()); }
};

}  // namespace gert

// clang-format off: last of all includes.
#include "twin/device/macros_on.h"
// clang-format on
