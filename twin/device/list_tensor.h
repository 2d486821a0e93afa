// ListTensorDesc: the addresses and shapes of a dynamic input, as the host lays them out. A word
// has the bytes to the addresses; a word for each tensor its number of dimensions (low half) and
// its index (high half; the first has the number of tensors), then the dimensions.
#pragma once

#include "twin/device/tensor.h"

namespace AscendC {

class ListTensorDesc;

template <class T>
class TensorDesc {
 public:
  void SetShapeAddr(uint64_t* shapePtr) { shape_ = shapePtr; }
  uint64_t GetDim() { return dim_; }
  uint64_t GetIndex() { return index_; }
  uint64_t GetShape(uint32_t offset, twin::Where where = twin::Here()) {
    if (offset >= dim_ || shape_ == nullptr) {
      twin::Fail(
          "TensorDesc::GetShape", where,
          twin::Format("dimension %u of %llu%s", offset, static_cast<unsigned long long>(dim_),
                       shape_ == nullptr ? ", and SetShapeAddr has given no room" : ""));
    }
    return shape_[offset];
  }
  __gm__ T* GetDataPtr() { return data_; }
  GlobalTensor<T> GetDataObj() {
    uint64_t size = sizeof(T);
    for (uint64_t i = 0; i < dim_; ++i) size *= shape_[i];
    GlobalTensor<T> tensor;
    tensor.SetGlobalBuffer(data_, size);
    return tensor;
  }

 private:
  friend class ListTensorDesc;
  uint64_t dim_ = 0;
  uint64_t index_ = 0;
  uint64_t* shape_ = nullptr;
  __gm__ T* data_ = nullptr;
};

class ListTensorDesc {
 public:
  ListTensorDesc() = default;
  ListTensorDesc(__gm__ void* data, uint32_t length = 0xffffffff, uint32_t shapeSize = 0xffffffff,
                 twin::Where where = twin::Here()) {
    Init(data, length, shapeSize, where);
  }
  void Init(__gm__ void* data, uint32_t length = 0xffffffff, uint32_t shapeSize = 0xffffffff,
            twin::Where where = twin::Here()) {
    const auto* words = (const uint64_t*)data;
    if (words == nullptr) twin::Fail("ListTensorDesc", where, "data is a null pointer");
    first_ = words + 1;
    addresses_ = words + words[0] / sizeof(uint64_t);
    dim_ = static_cast<uint32_t>(first_[0]);
    step_ = dim_ == 0 ? 2 : 1 + dim_;
    const auto count = static_cast<uint32_t>(first_[0] >> 32);
    count_ = count != 0 ? count : static_cast<uint32_t>(*(addresses_ - step_) >> 32) + 1;
    const bool right = dim_ == 0 ? words[0] == 24 : words[0] == 8 + uint64_t{count_} * step_ * 8;
    const bool given = length != 0xffffffff && shapeSize != 0xffffffff;
    if (!right || (given && (count_ != shapeSize || length != words[0] + uint64_t{count_} * 8))) {
      twin::Fail("ListTensorDesc", where, "data is no list of tensors of this length");
    }
  }
  template <class T>
  void GetDesc(TensorDesc<T>& desc, uint32_t index, twin::Where where = twin::Here()) {
    desc.data_ = GetDataPtr<T>(index, where);
    desc.dim_ = dim_;
    desc.index_ = index;
    if (desc.shape_ == nullptr) twin::Fail("GetDesc", where, "SetShapeAddr comes first");
    for (uint32_t i = 0; i < dim_; ++i) desc.shape_[i] = first_[index * step_ + 1 + i];
  }
  template <class T>
  __gm__ T* GetDataPtr(uint32_t index, twin::Where where = twin::Here()) {
    if (index >= count_) {
      twin::Fail("ListTensorDesc", where, twin::Format("tensor %u of a list of %u", index, count_));
    }
    return reinterpret_cast<T*>(addresses_[index]);
  }
  uint32_t GetSize() { return count_; }

 private:
  const uint64_t* first_ = nullptr;
  const uint64_t* addresses_ = nullptr;
  uint32_t dim_ = 0;
  uint32_t step_ = 0;
  uint32_t count_ = 0;
};

}  // namespace AscendC
