// LocalTensor and GlobalTensor.
#pragma once

#include "twin/device/instr.h"

namespace twin {

// Scalar access to on-chip memory and to GM, on PIPE_S. `index` and `bytes` are those of the
// element.
TWIN_API void* ScalarRead(const LocalView& view, uint64_t index, const Operand& operand,
                          const Where& where);
TWIN_API void* ScalarWrite(const LocalView& view, uint64_t index, const Operand& operand,
                           const Where& where);
TWIN_API void* ScalarRead(const GlobalView& view, uint64_t index, const Operand& operand,
                          const Where& where);
TWIN_API void* ScalarWrite(const GlobalView& view, uint64_t index, const Operand& operand,
                           const Where& where);
// An access that goes past the data cache.
TWIN_API void* ReadPastCache(const Operand& operand, const Where& where);
TWIN_API void* WritePastCache(const Operand& operand, const Where& where);
TWIN_API void* LocalAddress(const LocalView& view, uint64_t offset);
TWIN_API LocalView StaticView(TPosition position, uint32_t address, uint32_t bytes,
                              const Where& where);
TWIN_API GlobalBuffer* FindGlobalBuffer(const void* address);
TWIN_API void SetUserTag(const LocalView& view, int32_t tag);
TWIN_API int32_t GetUserTag(const LocalView& view);

// operator() gives this: reads and writes of one element.
template <typename T, typename View>
class ElementReference {
 public:
  ElementReference(const View& view, uint64_t index, const Operand& operand, const Where& where)
      : view_(view), index_(index), operand_(operand), where_(where) {}
  operator T() const { return *static_cast<const T*>(ScalarRead(view_, index_, Named(), where_)); }
  // On the device this is a plain reference, so a cast may go through T to another type.
  template <typename U, typename = std::enable_if_t<!std::is_same_v<U, T> &&
                                                    std::is_constructible_v<U, const T&>>>
  explicit operator U() const {
    return static_cast<U>(static_cast<T>(*this));
  }
  const ElementReference& operator=(T value) const {
    *static_cast<T*>(ScalarWrite(view_, index_, Named(), where_)) = value;
    return *this;
  }
  const ElementReference& operator=(const ElementReference& other) const {
    return *this = static_cast<T>(other);
  }
  template <typename U>
  const ElementReference& operator+=(const U& value) const {
    return *this = static_cast<T>(static_cast<T>(*this) + value);
  }
  template <typename U>
  const ElementReference& operator-=(const U& value) const {
    return *this = static_cast<T>(static_cast<T>(*this) - value);
  }
  template <typename U>
  const ElementReference& operator*=(const U& value) const {
    return *this = static_cast<T>(static_cast<T>(*this) * value);
  }

 private:
  Operand Named() const { return operand_; }

  const View& view_;
  uint64_t index_;
  Operand operand_;
  Where where_;
};

}  // namespace twin

// A macro, as in CANN: a kernel may ask the preprocessor for it.
#ifndef K_MAX_SHAPE_DIM
#define K_MAX_SHAPE_DIM 8
#endif

namespace AscendC {

// Fields that nobody has set hold what happens to be there; here it is always the same, and no
// size.
struct ShapeInfo {
  ShapeInfo() {}
  ShapeInfo(const uint8_t input_dims, const uint32_t input_shape[], const uint8_t original_dims,
            const uint32_t original_shape[], const DataFormat format)
      : shapeDim(input_dims), originalShapeDim(original_dims), dataFormat(format) {
    for (int i = 0; i < shapeDim && i < K_MAX_SHAPE_DIM; ++i) shape[i] = input_shape[i];
    for (int i = 0; i < original_dims && i < K_MAX_SHAPE_DIM; ++i) {
      originalShape[i] = original_shape[i];
    }
  }
  ShapeInfo(const uint8_t dims, const uint32_t shape_in[], const DataFormat format = DataFormat::ND)
      : ShapeInfo(dims, shape_in, dims, shape_in, format) {}

  static constexpr uint8_t kUnset = 0xee;
  uint8_t shapeDim = kUnset;
  uint8_t originalShapeDim = kUnset;
  uint32_t shape[K_MAX_SHAPE_DIM] = {};
  uint32_t originalShape[K_MAX_SHAPE_DIM] = {};
  DataFormat dataFormat = DataFormat::ND;
};

inline uint64_t GetShapeSize(const ShapeInfo& info) {
  uint64_t size = 1;
  if (info.shapeDim > K_MAX_SHAPE_DIM) {
    twin::Fail("GetShapeSize", {}, "nobody has set the shape: SetShapeInfo comes first");
  }
  for (int i = 0; i < info.shapeDim; ++i) size *= info.shape[i];
  return size;
}

using TBuffAddr = twin::BufferAddress;

template <typename T>
class LocalTensor : public twin::LocalView {
 public:
  using PrimType = T;

  LocalTensor() = default;
  explicit LocalTensor(const twin::LocalView& view) : twin::LocalView(view) {}
  // A tensor at a fixed address: `tile_size` elements from byte `addr` of the position's memory.
  LocalTensor(TPosition pos, uint32_t addr, uint32_t tile_size, twin::Where where = twin::Here())
      : twin::LocalView(twin::StaticView(
            pos, addr, static_cast<uint32_t>(twin::ByteCount<T>(tile_size)), where)) {}

  T GetValue(const uint32_t index, twin::Where where = twin::Here()) const {
    return *static_cast<const T*>(twin::ScalarRead(*this, index, {"tensor", *this}, where));
  }
  template <typename S>
  void SetValue(const uint32_t index, const S value, twin::Where where = twin::Here()) const {
    *static_cast<T*>(twin::ScalarWrite(*this, index, {"tensor", *this}, where)) =
        static_cast<T>(value);
  }
  twin::ElementReference<T, twin::LocalView> operator()(const uint32_t index,
                                                        twin::Where where = twin::Here()) const {
    return {*this, index, {"tensor", *this}, where};
  }

