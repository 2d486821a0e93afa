// Compare, Compares, Select, and the register CMPMASK between them.
#pragma once

#include "twin/vector/forms.h"

namespace twin {

// A comparison of n elements into the bits from `first` on of `bits`.
using CompareFunction = void (*)(const uint8_t* a, const uint8_t* b, uint64_t scalar, size_t n,
                                 bool* result);

struct CompareCall {
  const char* name;
  Where where;
  AscendC::CMPMODE mode;
  CompareFunction function;
  bool equality_only;  // int32_t
  int64_t count;       // count form, -1 otherwise
  int64_t repeats;
  uint64_t scalar;
};
// operands: dst, src0[, src1]; strides of the sources.
TWIN_API void RunCompare(const CompareCall& call, std::initializer_list<Operand> operands,
                         std::initializer_list<Strides> strides);
// One repeat into CMPMASK. operands: src0, src1.
TWIN_API void RunCompareToRegister(const CompareCall& call, const MaskArgument& mask,
                                   std::initializer_list<Operand> operands,
                                   std::initializer_list<Strides> strides);
TWIN_API void RunGetCmpMask(const Where& where, const Operand& dst);
TWIN_API void RunSetCmpMask(const Where& where, const Operand& src);

template <typename T>
bool Holds(AscendC::CMPMODE mode, T a, T b) {
  switch (mode) {
    case AscendC::CMPMODE::LT:
      return a < b;
    case AscendC::CMPMODE::GT:
      return a > b;
    case AscendC::CMPMODE::EQ:
      return a == b;
    case AscendC::CMPMODE::LE:
      return a <= b;
    case AscendC::CMPMODE::GE:
      return a >= b;
    default:
      return a != b;
  }
}

// `scalar` holds the mode in its high half; src1's bits in the low half when `b` is null.
template <typename T>
void CompareLoop(const uint8_t* a, const uint8_t* b, uint64_t scalar, size_t n, bool* result) {
  const auto mode = static_cast<AscendC::CMPMODE>(scalar >> 32);
  const T* x = reinterpret_cast<const T*>(a);
  const T* y = reinterpret_cast<const T*>(b);
  const T value = FromScalarBits<T>(scalar & 0xffffffffu);
  for (size_t i = 0; i < n; ++i) result[i] = Holds(mode, x[i], y ? y[i] : value);
}

template <typename T>
CompareCall MakeCompare(const char* name, const Where& where, AscendC::CMPMODE mode, int64_t count,
                        int64_t repeats, uint64_t scalar = 0) {
  return {name,
          where,
          mode,
          &CompareLoop<T>,
          std::is_same<T, int32_t>::value,
          count,
          repeats,
          static_cast<uint64_t>(mode) << 32 | scalar};
}

// The library keeps what some modes of Select hand to CMPMASK in the last 8 KB of UB: warns where a
// buffer of the TPipe reaches into them. `operand` is the first free one, `scratch` its view.
TWIN_API void UseSelectScratch(Instr* instr, int operand, LocalView* scratch);

struct SelectCall {
  Where where;
  AscendC::SELMODE mode;
  MaskArgument mask;
  bool has_scalar;
  uint64_t scalar;
  bool from_register;  // SetCmpMask gave what the mode takes from CMPMASK
};
// operands: dst, selMask, src0[, src1]; without a selMask tensor: dst, src0, src1.
TWIN_API void RunSelect(const SelectCall& call, std::initializer_list<Operand> operands,
                        const AscendC::BinaryRepeatParams& params);

template <typename U>
constexpr bool kSelMask = IsDtypeOf<U, uint8_t, uint16_t, uint32_t, uint64_t>::value;

}  // namespace twin

