// Element by element: arithmetic, logic, shifts, fused operations. The tables at the end give what
// differs from one API to the next: the lane operation and the legal data types.
#pragma once

#include "twin/vector/arithmetic.h"
#include "twin/vector/elementwise_run.h"
#include "twin/vector/forms.h"

namespace twin {

template <typename D, typename S>
void RunThree(const Elementwise& call, const AscendC::BinaryRepeatParams& p,
              const AscendC::LocalTensor<D>& dst, const AscendC::LocalTensor<S>& src0,
              const AscendC::LocalTensor<S>& src1) {
  RunElementwise(call, {{"dst", dst}, {"src0", src0}, {"src1", src1}},
                 {{twin::Wide(p.dstBlkStride), twin::Wide(p.dstRepStride), "dstBlkStride",
                   "dstRepStride", 255},
                  {twin::Wide(p.src0BlkStride), twin::Wide(p.src0RepStride), "src0BlkStride",
                   "src0RepStride", 255},
                  {twin::Wide(p.src1BlkStride), twin::Wide(p.src1RepStride), "src1BlkStride",
                   "src1RepStride", 255}});
}
template <typename D, typename S>
void RunTwo(const Elementwise& call, const AscendC::UnaryRepeatParams& p,
            const AscendC::LocalTensor<D>& dst, const AscendC::LocalTensor<S>& src) {
  RunElementwise(
      call, {{"dst", dst}, {"src", src}},
      {{twin::Wide(p.dstBlkStride), twin::Wide(p.dstRepStride), "dstBlkStride", "dstRepStride"},
       {twin::Wide(p.srcBlkStride), twin::Wide(p.srcRepStride), "srcBlkStride", "srcRepStride"}});
}

// dst = f(src0, src1)
template <typename Lane, bool kAccumulates = false>
struct Binary {
  template <typename T>
  static void Run(const char* name, const Where& where, const MaskArgument& mask,
                  const AscendC::BinaryRepeatParams& params, const AscendC::LocalTensor<T>& dst,
                  const AscendC::LocalTensor<T>& src0, const AscendC::LocalTensor<T>& src1) {
    Elementwise call{name, where, mask, &BinaryLoop<Lane, T>};
    // The documentation grants it to half, float and int32_t.
    call.accumulates = kAccumulates && !std::is_same<T, int16_t>::value;
    RunThree(call, params, dst, src0, src1);
  }
};

// dst = f(src)
template <typename Lane>
struct Unary {
  template <typename T>
  static void Run(const char* name, const Where& where, const MaskArgument& mask,
                  const AscendC::UnaryRepeatParams& params, const AscendC::LocalTensor<T>& dst,
                  const AscendC::LocalTensor<T>& src) {
    RunTwo({name, where, mask, &UnaryLoop<Lane, T>}, params, dst, src);
  }
};

// dst = f(src, scalar)
template <typename Lane>
struct Scalar {
  template <typename T>
  static void Run(const char* name, const Where& where, const MaskArgument& mask,
                  const AscendC::UnaryRepeatParams& params, const AscendC::LocalTensor<T>& dst,
                  const AscendC::LocalTensor<T>& src, const T& scalar) {
    RunTwo({name, where, mask, &ScalarLoop<Lane, T>, ScalarBits(scalar)}, params, dst, src);
  }
};

// dst = f(src0, src1, dst)
template <typename Lane>
struct Ternary {
  template <typename D, typename S>
  static void Run(const char* name, const Where& where, const MaskArgument& mask,
                  const AscendC::BinaryRepeatParams& params, const AscendC::LocalTensor<D>& dst,
                  const AscendC::LocalTensor<S>& src0, const AscendC::LocalTensor<S>& src1) {
    Elementwise call{name, where, mask, &TernaryLoop<Lane, D, S>};
    call.reads_dst = true;
    RunThree(call, params, dst, src0, src1);
  }
};

// dst = f(src, scalar, dst)
template <typename Lane>
struct TernaryScalar {
  template <typename D, typename S>
  static void Run(const char* name, const Where& where, const MaskArgument& mask,
                  const AscendC::UnaryRepeatParams& params, const AscendC::LocalTensor<D>& dst,
                  const AscendC::LocalTensor<S>& src, const S& scalar) {
    Elementwise call{name, where, mask, &TernaryScalarLoop<Lane, D, S>, ScalarBits(scalar)};
    call.reads_dst = true;
    RunTwo(call, params, dst, src);
  }
};

template <typename D, typename S>
constexpr bool kMulAddTypes = (std::is_same<D, S>::value && IsDtypeOf<D, half, float>::value) ||
                              (std::is_same<D, float>::value && std::is_same<S, half>::value);

// The number of positions a shift takes, 0 to the bits of the type.
TWIN_API void CheckShift(const char* name, const Where& where, int64_t positions, int bits);

template <bool kLeft, bool kRound = false>
struct Shift {
  template <typename T>
  static void Run(const char* name, const Where& where, const MaskArgument& mask,
                  const AscendC::UnaryRepeatParams& params, const AscendC::LocalTensor<T>& dst,
                  const AscendC::LocalTensor<T>& src, const T& positions) {
    CheckShift(name, where, static_cast<int64_t>(positions), 8 * sizeof(T));
    using Lane = std::conditional_t<kLeft, ShiftLeftLane, ShiftRightLane<kRound>>;
    Scalar<Lane>::Run(name, where, mask, params, dst, src, positions);
  }
};

}  // namespace twin