  LocalTensor operator[](const uint32_t offset) const {
    LocalTensor result = *this;
    const uint64_t skipped = twin::ByteCount<T>(offset);
    result.outside = outside || skipped > bytes;
    result.address = static_cast<uint32_t>(address + skipped);
    result.bytes = skipped > bytes ? 0 : static_cast<uint32_t>(bytes - skipped);
    return result;
  }
  template <typename U>
  LocalTensor<U> ReinterpretCast() const {
    LocalTensor<U> result{static_cast<const twin::LocalView&>(*this)};
    result.shapeInfo_ = shapeInfo_;
    return result;
  }
  T* GetPhyAddr(const uint32_t offset = 0) const {
    return static_cast<T*>(twin::LocalAddress(*this, twin::ByteCount<T>(offset)));
  }
  int32_t GetPosition() const { return static_cast<int32_t>(position); }
  uint32_t GetSize() const { return static_cast<uint32_t>(twin::ElementCount<T>(bytes)); }
  uint32_t GetLength() const { return bytes; }
  // Elements. The buffer's own end still bounds every access.
  void SetSize(const uint32_t size) { bytes = static_cast<uint32_t>(twin::ByteCount<T>(size)); }
  void SetBufferLen(uint32_t dataLen) { bytes = dataLen; }
  TBufHandle GetBufferHandle() const { return address_.bufferHandle; }
  void SetAddr(const TBuffAddr& bufferAddr) { address_ = bufferAddr; }
  // A tensor at a fixed address, as the constructor makes it, of a position that is set already or
  // later.
  void InitBuffer(const uint32_t bufferOffset, const uint32_t bufferSize) {
    const TPosition position_before = position;
    static_cast<twin::LocalView&>(*this) = twin::LocalView();
    position = position_before;
    address = bufferOffset;
    bytes = static_cast<uint32_t>(twin::ByteCount<T>(bufferSize));
  }
  void SetUserTag(const TTagType tag) { twin::SetUserTag(*this, tag); }
  TTagType GetUserTag() const { return twin::GetUserTag(*this); }
  void SetShapeInfo(const ShapeInfo& info) { shapeInfo_ = info; }
  ShapeInfo GetShapeInfo() const { return shapeInfo_; }
  template <typename S>
  void SetAddrWithOffset(LocalTensor<S>& src, uint32_t offset) {
    static_cast<twin::LocalView&>(*this) = src;
    *this = (*this)[static_cast<uint32_t>(static_cast<uint64_t>(offset) * sizeof(S) / sizeof(T))];
  }

  ShapeInfo shapeInfo_;
};

template <typename T>
class GlobalTensor : public twin::GlobalView {
 public:
  using PrimType = T;

  void SetGlobalBuffer(__gm__ T* buffer_address, uint64_t size) {
    SetGlobalBuffer(buffer_address);
    bytes = size * sizeof(T);
    sized = true;
  }
  void SetGlobalBuffer(__gm__ T* buffer_address) {
    address = (uint8_t*)buffer_address;
    buffer = twin::FindGlobalBuffer(address);
    bytes = 0;
    sized = outside = false;
  }
  const __gm__ T* GetPhyAddr() const { return (const __gm__ T*)address; }
  __gm__ T* GetPhyAddr(const uint64_t offset) const { return (__gm__ T*)address + offset; }
  T GetValue(const uint64_t index, twin::Where where = twin::Here()) const {
    return *static_cast<const T*>(twin::ScalarRead(*this, index, {"tensor", *this}, where));
  }
  void SetValue(const uint64_t index, T value, twin::Where where = twin::Here()) {
    *static_cast<T*>(twin::ScalarWrite(*this, index, {"tensor", *this}, where)) = value;
  }
  twin::ElementReference<T, twin::GlobalView> operator()(const uint64_t index,
                                                         twin::Where where = twin::Here()) const {
    return {*this, index, {"tensor", *this}, where};
  }
  GlobalTensor operator[](const uint64_t offset) const {
    GlobalTensor result = *this;
    const uint64_t skipped = offset * sizeof(T);
    result.address = address + skipped;
    result.outside = outside || (sized && skipped > bytes);
    result.bytes = skipped > bytes ? 0 : bytes - skipped;
    return result;
  }
  uint64_t GetSize() const { return bytes / sizeof(T); }
  void SetShapeInfo(const ShapeInfo& info) { shapeInfo_ = info; }
  ShapeInfo GetShapeInfo() const { return shapeInfo_; }
  // A hint for L2 changes no value.
  template <CacheRwMode rwMode = CacheRwMode::RW>
  void SetL2CacheHint(CacheMode mode) {
    cacheMode_ = mode;
  }

  ShapeInfo shapeInfo_;
  CacheMode cacheMode_ = CacheMode::CACHE_MODE_NORMAL;
};

template <typename T>
T ReadGmByPassDCache(__gm__ T* addr, twin::Where where = twin::Here()) {
  GlobalTensor<T> tensor;
  tensor.SetGlobalBuffer(addr);
  return *static_cast<const T*>(twin::ReadPastCache({"addr", tensor}, where));
}
template <typename T>
void WriteGmByPassDCache(__gm__ T* addr, T value, twin::Where where = twin::Here()) {
  GlobalTensor<T> tensor;
  tensor.SetGlobalBuffer(addr);
  *static_cast<T*>(twin::WritePastCache({"addr", tensor}, where)) = value;
}

}  // namespace AscendC
