// LocalMemAllocator: addresses one after the other, without a TPipe.
#pragma once

#include "twin/device/tensor.h"

namespace AscendC {

constexpr TPosition GetDefaultPosition(Hardware memory) {
  switch (memory) {
    case Hardware::L1:
      return TPosition::A1;
    case Hardware::L0A:
      return TPosition::A2;
    case Hardware::L0B:
      return TPosition::B2;
    case Hardware::L0C:
      return TPosition::CO1;
    case Hardware::BIAS:
      return TPosition::C2;
    case Hardware::FIXBUF:
      return TPosition::C2PIPE2GM;
    default:
      return TPosition::VECCALC;
  }
}

template <Hardware hard = Hardware::UB>
class LocalMemAllocator {
  static_assert(hard != Hardware::GM && hard != Hardware::MAX,
                "LocalMemAllocator is for on-chip memory");

 public:
  LocalMemAllocator() = default;
  uint32_t GetCurAddr() const { return head_; }

  template <TPosition pos, class DataType, uint32_t tileSize>
  LocalTensor<DataType> Alloc(twin::Where where = twin::Here()) {
    return Alloc<pos, DataType>(tileSize, where);
  }
  template <TPosition pos, class DataType>
  LocalTensor<DataType> Alloc(uint32_t tileSize, twin::Where where = twin::Here()) {
    static_assert(GetPhyType(pos) == hard, "LocalMemAllocator: the position is of other memory");
    const LocalTensor<DataType> tensor(pos, head_, tileSize, where);
    head_ += static_cast<uint32_t>(twin::ByteCount<DataType>(tileSize));
    return tensor;
  }
  template <class DataType, uint32_t tileSize>
  LocalTensor<DataType> Alloc(twin::Where where = twin::Here()) {
    return Alloc<GetDefaultPosition(hard), DataType>(tileSize, where);
  }
  template <class DataType>
  LocalTensor<DataType> Alloc(uint32_t tileSize, twin::Where where = twin::Here()) {
    return Alloc<GetDefaultPosition(hard), DataType>(tileSize, where);
  }

 private:
  uint32_t head_ = 0;
};

}  // namespace AscendC
