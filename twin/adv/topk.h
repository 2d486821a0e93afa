// TopK: the k greatest or smallest elements of every row, and their indices, by merge sort.
#pragma once

#include "twin/adv/tiling_data.h"
#include "twin/adv/topk_space.h"
#include "twin/device/instr.h"
#include "twin/device/tensor.h"

namespace AscendC {

struct TopKInfo {
  int32_t outter = 1;  // rows
  int32_t inner;       // columns, a multiple of 32
  int32_t n;           // columns without padding
};

}  // namespace AscendC

namespace twin {

struct TopKCall {
  Where where;
  int32_t k;
  AscendC::TopkTiling tiling;
  AscendC::TopKInfo info;
  bool small;
  bool largest;
  bool with_index;
  bool with_finish;
};
TWIN_API void RunTopK(const TopKCall& call, const Operand& values, const Operand& indices,
                      const Operand& src, const Operand& src_index, const Operand& finish,
                      const Operand& tmp);

}  // namespace twin

namespace AscendC {

#define TWIN_TOPK(TmpParameter, tmp_operand)                                                  \
  template <typename T, bool isInitIndex = false, bool isHasfinish = false,                   \
            bool isReuseSrc = false, enum TopKMode topkMode = TopKMode::TOPK_NORMAL>          \
  void TopK(const LocalTensor<T>& dstValueLocal, const LocalTensor<int32_t>& dstIndexLocal,   \
            const LocalTensor<T>& srcLocal, const LocalTensor<int32_t>& srcIndexLocal,        \
            const LocalTensor<bool>& finishLocal TmpParameter, const int32_t k,               \
            const TopkTiling& tilling, const TopKInfo& topKInfo, const bool isLargest = true, \
            twin::Where where = twin::Here()) {                                               \
    TWIN_DTYPES("TopK", T, half, float);                                                      \
    static_assert(topkMode == TopKMode::TOPK_NORMAL || !isHasfinish,                          \
                  "TopK: isHasfinish is for TopKMode::TOPK_NORMAL");                          \
    static_assert(!isReuseSrc, "TopK: isReuseSrc is reserved on dav-c220");                   \
    if ASCEND_IS_AIC                                                                          \
      return;                                                                                 \
    twin::RunTopK({where, k, tilling, topKInfo, topkMode == TopKMode::TOPK_NSMALL, isLargest, \
                   isInitIndex, isHasfinish},                                                 \
                  {"dstValueLocal", dstValueLocal}, {"dstIndexLocal", dstIndexLocal},         \
                  {"srcLocal", srcLocal}, {"srcIndexLocal", srcIndexLocal},                   \
                  {"finishLocal", finishLocal}, tmp_operand);                                 \
  }
#define TWIN_TMP_PARAMETER , const LocalTensor<uint8_t>& tmpLocal
#define TWIN_TMP_OPERAND twin::Operand("tmpLocal", tmpLocal)
TWIN_TOPK(, twin::Operand())
TWIN_TOPK(TWIN_TMP_PARAMETER, TWIN_TMP_OPERAND)
#undef TWIN_TMP_OPERAND
#undef TWIN_TMP_PARAMETER
#undef TWIN_TOPK

}  // namespace AscendC