namespace AscendC {

#define TWIN_COMPARE_TYPES(name)              \
  TWIN_DTYPES(name, T, half, float, int32_t); \
  TWIN_DTYPES(name, U, int8_t, uint8_t)

// The mask is without effect on this architecture.
template <typename T, typename U, bool isSetMask = true>
void Compare(const LocalTensor<U>& dst, const LocalTensor<T>& src0, const LocalTensor<T>& src1,
             CMPMODE cmpMode, const uint64_t mask[], Narrow8 repeatTime,
             const BinaryRepeatParams& repeatParams, twin::Where where = twin::Here()) {
  (void)mask;
  Compare<T, U, isSetMask>(dst, src0, src1, cmpMode, uint64_t{0}, repeatTime, repeatParams, where);
}
template <typename T, typename U, bool isSetMask = true>
void Compare(const LocalTensor<U>& dst, const LocalTensor<T>& src0, const LocalTensor<T>& src1,
             CMPMODE cmpMode, const uint64_t mask, Narrow8 repeatTime,
             const BinaryRepeatParams& repeatParams, twin::Where where = twin::Here()) {
  TWIN_COMPARE_TYPES("Compare");
  (void)mask;
  const BinaryRepeatParams& p = repeatParams;
  twin::RunCompare(twin::MakeCompare<T>("Compare", where, cmpMode, -1, twin::Wide(repeatTime)),
                   {{"dst", dst}, {"src0", src0}, {"src1", src1}},
                   {{twin::Wide(p.src0BlkStride), twin::Wide(p.src0RepStride), "src0BlkStride",
                     "src0RepStride", 255},
                    {twin::Wide(p.src1BlkStride), twin::Wide(p.src1RepStride), "src1BlkStride",
                     "src1RepStride", 255}});
}
template <typename T, typename U>
void Compare(const LocalTensor<U>& dst, const LocalTensor<T>& src0, const LocalTensor<T>& src1,
             CMPMODE cmpMode, uint32_t count, twin::Where where = twin::Here()) {
  TWIN_COMPARE_TYPES("Compare");
  twin::RunCompare(twin::MakeCompare<T>("Compare", where, cmpMode, count, 1),
                   {{"dst", dst}, {"src0", src0}, {"src1", src1}},
                   {{1, 8, "", ""}, {1, 8, "", ""}});
}
// The result stays in CMPMASK.
template <typename T, bool isSetMask = true>
void Compare(const LocalTensor<T>& src0, const LocalTensor<T>& src1, CMPMODE cmpMode,
             const uint64_t mask[], const BinaryRepeatParams& repeatParams,
             twin::Where where = twin::Here()) {
  TWIN_DTYPES("Compare", T, half, float);
  const BinaryRepeatParams& p = repeatParams;
  twin::RunCompareToRegister(twin::MakeCompare<T>("Compare", where, cmpMode, -1, 1),
                             twin::MaskArgument::Bits(mask, Narrow8(1), isSetMask),
                             {{"src0", src0}, {"src1", src1}},
                             {{twin::Wide(p.src0BlkStride), twin::Wide(p.src0RepStride),
                               "src0BlkStride", "src0RepStride", 255},
                              {twin::Wide(p.src1BlkStride), twin::Wide(p.src1RepStride),
                               "src1BlkStride", "src1RepStride", 255}});
}
template <typename T, bool isSetMask = true>
void Compare(const LocalTensor<T>& src0, const LocalTensor<T>& src1, CMPMODE cmpMode,
             const uint64_t mask, const BinaryRepeatParams& repeatParams,
             twin::Where where = twin::Here()) {
  TWIN_DTYPES("Compare", T, half, float);
  const BinaryRepeatParams& p = repeatParams;
  twin::RunCompareToRegister(twin::MakeCompare<T>("Compare", where, cmpMode, -1, 1),
                             twin::MaskArgument::First(mask, Narrow8(1), isSetMask),
                             {{"src0", src0}, {"src1", src1}},
                             {{twin::Wide(p.src0BlkStride), twin::Wide(p.src0RepStride),
                               "src0BlkStride", "src0RepStride", 255},
                              {twin::Wide(p.src1BlkStride), twin::Wide(p.src1RepStride),
                               "src1BlkStride", "src1RepStride", 255}});
}

// Compares and CompareScalar, its older name.
#define TWIN_COMPARE_SCALAR(Name)                                                                \
  template <typename T, typename U, bool isSetMask = true>                                       \
  void Name(const LocalTensor<U>& dst, const LocalTensor<T>& src0, const T src1Scalar,           \
            CMPMODE cmpMode, const uint64_t mask, Narrow8 repeatTime,                            \
            const UnaryRepeatParams& repeatParams, twin::Where where = twin::Here()) {           \
    TWIN_DTYPES(#Name, T, half, float, int32_t);                                                 \
    TWIN_DTYPES(#Name, U, uint8_t);                                                              \
    (void)mask;                                                                                  \
    twin::RunCompare(twin::MakeCompare<T>(#Name, where, cmpMode, -1, twin::Wide(repeatTime),     \
                                          twin::ScalarBits(src1Scalar)),                         \
                     {{"dst", dst}, {"src0", src0}},                                             \
                     {{twin::Wide(repeatParams.srcBlkStride),                                    \
                       twin::Wide(repeatParams.srcRepStride), "srcBlkStride", "srcRepStride"}}); \
  }                                                                                              \
  template <typename T, typename U, bool isSetMask = true>                                       \
  void Name(const LocalTensor<U>& dst, const LocalTensor<T>& src0, const T src1Scalar,           \
            CMPMODE cmpMode, const uint64_t mask[], Narrow8 repeatTime,                          \
            const UnaryRepeatParams& repeatParams, twin::Where where = twin::Here()) {           \
    (void)mask;                                                                                  \
    Name<T, U, isSetMask>(dst, src0, src1Scalar, cmpMode, uint64_t{0}, repeatTime, repeatParams, \
                          where);                                                                \
  }                                                                                              \
  template <typename T, typename U>                                                              \
  void Name(const LocalTensor<U>& dst, const LocalTensor<T>& src0, const T src1Scalar,           \
            CMPMODE cmpMode, uint32_t count, twin::Where where = twin::Here()) {                 \
    TWIN_DTYPES(#Name, T, half, float, int32_t);                                                 \
    TWIN_DTYPES(#Name, U, uint8_t);                                                              \
    twin::RunCompare(                                                                            \
        twin::MakeCompare<T>(#Name, where, cmpMode, count, 1, twin::ScalarBits(src1Scalar)),     \
        {{"dst", dst}, {"src0", src0}}, {{1, 8, "", ""}});                                       \
  }
TWIN_COMPARE_SCALAR(Compares)
TWIN_COMPARE_SCALAR(CompareScalar)
#undef TWIN_COMPARE_SCALAR
#undef TWIN_COMPARE_TYPES

template <typename T>
void GetCmpMask(const LocalTensor<T>& dst, twin::Where where = twin::Here()) {
  static_assert(sizeof(T) <= 4, "GetCmpMask takes 8-, 16- and 32-bit data types");
  twin::RunGetCmpMask(where, {"dst", dst});
}
template <typename T>
void SetCmpMask(const LocalTensor<T>& src, twin::Where where = twin::Here()) {
  twin::RunSetCmpMask(where, {"src", src});
}

#define TWIN_SELECT_TYPES                \
  TWIN_DTYPES("Select", T, half, float); \
  TWIN_DTYPES("Select", U, uint8_t, uint16_t, uint32_t, uint64_t)

template <typename T, typename U, bool isSetMask = true>
void Select(const LocalTensor<T>& dst, const LocalTensor<U>& selMask, const LocalTensor<T>& src0,
            const LocalTensor<T>& src1, SELMODE selMode, uint64_t mask[], Narrow8 repeatTime,
            const BinaryRepeatParams& repeatParams, twin::Where where = twin::Here()) {
  TWIN_SELECT_TYPES;
  twin::RunSelect(
      {where, selMode, twin::MaskArgument::Bits(mask, repeatTime, true), false, 0, false},
      {{"dst", dst}, {"selMask", selMask}, {"src0", src0}, {"src1", src1}}, repeatParams);
}
template <typename T, typename U, bool isSetMask = true>
void Select(const LocalTensor<T>& dst, const LocalTensor<U>& selMask, const LocalTensor<T>& src0,
            const LocalTensor<T>& src1, SELMODE selMode, uint64_t mask, Narrow8 repeatTime,
            const BinaryRepeatParams& repeatParams, twin::Where where = twin::Here()) {
  TWIN_SELECT_TYPES;
  twin::RunSelect(
      {where, selMode, twin::MaskArgument::First(mask, repeatTime, true), false, 0, false},
      {{"dst", dst}, {"selMask", selMask}, {"src0", src0}, {"src1", src1}}, repeatParams);
}
template <typename T, typename U>
void Select(const LocalTensor<T>& dst, const LocalTensor<U>& selMask, const LocalTensor<T>& src0,
            const LocalTensor<T>& src1, SELMODE selMode, uint32_t count,
            twin::Where where = twin::Here()) {
  TWIN_SELECT_TYPES;
  twin::RunSelect({where, selMode, twin::MaskArgument::Count(count), false, 0, false},
                  {{"dst", dst}, {"selMask", selMask}, {"src0", src0}, {"src1", src1}},
                  BinaryRepeatParams());
}
template <typename T, typename U, bool isSetMask = true>
void Select(const LocalTensor<T>& dst, const LocalTensor<U>& selMask, const LocalTensor<T>& src0,
            T src1, SELMODE selMode, uint64_t mask[], Narrow8 repeatTime,
            const BinaryRepeatParams& repeatParams, twin::Where where = twin::Here()) {
  TWIN_SELECT_TYPES;
  twin::RunSelect({where, selMode, twin::MaskArgument::Bits(mask, repeatTime, true), true,
                   twin::ScalarBits(src1), false},
                  {{"dst", dst}, {"selMask", selMask}, {"src0", src0}}, repeatParams);
}
template <typename T, typename U, bool isSetMask = true>
void Select(const LocalTensor<T>& dst, const LocalTensor<U>& selMask, const LocalTensor<T>& src0,
            T src1, SELMODE selMode, uint64_t mask, Narrow8 repeatTime,
            const BinaryRepeatParams& repeatParams, twin::Where where = twin::Here()) {
  TWIN_SELECT_TYPES;
  twin::RunSelect({where, selMode, twin::MaskArgument::First(mask, repeatTime, true), true,
                   twin::ScalarBits(src1), false},
                  {{"dst", dst}, {"selMask", selMask}, {"src0", src0}}, repeatParams);
}
template <typename T, typename U>
void Select(const LocalTensor<T>& dst, const LocalTensor<U>& selMask, const LocalTensor<T>& src0,
            T src1, SELMODE selMode, uint32_t count, twin::Where where = twin::Here()) {
  TWIN_SELECT_TYPES;
  twin::RunSelect(
      {where, selMode, twin::MaskArgument::Count(count), true, twin::ScalarBits(src1), false},
      {{"dst", dst}, {"selMask", selMask}, {"src0", src0}}, BinaryRepeatParams());
}
// Without a mask argument: SetVectorMask and SetCmpMask come before.
template <typename T, SELMODE selMode>
void Select(const LocalTensor<T>& dst, const LocalTensor<T>& src0, const LocalTensor<T>& src1,
            Narrow8 repeatTime, const BinaryRepeatParams& repeatParams,
            twin::Where where = twin::Here()) {
  TWIN_DTYPES("Select", T, half, float);
  static_assert(
      selMode != SELMODE::VSEL_TENSOR_SCALAR_MODE,
      "Select without a mask argument takes VSEL_CMPMASK_SPR and VSEL_TENSOR_TENSOR_MODE");
  twin::RunSelect({where, selMode, twin::MaskArgument::First(0, repeatTime, false), false, 0, true},
                  {{"dst", dst}, {"src0", src0}, {"src1", src1}}, repeatParams);
}
template <typename T, typename U>
void Select(const LocalTensor<T>& dst, const LocalTensor<U>& selMask, const LocalTensor<T>& src0,
            Narrow8 repeatTime, const BinaryRepeatParams& repeatParams,
            twin::Where where = twin::Here()) {
  TWIN_SELECT_TYPES;
  twin::RunSelect({where, SELMODE::VSEL_TENSOR_SCALAR_MODE,
                   twin::MaskArgument::First(0, repeatTime, false), true, 0, true},
                  {{"dst", dst}, {"selMask", selMask}, {"src0", src0}}, repeatParams);
}
#undef TWIN_SELECT_TYPES

}  // namespace AscendC
