// A tensor as an operator's host functions see it. Only inputs whose values those functions depend
// on have data there.
#pragma once

// clang-format off: first of all includes.
#include "twin/device/macros_off.h"
// clang-format on

#include "exe_graph/runtime/storage_format.h"
#include "exe_graph/runtime/storage_shape.h"

namespace gert {

using TensorAddress = void*;

enum TensorPlacement : int32_t {
  kOnDeviceHbm,
  kOnHost,
  kFollowing,
  kOnDeviceP2p,
  kTensorPlacementEnd
};

class Tensor {
 public:
  Tensor() = default;
  Tensor(const StorageShape& shape, const StorageFormat& format, TensorPlacement placement,
         ge::DataType dtype, TensorAddress address)
      : shape_(shape), format_(format), placement_(placement), dtype_(dtype), address_(address) {}

  const StorageShape& GetShape() const { return shape_; }
  StorageShape& GetShape() { return shape_; }
  const Shape& GetStorageShape() const { return shape_.GetStorageShape(); }
  const Shape& GetOriginShape() const { return shape_.GetOriginShape(); }
  int64_t GetShapeSize() const { return shape_.GetStorageShape().GetShapeSize(); }

  const StorageFormat& GetFormat() const { return format_; }
  ge::Format GetStorageFormat() const { return format_.GetStorageFormat(); }
  ge::Format GetOriginFormat() const { return format_.GetOriginFormat(); }
  ge::DataType GetDataType() const { return dtype_; }
  TensorPlacement GetPlacement() const { return placement_; }
  size_t GetSize() const {
    const int bytes = ge::GetSizeByDataType(dtype_);
    return bytes < 0 ? 0 : static_cast<size_t>(GetShapeSize()) * static_cast<size_t>(bytes);
  }

  const void* GetAddr() const { return address_; }
  template <class T>
  const T* GetData() const {
    return static_cast<const T*>(address_);
  }

 private:
  StorageShape shape_;
  StorageFormat format_;
  TensorPlacement placement_ = kTensorPlacementEnd;
  ge::DataType dtype_ = ge::DT_UNDEFINED;
  TensorAddress address_ = nullptr;
};

}  // namespace gert

// clang-format off: last of all includes.
#include "twin/device/macros_on.h"
// clang-format on
