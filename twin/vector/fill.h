// Duplicate, Brcb, CreateVecIndex, Copy.
#pragma once

#include "twin/vector/arithmetic.h"
#include "twin/vector/elementwise_run.h"
#include "twin/vector/forms.h"

namespace twin {

template <typename T>
void FillLoop(uint8_t* dst, const uint8_t*, const uint8_t*, uint64_t scalar, size_t n) {
  T* d = reinterpret_cast<T*>(dst);
  const T value = FromScalarBits<T>(scalar);
  for (size_t i = 0; i < n; ++i) d[i] = value;
}

template <typename T>
void RunDuplicate(const Where& where, const MaskArgument& mask, const AscendC::LocalTensor<T>& dst,
                  const T& value, int64_t block, int64_t repeat) {
  RunElementwise({"Duplicate", where, mask, &FillLoop<T>, ScalarBits(value)}, {{"dst", dst}},
                 {{block, repeat, "dstBlockStride", "dstRepeatStride"}});
}

TWIN_API void RunBrcb(const Where& where, const Operand& dst, const Operand& src, int64_t repeats,
                      const AscendC::BrcbRepeatParams& params);

TWIN_API void RunCopy(const Where& where, const MaskArgument& mask, const Operand& dst,
                      const Operand& src, const AscendC::CopyRepeatParams& params);

// CreateVecIndex: the scalar unit writes the first block (mask bits: the first repeat), vector
// additions of its number of elements make the others. `next` adds n to a run of elements.
struct IndexRamp {
  Where where;
  MaskArgument mask;
  uint64_t first;  // bits of firstValue
  void (*start)(uint8_t* element, uint64_t first, uint32_t offset);
  void (*next)(uint8_t* dst, const uint8_t* src, uint32_t step);
};
TWIN_API void RunCreateVecIndex(const IndexRamp& ramp, const Operand& dst, const Strides& strides);

template <typename T>
void StartIndex(uint8_t* element, uint64_t first, uint32_t offset) {
  const T value = FromScalarBits<T>(first);
  if constexpr (std::is_integral<T>::value) {
    *reinterpret_cast<T*>(element) = AddLane::Do(value, static_cast<T>(offset));
  } else {
    *reinterpret_cast<T*>(element) = static_cast<float>(value) + static_cast<float>(offset);
  }
}
template <typename T>
void NextIndex(uint8_t* dst, const uint8_t* src, uint32_t step) {
  *reinterpret_cast<T*>(dst) =
      AddLane::Do(*reinterpret_cast<const T*>(src), static_cast<T>(static_cast<float>(step)));
}

template <typename T>
void RunIndex(const Where& where, const MaskArgument& mask, const AscendC::LocalTensor<T>& dst,
              const T& first, int64_t block, int64_t repeat) {
  RunCreateVecIndex({where, mask, ScalarBits(first), &StartIndex<T>, &NextIndex<T>}, {"dst", dst},
                    {block, repeat, "dstBlkStride", "dstRepStride"});
}

}  // namespace twin

namespace AscendC {

#define TWIN_FILL_TYPES(name) \
  TWIN_DTYPES(name, T, int16_t, uint16_t, half, bfloat16_t, int32_t, uint32_t, float)

template <typename T, bool isSetMask = true>
void Duplicate(const LocalTensor<T>& dst, const T& scalarValue, uint64_t mask[],
               const Narrow8 repeatTime, const Narrow16 dstBlockStride,
               const Narrow8 dstRepeatStride, twin::Where where = twin::Here()) {
  TWIN_FILL_TYPES("Duplicate");
  twin::RunDuplicate(where, twin::MaskArgument::Bits(mask, repeatTime, isSetMask), dst, scalarValue,
                     twin::Wide(dstBlockStride), twin::Wide(dstRepeatStride));
}
template <typename T, bool isSetMask = true>
void Duplicate(const LocalTensor<T>& dst, const T& scalarValue, uint64_t mask,
               const Narrow8 repeatTime, const Narrow16 dstBlockStride,
               const Narrow8 dstRepeatStride, twin::Where where = twin::Here()) {
  TWIN_FILL_TYPES("Duplicate");
  twin::RunDuplicate(where, twin::MaskArgument::First(mask, repeatTime, isSetMask), dst,
                     scalarValue, twin::Wide(dstBlockStride), twin::Wide(dstRepeatStride));
}
template <typename T>
void Duplicate(const LocalTensor<T>& dst, const T& scalarValue, const int32_t& count,
               twin::Where where = twin::Here()) {
  TWIN_FILL_TYPES("Duplicate");
  twin::RunDuplicate(where, twin::MaskArgument::Count(count), dst, scalarValue, 1, 8);
}

template <typename T>
void Brcb(const LocalTensor<T>& dst, const LocalTensor<T>& src, const Narrow8 repeatTime,
          const BrcbRepeatParams& repeatParams, twin::Where where = twin::Here()) {
  TWIN_FILL_TYPES("Brcb");
  twin::RunBrcb(where, {"dst", dst}, {"src", src}, twin::Wide(repeatTime), repeatParams);
}

template <typename T, bool isSetMask = true>
void Copy(const LocalTensor<T>& dst, const LocalTensor<T>& src, const uint64_t mask[],
          const Narrow8 repeatTime, const CopyRepeatParams& repeatParams,
          twin::Where where = twin::Here()) {
  TWIN_FILL_TYPES("Copy");
  twin::RunCopy(where, twin::MaskArgument::Bits(mask, repeatTime, isSetMask), {"dst", dst},
                {"src", src}, repeatParams);
}
template <typename T, bool isSetMask = true>
void Copy(const LocalTensor<T>& dst, const LocalTensor<T>& src, const uint64_t mask,
          const Narrow8 repeatTime, const CopyRepeatParams& repeatParams,
          twin::Where where = twin::Here()) {
  TWIN_FILL_TYPES("Copy");
  twin::RunCopy(where, twin::MaskArgument::First(mask, repeatTime, isSetMask), {"dst", dst},
                {"src", src}, repeatParams);
}

#undef TWIN_FILL_TYPES

template <typename T>
void CreateVecIndex(LocalTensor<T>& dst, const T& firstValue, uint64_t mask[], Narrow8 repeatTime,
                    Narrow16 dstBlkStride, Narrow8 dstRepStride, twin::Where where = twin::Here()) {
  TWIN_DTYPES("CreateVecIndex", T, int16_t, half, int32_t, float);
  twin::RunIndex(where, twin::MaskArgument::Bits(mask, repeatTime, true), dst, firstValue,
                 twin::Wide(dstBlkStride), twin::Wide(dstRepStride));
}
template <typename T>
void CreateVecIndex(LocalTensor<T>& dst, const T& firstValue, uint64_t mask, Narrow8 repeatTime,
                    Narrow16 dstBlkStride, Narrow8 dstRepStride, twin::Where where = twin::Here()) {
  TWIN_DTYPES("CreateVecIndex", T, int16_t, half, int32_t, float);
  twin::RunIndex(where, twin::MaskArgument::First(mask, repeatTime, true), dst, firstValue,
                 twin::Wide(dstBlkStride), twin::Wide(dstRepStride));
}
template <typename T>
void CreateVecIndex(LocalTensor<T> dst, const T& firstValue, uint32_t count,
                    twin::Where where = twin::Here()) {
  TWIN_DTYPES("CreateVecIndex", T, int16_t, half, int32_t, float);
  twin::RunIndex(where, twin::MaskArgument::Count(count), dst, firstValue, 1, 8);
}

}  // namespace AscendC
