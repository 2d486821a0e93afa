// Sort32 and MrgSort, and the sorting helpers that CANN builds on them.
#pragma once

#include "twin/vector/forms.h"

namespace AscendC {

template <typename T>
struct MrgSortSrcList {
  MrgSortSrcList() {}
  MrgSortSrcList(const LocalTensor<T>& src1In, const LocalTensor<T>& src2In,
                 const LocalTensor<T>& src3In, const LocalTensor<T>& src4In)
      : src1(src1In), src2(src2In), src3(src3In), src4(src4In) {}

  LocalTensor<T> src1;
  LocalTensor<T> src2;
  LocalTensor<T> src3;
  LocalTensor<T> src4;
};

}  // namespace AscendC

namespace twin {

constexpr uint32_t kPairBytes = 8;  // score and index
constexpr uint32_t kSortRun = 32;   // pairs that one repeat of Sort32 sorts

// Whether score `a` sorts before `b`, two elements of `width` bytes: a NaN, then the greater one.
TWIN_API bool SortsBefore(const uint8_t* a, const uint8_t* b, uint32_t width);
TWIN_API bool IsNanScore(const uint8_t* score, uint32_t width);

TWIN_API void RunSort32(const Where& where, const Operand& dst, const Operand& scores,
                        const Operand& indices, int64_t repeats);
TWIN_API void RunMrgSort(const Where& where, const Operand& dst, const Operand (&lists)[4],
                         const AscendC::MrgSort4Info& info);
TWIN_API void ReadMrgSortResult(const Where& where, uint16_t result[4]);

// Sort<T, true>: merges runs of 32 pairs in dst until one is left; tmp holds as many pairs.
TWIN_API void RunFullSort(const Where& where, const Operand& dst, const Operand& tmp,
                          int64_t repeats);
TWIN_API void RunExtract(const Where& where, const Operand& values, const Operand& indices,
                         const Operand& sorted, int64_t repeats);

}  // namespace twin

namespace AscendC {

template <typename T>
void Sort32(const LocalTensor<T>& dst, const LocalTensor<T>& src0,
            const LocalTensor<uint32_t>& src1, const int32_t repeatTime,
            twin::Where where = twin::Here()) {
  TWIN_DTYPES("Sort32", T, half, float);
  twin::RunSort32(where, {"dst", dst}, {"src0", src0}, {"src1", src1}, repeatTime);
}

template <typename T>
void MrgSort(const LocalTensor<T>& dst, const MrgSortSrcList<T>& src, const MrgSort4Info& params,
             twin::Where where = twin::Here()) {
  TWIN_DTYPES("MrgSort", T, half, float);
  twin::RunMrgSort(where, {"dst", dst},
                   {{"src1", src.src1}, {"src2", src.src2}, {"src3", src.src3}, {"src4", src.src4}},
                   params);
}

// Merges and, with isExhaustedSuspension, tells how much of each list it took.
template <typename T, bool isExhaustedSuspension = false>
void MrgSort(const LocalTensor<T>& dst, const MrgSortSrcList<T>& sortList,
             const uint16_t elementCountList[4], uint32_t sortedNum[4], uint16_t validBit,
             const int32_t repeatTime, twin::Where where = twin::Here()) {
  const MrgSort4Info info(elementCountList, isExhaustedSuspension, validBit, repeatTime);
  MrgSort(dst, sortList, info, where);
  if constexpr (isExhaustedSuspension) {
    twin::Order(twin::ThisCore("MrgSort", where), PIPE_V, PIPE_S);
    uint16_t taken[4];
    twin::ReadMrgSortResult(where, taken);
    for (int i = 0; i < 4; ++i) sortedNum[i] = taken[i];
  } else {
    (void)sortedNum;
  }
}

inline void GetMrgSortResult(uint16_t& mrgSortList1, uint16_t& mrgSortList2, uint16_t& mrgSortList3,
                             uint16_t& mrgSortList4, twin::Where where = twin::Here()) {
  uint16_t taken[4];
  twin::ReadMrgSortResult(where, taken);
  mrgSortList1 = taken[0];
  mrgSortList2 = taken[1];
  mrgSortList3 = taken[2];
  mrgSortList4 = taken[3];
}

// On this architecture the scores are sorted as they are: nothing to concatenate.
template <typename T>
void Concat(LocalTensor<T>& concat, const LocalTensor<T>& src, const LocalTensor<T>& tmp,
            const int32_t repeatTime) {
  TWIN_DTYPES("Concat", T, half, float);
  (void)tmp;
  (void)repeatTime;
  concat = src;
}

template <typename T, bool isFullSort>
void Sort(const LocalTensor<T>& dst, const LocalTensor<T>& concat,
          const LocalTensor<uint32_t>& index, LocalTensor<T>& tmp, const int32_t repeatTime,
          twin::Where where = twin::Here()) {
  TWIN_DTYPES("Sort", T, half, float);
  Sort32(dst, concat, index, repeatTime, where);
  if constexpr (isFullSort) {
    twin::Order(twin::ThisCore("Sort", where), PIPE_V, PIPE_V);
    twin::RunFullSort(where, {"dst", dst}, {"tmp", tmp}, repeatTime);
  } else {
    (void)tmp;
  }
}

template <typename T>
void Extract(const LocalTensor<T>& dstValue, const LocalTensor<uint32_t>& dstIndex,
             const LocalTensor<T>& sorted, const int32_t repeatTime,
             twin::Where where = twin::Here()) {
  TWIN_DTYPES("Extract", T, half, float);
  twin::RunExtract(where, {"dstValue", dstValue}, {"dstIndex", dstIndex}, {"sorted", sorted},
                   repeatTime);
}

// Elements of type T that so many pairs take.
template <typename T>
uint32_t GetSortOffset(const uint32_t elemOffset) {
  TWIN_DTYPES("GetSortOffset", T, half, float);
  return elemOffset * twin::kPairBytes / sizeof(T);
}
template <typename T>
uint32_t GetSortLen(const uint32_t elemCount) {
  TWIN_DTYPES("GetSortLen", T, half, float);
  return elemCount * twin::kPairBytes / sizeof(T);
}

}  // namespace AscendC
