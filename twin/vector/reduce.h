// Reductions, under their new names and the older ones that CANN keeps.
#pragma once

#include "twin/vector/forms.h"
#include "twin/vector/reduce_run.h"

namespace AscendC {

// Name<reduceType>(dst, src, mask[] | mask, repeatTime, dstRepStride, srcBlkStride, srcRepStride)
#define TWIN_REDUCE_API(Name, Span, Legal, text)                                              \
  template <ReduceType reduceType, typename T, typename U, bool isSetMask = true>             \
  void Name(const LocalTensor<T>& dst, const LocalTensor<U>& src, const uint64_t mask[],      \
            const int32_t repeatTime, const int32_t dstRepStride, const int32_t srcBlkStride, \
            const int32_t srcRepStride, twin::Where where = twin::Here()) {                   \
    static_assert(Legal, #Name " takes " text);                                               \
    TWIN_DTYPES(#Name, T, half, float);                                                       \
    static_assert(std::is_same<T, U>::value, #Name " takes one data type for dst and src");   \
    const auto lanes =                                                                        \
        twin::MaskArgument::Bits(mask, twin::Narrowed<int64_t>(repeatTime), isSetMask);       \
    twin::RunReduce({#Name, where, lanes, Span, reduceType, ReduceOrder::ORDER_VALUE_INDEX,   \
                     dstRepStride, srcBlkStride, srcRepStride},                               \
                    {"dst", dst}, {"src", src});                                              \
  }                                                                                           \
  template <ReduceType reduceType, typename T, typename U, bool isSetMask = true>             \
  void Name(const LocalTensor<T>& dst, const LocalTensor<U>& src, const int32_t mask,         \
            const int32_t repeatTime, const int32_t dstRepStride, const int32_t srcBlkStride, \
            const int32_t srcRepStride, twin::Where where = twin::Here()) {                   \
    static_assert(Legal, #Name " takes " text);                                               \
    TWIN_DTYPES(#Name, T, half, float);                                                       \
    static_assert(std::is_same<T, U>::value, #Name " takes one data type for dst and src");   \
    const auto lanes =                                                                        \
        twin::MaskArgument::First(mask, twin::Narrowed<int64_t>(repeatTime), isSetMask);      \
    twin::RunReduce({#Name, where, lanes, Span, reduceType, ReduceOrder::ORDER_VALUE_INDEX,   \
                     dstRepStride, srcBlkStride, srcRepStride},                               \
                    {"dst", dst}, {"src", src});                                              \
  }

TWIN_REDUCE_API(ReduceDataBlock, twin::ReduceSpan::kBlock, true, "SUM, MAX and MIN")
TWIN_REDUCE_API(ReducePairElem, twin::ReduceSpan::kPair, reduceType == ReduceType::SUM, "SUM")
#undef TWIN_REDUCE_API

// A reduction with an order for MAX and MIN.
#define TWIN_REDUCE_REPEAT(MaskType, Form)                                                        \
  template <ReduceType reduceType, typename T, typename U, bool isSetMask = true>                 \
  void ReduceRepeat(                                                                              \
      const LocalTensor<T>& dst, const LocalTensor<U>& src, MaskType, const int32_t repeatTime,   \
      const int32_t dstRepStride, const int32_t srcBlkStride, const int32_t srcRepStride,         \
      ReduceOrder order = ReduceOrder::ORDER_VALUE_INDEX, twin::Where where = twin::Here()) {     \
    TWIN_DTYPES("ReduceRepeat", T, half, float);                                                  \
    static_assert(std::is_same<T, U>::value, "ReduceRepeat takes one data type for dst and src"); \
    const auto lanes =                                                                            \
        twin::MaskArgument::Form(mask, twin::Narrowed<int64_t>(repeatTime), isSetMask);           \
    twin::RunReduce({"ReduceRepeat", where, lanes, twin::ReduceSpan::kRepeat, reduceType, order,  \
                     dstRepStride, srcBlkStride, srcRepStride},                                   \
                    {"dst", dst}, {"src", src});                                                  \
  }
TWIN_REDUCE_REPEAT(const uint64_t mask[], Bits)
TWIN_REDUCE_REPEAT(const int32_t mask, First)
#undef TWIN_REDUCE_REPEAT

// The older names: (dst, src, repeatTime, mask, ...) for blocks and pairs, (dst, src, mask,
// repeatTime, ...) for whole repeats.
#define TWIN_REDUCE_OLD(Name, Span, Type, MaskType, Form)                                   \
  template <typename T, bool isSetMask = true>                                              \
  void Name(const LocalTensor<T>& dst, const LocalTensor<T>& src, const int32_t repeatTime, \
            MaskType, const int32_t dstRepStride, const int32_t srcBlkStride,               \
            const int32_t srcRepStride, twin::Where where = twin::Here()) {                 \
    TWIN_DTYPES(#Name, T, half, float);                                                     \
    const auto lanes =                                                                      \
        twin::MaskArgument::Form(mask, twin::Narrowed<int64_t>(repeatTime), isSetMask);     \
    twin::RunReduce({#Name, where, lanes, Span, Type, ReduceOrder::ORDER_VALUE_INDEX,       \
                     dstRepStride, srcBlkStride, srcRepStride},                             \
                    {"dst", dst}, {"src", src});                                            \
  }
#define TWIN_REDUCE_OLD_FORMS(Name, Span, Type)                  \
  TWIN_REDUCE_OLD(Name, Span, Type, const uint64_t mask[], Bits) \
  TWIN_REDUCE_OLD(Name, Span, Type, const int32_t mask, First)
TWIN_REDUCE_OLD_FORMS(BlockReduceSum, twin::ReduceSpan::kBlock, ReduceType::SUM)
TWIN_REDUCE_OLD_FORMS(BlockReduceMax, twin::ReduceSpan::kBlock, ReduceType::MAX)
TWIN_REDUCE_OLD_FORMS(BlockReduceMin, twin::ReduceSpan::kBlock, ReduceType::MIN)
TWIN_REDUCE_OLD_FORMS(PairReduceSum, twin::ReduceSpan::kPair, ReduceType::SUM)
#undef TWIN_REDUCE_OLD_FORMS
#undef TWIN_REDUCE_OLD

#define TWIN_WHOLE_REDUCE(Name, Type, MaskType, Form)                                           \
  template <typename T, bool isSetMask = true>                                                  \
  void Name(const LocalTensor<T>& dst, const LocalTensor<T>& src, MaskType,                     \
            const int32_t repeatTime, const int32_t dstRepStride, const int32_t srcBlkStride,   \
            const int32_t srcRepStride, ReduceOrder order = ReduceOrder::ORDER_VALUE_INDEX,     \
            twin::Where where = twin::Here()) {                                                 \
    TWIN_DTYPES(#Name, T, half, float);                                                         \
    const auto lanes =                                                                          \
        twin::MaskArgument::Form(mask, twin::Narrowed<int64_t>(repeatTime), isSetMask);         \
    twin::RunReduce({#Name, where, lanes, twin::ReduceSpan::kRepeat, Type, order, dstRepStride, \
                     srcBlkStride, srcRepStride},                                               \
                    {"dst", dst}, {"src", src});                                                \
  }
TWIN_WHOLE_REDUCE(WholeReduceMax, ReduceType::MAX, const uint64_t mask[], Bits)
TWIN_WHOLE_REDUCE(WholeReduceMax, ReduceType::MAX, const int32_t mask, First)
TWIN_WHOLE_REDUCE(WholeReduceMin, ReduceType::MIN, const uint64_t mask[], Bits)
TWIN_WHOLE_REDUCE(WholeReduceMin, ReduceType::MIN, const int32_t mask, First)
#undef TWIN_WHOLE_REDUCE

template <typename T, bool isSetMask = true>
void WholeReduceSum(const LocalTensor<T>& dst, const LocalTensor<T>& src, const uint64_t mask[],
                    const int32_t repeatTime, const int32_t dstRepStride,
                    const int32_t srcBlkStride, const int32_t srcRepStride,
                    twin::Where where = twin::Here()) {
  TWIN_DTYPES("WholeReduceSum", T, half, float);
  const auto lanes = twin::MaskArgument::Bits(mask, twin::Narrowed<int64_t>(repeatTime), isSetMask);
  twin::RunRepeatSum({"WholeReduceSum", where, lanes, dstRepStride, srcBlkStride, srcRepStride},
                     {"dst", dst}, {"src", src});
}
template <typename T, bool isSetMask = true>
void WholeReduceSum(const LocalTensor<T>& dst, const LocalTensor<T>& src, const int32_t mask,
                    const int32_t repeatTime, const int32_t dstRepStride,
                    const int32_t srcBlkStride, const int32_t srcRepStride,
                    twin::Where where = twin::Here()) {
  TWIN_DTYPES("WholeReduceSum", T, half, float);
  const auto lanes =
      twin::MaskArgument::First(mask, twin::Narrowed<int64_t>(repeatTime), isSetMask);
  twin::RunRepeatSum({"WholeReduceSum", where, lanes, dstRepStride, srcBlkStride, srcRepStride},
                     {"dst", dst}, {"src", src});
}
template <typename T, bool isSetMask = true>
void RepeatReduceSum(const LocalTensor<T>& dst, const LocalTensor<T>& src, const int32_t repeatTime,
                     const int32_t mask, const int32_t dstBlkStride, const int32_t srcBlkStride,
                     const int32_t dstRepStride, const int32_t srcRepStride,
                     twin::Where where = twin::Here()) {
  TWIN_DTYPES("RepeatReduceSum", T, half, float);
  (void)dstBlkStride;  // the destination of a repeat is one value
  const auto lanes =
      twin::MaskArgument::First(mask, twin::Narrowed<int64_t>(repeatTime), isSetMask);
  twin::RunRepeatSum({"RepeatReduceSum", where, lanes, dstRepStride, srcBlkStride, srcRepStride},
                     {"dst", dst}, {"src", src});
}

// ReduceMax, ReduceMin: mask bits, mask, count.
#define TWIN_REDUCE_ALL(Name, Type)                                                                \
  template <typename T>                                                                            \
  void Name(const LocalTensor<T>& dst, const LocalTensor<T>& src,                                  \
            const LocalTensor<T>& sharedTmpBuffer, const uint64_t mask[],                          \
            const int32_t repeatTime, const int32_t srcRepStride, bool calIndex = 0,               \
            twin::Where where = twin::Here()) {                                                    \
    TWIN_DTYPES(#Name, T, half, float);                                                            \
    const auto lanes = twin::MaskArgument::Bits(mask, twin::Narrowed<int64_t>(repeatTime), true);  \
    twin::RunReduceAll({#Name, where, lanes, Type, srcRepStride, calIndex}, {"dst", dst},          \
                       {"src", src}, {"sharedTmpBuffer", sharedTmpBuffer});                        \
  }                                                                                                \
  template <typename T>                                                                            \
  void Name(const LocalTensor<T>& dst, const LocalTensor<T>& src,                                  \
            const LocalTensor<T>& sharedTmpBuffer, const int32_t mask, const int32_t repeatTime,   \
            const int32_t srcRepStride, bool calIndex = 0, twin::Where where = twin::Here()) {     \
    TWIN_DTYPES(#Name, T, half, float);                                                            \
    const auto lanes = twin::MaskArgument::First(mask, twin::Narrowed<int64_t>(repeatTime), true); \
    twin::RunReduceAll({#Name, where, lanes, Type, srcRepStride, calIndex}, {"dst", dst},          \
                       {"src", src}, {"sharedTmpBuffer", sharedTmpBuffer});                        \
  }                                                                                                \
  template <typename T>                                                                            \
  void Name(const LocalTensor<T>& dst, const LocalTensor<T>& src,                                  \
            const LocalTensor<T>& sharedTmpBuffer, const int32_t count, bool calIndex = 0,         \
            twin::Where where = twin::Here()) {                                                    \
    TWIN_DTYPES(#Name, T, half, float);                                                            \
    twin::RunReduceAll({#Name, where, twin::MaskArgument::Count(count), Type, 8, calIndex},        \
                       {"dst", dst}, {"src", src}, {"sharedTmpBuffer", sharedTmpBuffer});          \
  }
TWIN_REDUCE_ALL(ReduceMax, ReduceType::MAX)
TWIN_REDUCE_ALL(ReduceMin, ReduceType::MIN)
#undef TWIN_REDUCE_ALL

template <typename T>
void ReduceSum(const LocalTensor<T>& dst, const LocalTensor<T>& src,
               const LocalTensor<T>& sharedTmpBuffer, const uint64_t mask[],
               const int32_t repeatTime, const int32_t srcRepStride,
               twin::Where where = twin::Here()) {
  TWIN_DTYPES("ReduceSum", T, half, float);
  const auto lanes = twin::MaskArgument::Bits(mask, twin::Narrowed<int64_t>(repeatTime), true);
  twin::RunReduceAll({"ReduceSum", where, lanes, ReduceType::SUM, srcRepStride, false},
                     {"dst", dst}, {"src", src}, {"sharedTmpBuffer", sharedTmpBuffer});
}
template <typename T>
void ReduceSum(const LocalTensor<T>& dst, const LocalTensor<T>& src,
               const LocalTensor<T>& sharedTmpBuffer, const int32_t mask, const int32_t repeatTime,
               const int32_t srcRepStride, twin::Where where = twin::Here()) {
  TWIN_DTYPES("ReduceSum", T, half, float);
  const auto lanes = twin::MaskArgument::First(mask, twin::Narrowed<int64_t>(repeatTime), true);
  twin::RunReduceAll({"ReduceSum", where, lanes, ReduceType::SUM, srcRepStride, false},
                     {"dst", dst}, {"src", src}, {"sharedTmpBuffer", sharedTmpBuffer});
}
template <typename T, bool isSetMask = true>
void ReduceSum(const LocalTensor<T>& dst, const LocalTensor<T>& src,
               const LocalTensor<T>& sharedTmpBuffer, const int32_t count,
               twin::Where where = twin::Here()) {
  TWIN_DTYPES("ReduceSum", T, half, float);
  twin::RunReduceAll(
      {"ReduceSum", where, twin::MaskArgument::Count(count, isSetMask), ReduceType::SUM, 8, false},
      {"dst", dst}, {"src", src}, {"sharedTmpBuffer", sharedTmpBuffer});
}

template <typename T>
T GetReduceRepeatSumSpr(twin::Where where = twin::Here()) {
  TWIN_DTYPES("GetReduceRepeatSumSpr", T, half, float);
  return twin::FromScalarBits<T>(twin::ReadSum(where));
}
template <typename T>
T GetAccVal(twin::Where where = twin::Here()) {
  return GetReduceRepeatSumSpr<T>(where);
}
template <typename T>
void GetReduceRepeatMaxMinSpr(T& maxMinValue, T& maxMinIndex, twin::Where where = twin::Here()) {
  TWIN_DTYPES("GetReduceRepeatMaxMinSpr", T, half, float);
  uint64_t value = 0, index = 0;
  twin::ReadExtreme(where, &value, &index);
  maxMinValue = twin::FromScalarBits<T>(value);
  maxMinIndex = twin::FromScalarBits<T>(index);
}
template <typename T>
void GetReduceMaxMinCount(T& maxMinValue, T& maxMinIndex, twin::Where where = twin::Here()) {
  GetReduceRepeatMaxMinSpr(maxMinValue, maxMinIndex, where);
}

}  // namespace AscendC