namespace AscendC {

#define TWIN_BINARY_API(Name, Family, ...)                                                        \
  TWIN_FORMS(Name, TWIN_DTYPES(#Name, T, __VA_ARGS__), (twin::IsDtypeOf<T, __VA_ARGS__>::value),  \
             (typename T), (typename T), true,                                                    \
             (const LocalTensor<T>& dst, const LocalTensor<T>& src0, const LocalTensor<T>& src1), \
             (dst, src0, src1), uint64_t, const Narrow8, BinaryRepeatParams, Family)

#define TWIN_UNARY_API(Name, Lane, ...)                                                          \
  TWIN_FORMS(Name, TWIN_DTYPES(#Name, T, __VA_ARGS__), (twin::IsDtypeOf<T, __VA_ARGS__>::value), \
             (typename T), (typename T), true,                                                   \
             (const LocalTensor<T>& dst, const LocalTensor<T>& src), (dst, src), uint64_t,       \
             const Narrow8, UnaryRepeatParams, (twin::Unary<twin::Lane>))

// T is deduced from the scalar too, as with CANN's headers: Adds(dst, src, 1, n) on halves does not
// compile; Adds<half>(...) does, and a scalar of type half.
#define TWIN_SCALAR_API(Name, Family, ...)                                                       \
  TWIN_FORMS(Name, TWIN_DTYPES(#Name, T, __VA_ARGS__), (twin::IsDtypeOf<T, __VA_ARGS__>::value), \
             (typename T), (typename T, bool isSetMask = true), isSetMask,                       \
             (const LocalTensor<T>& dst, const LocalTensor<T>& src, const T& scalarValue),       \
             (dst, src, scalarValue), uint64_t, const Narrow8, UnaryRepeatParams, Family)

TWIN_BINARY_API(Add, (twin::Binary<twin::AddLane, true>), half, float, int16_t, int32_t)
TWIN_BINARY_API(Sub, (twin::Binary<twin::SubLane, true>), half, float, int16_t, int32_t)
TWIN_BINARY_API(Mul, (twin::Binary<twin::MulLane, true>), half, float, int16_t, int32_t)
TWIN_BINARY_API(Max, (twin::Binary<twin::MaxLane, true>), half, float, int16_t, int32_t)
TWIN_BINARY_API(Min, (twin::Binary<twin::MinLane, true>), half, float, int16_t, int32_t)
TWIN_BINARY_API(Div, (twin::Binary<twin::DivLane>), half, float)
TWIN_BINARY_API(And, (twin::Binary<twin::AndLane>), int16_t, uint16_t)
TWIN_BINARY_API(Or, (twin::Binary<twin::OrLane>), int16_t, uint16_t)
TWIN_BINARY_API(AddRelu, (twin::Binary<twin::ThenRelu<twin::AddLane>, true>), half, float, int16_t)
TWIN_BINARY_API(SubRelu, (twin::Binary<twin::ThenRelu<twin::SubLane>, true>), half, float, int16_t)
TWIN_BINARY_API(FusedMulAdd, (twin::Ternary<twin::FusedMulAddLane>), half, float)
TWIN_BINARY_API(MulAddRelu, (twin::Ternary<twin::MulAddReluLane>), half, float)

TWIN_UNARY_API(Exp, ExpLane, half, float)
TWIN_UNARY_API(Ln, LnLane, half, float)
TWIN_UNARY_API(Abs, AbsLane, half, float)
TWIN_UNARY_API(Sqrt, SqrtLane, half, float)
TWIN_UNARY_API(Rsqrt, RsqrtLane, half, float)
TWIN_UNARY_API(Reciprocal, ReciprocalLane, half, float)
TWIN_UNARY_API(Relu, ReluLane, half, float, int32_t)
TWIN_UNARY_API(Not, NotLane, int16_t, uint16_t)

TWIN_SCALAR_API(Adds, (twin::Scalar<twin::AddLane>), half, float, int16_t, int32_t)
TWIN_SCALAR_API(Muls, (twin::Scalar<twin::MulLane>), half, float, int16_t, int32_t)
TWIN_SCALAR_API(Maxs, (twin::Scalar<twin::MaxLane>), half, float, int16_t, int32_t)
TWIN_SCALAR_API(Mins, (twin::Scalar<twin::MinLane>), half, float, int16_t, int32_t)
TWIN_SCALAR_API(LeakyRelu, (twin::Scalar<twin::LeakyReluLane>), half, float)
TWIN_SCALAR_API(ShiftLeft, (twin::Shift<true>), int16_t, uint16_t, int32_t, uint32_t)
TWIN_SCALAR_API(ShiftRight, (twin::Shift<false>), int16_t, uint16_t, int32_t, uint32_t)

#define TWIN_MUL_ADD(Name) \
  TWIN_DTYPE_PAIRS(Name, T, U, twin::kMulAddTypes, "half/half, float/float and float/half")

TWIN_FORMS(MulAddDst, TWIN_MUL_ADD("MulAddDst"), (twin::kMulAddTypes<T, U>),
           (typename T, typename U), (typename T, typename U), true,
           (const LocalTensor<T>& dst, const LocalTensor<U>& src0, const LocalTensor<U>& src1),
           (dst, src0, src1), const uint64_t, const Narrow8, BinaryRepeatParams,
           (twin::Ternary<twin::MulAddLane>))
TWIN_FORMS(Axpy, TWIN_MUL_ADD("Axpy"), (twin::kMulAddTypes<T, U>), (typename T, typename U),
           (typename T, typename U), true,
           (const LocalTensor<T>& dst, const LocalTensor<U>& src, const U& scalarValue),
           (dst, src, scalarValue), uint64_t, const Narrow8, UnaryRepeatParams,
           (twin::TernaryScalar<twin::MulAddLane>))

#undef TWIN_MUL_ADD
#undef TWIN_SCALAR_API
#undef TWIN_UNARY_API
#undef TWIN_BINARY_API

// The forms of ShiftRight with rounding: the last bit shifted out is added (signed types).
template <typename T, bool isSetMask = true>
void ShiftRight(const LocalTensor<T>& dst, const LocalTensor<T>& src, const T& scalarValue,
                uint64_t mask[], const Narrow8 repeatTime, const UnaryRepeatParams& repeatParams,
                bool roundEn, twin::Where where = twin::Here()) {
  TWIN_DTYPES("ShiftRight", T, int16_t, uint16_t, int32_t, uint32_t);
  const auto lanes = twin::MaskArgument::Bits(mask, repeatTime, isSetMask);
  if (roundEn) {
    twin::Shift<false, true>::Run("ShiftRight", where, lanes, repeatParams, dst, src, scalarValue);
  } else {
    twin::Shift<false>::Run("ShiftRight", where, lanes, repeatParams, dst, src, scalarValue);
  }
}
template <typename T, bool isSetMask = true>
void ShiftRight(const LocalTensor<T>& dst, const LocalTensor<T>& src, const T& scalarValue,
                uint64_t mask, const Narrow8 repeatTime, const UnaryRepeatParams& repeatParams,
                bool roundEn, twin::Where where = twin::Here()) {
  TWIN_DTYPES("ShiftRight", T, int16_t, uint16_t, int32_t, uint32_t);
  const auto lanes = twin::MaskArgument::First(mask, repeatTime, isSetMask);
  if (roundEn) {
    twin::Shift<false, true>::Run("ShiftRight", where, lanes, repeatParams, dst, src, scalarValue);
  } else {
    twin::Shift<false>::Run("ShiftRight", where, lanes, repeatParams, dst, src, scalarValue);
  }
}

}  // namespace AscendC
