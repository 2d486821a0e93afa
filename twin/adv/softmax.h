// SoftMax, SimpleSoftMax, SoftmaxFlashV2, SoftmaxGradFront.
#pragma once

#include <cstring>

#include "twin/adv/softmax_run.h"
#include "twin/adv/softmax_tiling.h"
#include "twin/device/tensor.h"

namespace twin {

struct SoftmaxAdjust {
  uint32_t rows, columns;
  uint32_t from;       // bits of a maximum
  uint64_t to;         // bits of an element
  bool every_element;  // one maximum an element, not a block
};
TWIN_API bool RunAdjustSoftMaxRes(const Operand& res, const Operand& max, const SoftmaxAdjust& what,
                                  const Where& where);

// The shape of a call: constant in the configuration, given, or that of the source tensor.
template <typename T>
AscendC::SoftMaxShapeInfo SoftmaxShape(const AscendC::LocalTensor<T>& src,
                                       const AscendC::SoftMaxShapeInfo& given,
                                       const AscendC::SoftmaxConfig& config) {
  AscendC::SoftMaxShapeInfo shape = given;
  if (shape.srcM == 0 || shape.srcK == 0) {
    const AscendC::ShapeInfo info = src.GetShapeInfo();
    if (info.shapeDim == 0 || info.shapeDim > K_MAX_SHAPE_DIM) return shape;
    shape.srcK = info.shape[info.shapeDim - 1];
    shape.oriSrcK = info.originalShape[info.originalShapeDim - 1];
    shape.srcM = shape.oriSrcM = 1;
    for (int i = 0; i + 1 < info.shapeDim; ++i) shape.srcM *= info.shape[i];
    for (int i = 0; i + 1 < info.originalShapeDim; ++i) shape.oriSrcM *= info.originalShape[i];
  }
  if (config.oriSrcM != 0 && config.oriSrcK != 0) {
    shape.oriSrcM = config.oriSrcM;
    shape.oriSrcK = config.oriSrcK;
  }
  return shape;
}

template <typename T>
SoftmaxCall MakeSoftmax(const char* name, const Where& where, SoftmaxKind kind,
                        const AscendC::LocalTensor<T>& src, const AscendC::SoftMaxTiling& tiling,
                        const AscendC::SoftMaxShapeInfo& shape, bool nz,
                        const AscendC::SoftmaxConfig& config = AscendC::SOFTMAX_DEFAULT_CFG,
                        bool basic_block = false) {
  return {name,
          where,
          kind,
          tiling,
          SoftmaxShape(src, shape, config),
          nz,
          config.isCheckTiling,
          config.mode == AscendC::SoftmaxMode::SOFTMAX_OUTPUT_WITHOUT_BRC,
          basic_block};
}

}  // namespace twin

namespace AscendC {

#define TWIN_SOFTMAX_TYPES(name) TWIN_DTYPES(name, T, half, float)

// SoftMax(dst, sum, max, src[, sharedTmpBuffer], tiling, shape): statistics of the type Stat.
#define TWIN_SOFTMAX_API(Name, Kind, First, Second, first_role, second_role, Data, Stat,         \
                         TmpParameter, TmpOperand)                                               \
  template <typename T, bool isReuseSource = false, bool isBasicBlock = false,                   \
            bool isDataFormatNZ = false, const SoftmaxConfig& config = SOFTMAX_DEFAULT_CFG>      \
  void Name(const LocalTensor<Data>& dstTensor, const LocalTensor<Stat>& First,                  \
            const LocalTensor<Stat>& Second, const LocalTensor<Data>& srcTensor TmpParameter,    \
            const SoftMaxTiling& tiling, const SoftMaxShapeInfo& softmaxShapeInfo = {},          \
            twin::Where where = twin::Here()) {                                                  \
    TWIN_SOFTMAX_TYPES(#Name);                                                                   \
    twin::SoftmaxOperands operands;                                                              \
    operands.dst = {"dstTensor", dstTensor};                                                     \
    operands.src = {"srcTensor", srcTensor};                                                     \
    operands.first_role = {#First, First};                                                       \
    operands.second_role = {#Second, Second};                                                    \
    TmpOperand;                                                                                  \
    twin::RunSoftmax(twin::MakeSoftmax(#Name, where, twin::SoftmaxKind::Kind, srcTensor, tiling, \
                                       softmaxShapeInfo, isDataFormatNZ, config),                \
                     operands);                                                                  \
  }
#define TWIN_TMP_PARAMETER , const LocalTensor<uint8_t>& sharedTmpBuffer
#define TWIN_TMP_OPERAND operands.tmp = {"sharedTmpBuffer", sharedTmpBuffer}

TWIN_SOFTMAX_API(SoftMax, kSoftmax, sumTensor, maxTensor, sum, max, T, T, , )
TWIN_SOFTMAX_API(SoftMax, kSoftmax, sumTensor, maxTensor, sum, max, T, T, TWIN_TMP_PARAMETER,
                 TWIN_TMP_OPERAND)
TWIN_SOFTMAX_API(SoftMax, kSoftmax, sumTensor, maxTensor, sum, max, half, float, , )
TWIN_SOFTMAX_API(SoftMax, kSoftmax, sumTensor, maxTensor, sum, max, half, float, TWIN_TMP_PARAMETER,
                 TWIN_TMP_OPERAND)
TWIN_SOFTMAX_API(SimpleSoftMax, kSimple, inSumTensor, inMaxTensor, in_sum, in_max, T, T, , )
TWIN_SOFTMAX_API(SimpleSoftMax, kSimple, inSumTensor, inMaxTensor, in_sum, in_max, T, T,
                 TWIN_TMP_PARAMETER, TWIN_TMP_OPERAND)
TWIN_SOFTMAX_API(SimpleSoftMax, kSimple, inSumTensor, inMaxTensor, in_sum, in_max, half, float, , )
TWIN_SOFTMAX_API(SimpleSoftMax, kSimple, inSumTensor, inMaxTensor, in_sum, in_max, half, float,
                 TWIN_TMP_PARAMETER, TWIN_TMP_OPERAND)
#undef TWIN_SOFTMAX_API

// Without the statistics.
#define TWIN_SOFTMAX_ALONE(TmpParameter, TmpOperand)                                             \
  template <typename T, bool isReuseSource = false, bool isBasicBlock = false,                   \
            const SoftmaxConfig& config = SOFTMAX_DEFAULT_CFG>                                   \
  void SoftMax(const LocalTensor<T>& dstTensor, const LocalTensor<T>& srcTensor TmpParameter,    \
               const SoftMaxTiling& tiling, const SoftMaxShapeInfo& softmaxShapeInfo = {},       \
               twin::Where where = twin::Here()) {                                               \
    TWIN_SOFTMAX_TYPES("SoftMax");                                                               \
    twin::SoftmaxOperands operands;                                                              \
    operands.dst = {"dstTensor", dstTensor};                                                     \
    operands.src = {"srcTensor", srcTensor};                                                     \
    TmpOperand;                                                                                  \
    twin::RunSoftmax(twin::MakeSoftmax("SoftMax", where, twin::SoftmaxKind::kSoftmax, srcTensor, \
                                       tiling, softmaxShapeInfo, false, config),                 \
                     operands);                                                                  \
  }
TWIN_SOFTMAX_ALONE(, )
TWIN_SOFTMAX_ALONE(TWIN_TMP_PARAMETER, TWIN_TMP_OPERAND)
#undef TWIN_SOFTMAX_ALONE

// (dst, expSum, max, src, expMax, inExpSum, inMax[, sharedTmpBuffer], tiling, shape); with
// ReduceMax an output after dst takes the maximum of the rows themselves.
#define TWIN_FLASH(Data, Stat, ReduceMax, reduce_operand, TmpParameter, TmpOperand, Execute)     \
  template <typename T, bool isUpdate = false, bool isReuseSource = false,                       \
            bool isBasicBlock = false, bool isDataFormatNZ = false,                              \
            const SoftmaxConfig& config = SOFTMAX_DEFAULT_CFG>                                   \
  void SoftmaxFlashV2(                                                                           \
      const LocalTensor<Data>& dstTensor ReduceMax, const LocalTensor<Stat>& expSumTensor,       \
      const LocalTensor<Stat>& maxTensor, const LocalTensor<Data>& srcTensor,                    \
      const LocalTensor<Data>& expMaxTensor, const LocalTensor<Stat>& inExpSumTensor,            \
      const LocalTensor<Stat>& inMaxTensor TmpParameter, const SoftMaxTiling& tiling,            \
      const SoftMaxShapeInfo& softmaxShapeInfo = {}, twin::Where where = twin::Here()) {         \
    TWIN_SOFTMAX_TYPES("SoftmaxFlashV2");                                                        \
    twin::SoftmaxOperands operands;                                                              \
    operands.dst = {"dstTensor", dstTensor};                                                     \
    operands.src = {"srcTensor", srcTensor};                                                     \
    operands.sum = {"expSumTensor", expSumTensor};                                               \
    operands.max = {"maxTensor", maxTensor};                                                     \
    if constexpr (isUpdate) {                                                                    \
      operands.exp_max = {"expMaxTensor", expMaxTensor};                                         \
      operands.in_sum = {"inExpSumTensor", inExpSumTensor};                                      \
      operands.in_max = {"inMaxTensor", inMaxTensor};                                            \
      reduce_operand;                                                                            \
    }                                                                                            \
    TmpOperand;                                                                                  \
    if constexpr (Execute) {                                                                     \
      twin::RunSoftmax(                                                                          \
          twin::MakeSoftmax(                                                                     \
              "SoftmaxFlashV2", where,                                                           \
              isUpdate ? twin::SoftmaxKind::kFlashUpdate : twin::SoftmaxKind::kFlash, srcTensor, \
              tiling, softmaxShapeInfo, isDataFormatNZ, config, isBasicBlock),                   \
          operands);                                                                             \
    }                                                                                            \
  }
#define TWIN_REDUCE_MAX , const LocalTensor<T>& outReduceMax
#define TWIN_REDUCE_OPERAND operands.reduce_max = {"outReduceMax", outReduceMax}
// This form does nothing in the normal mode, as documented.
#define TWIN_WITHOUT_BRC (config.mode == SoftmaxMode::SOFTMAX_OUTPUT_WITHOUT_BRC)

TWIN_FLASH(T, T, , , , , true)
TWIN_FLASH(T, T, , , TWIN_TMP_PARAMETER, TWIN_TMP_OPERAND, true)
TWIN_FLASH(half, float, , , , , true)
TWIN_FLASH(half, float, , , TWIN_TMP_PARAMETER, TWIN_TMP_OPERAND, true)
TWIN_FLASH(T, T, TWIN_REDUCE_MAX, TWIN_REDUCE_OPERAND, , , TWIN_WITHOUT_BRC)
TWIN_FLASH(T, T, TWIN_REDUCE_MAX, TWIN_REDUCE_OPERAND, TWIN_TMP_PARAMETER, TWIN_TMP_OPERAND,
           TWIN_WITHOUT_BRC)
#undef TWIN_WITHOUT_BRC
#undef TWIN_REDUCE_OPERAND
#undef TWIN_REDUCE_MAX
#undef TWIN_FLASH

#define TWIN_GRAD_FRONT(TmpParameter, TmpOperand)                                                  \
  template <typename T, bool isBasicBlock = false, bool isDataFormatNZ = false>                    \
  void SoftmaxGradFront(const LocalTensor<T>& dstTensor, const LocalTensor<T>& gradTensor,         \
                        const LocalTensor<T>& srcTensor TmpParameter, const SoftMaxTiling& tiling, \
                        const SoftMaxShapeInfo& softmaxShapeInfo = {},                             \
                        twin::Where where = twin::Here()) {                                        \
    TWIN_SOFTMAX_TYPES("SoftmaxGradFront");                                                        \
    twin::SoftmaxOperands operands;                                                                \
    operands.dst = {"dstTensor", dstTensor};                                                       \
    operands.src = {"srcTensor", srcTensor};                                                       \
    operands.in_sum = {"gradTensor", gradTensor};                                                  \
    TmpOperand;                                                                                    \
    twin::RunSoftmax(twin::MakeSoftmax("SoftmaxGradFront", where, twin::SoftmaxKind::kGradFront,   \
                                       srcTensor, tiling, softmaxShapeInfo, isDataFormatNZ),       \
                     operands);                                                                    \
  }
TWIN_GRAD_FRONT(, )
TWIN_GRAD_FRONT(TWIN_TMP_PARAMETER, TWIN_TMP_OPERAND)
#undef TWIN_GRAD_FRONT
#undef TWIN_TMP_OPERAND
#undef TWIN_TMP_PARAMETER
#undef TWIN_SOFTMAX_TYPES

// Sets the rows of softMaxRes whose maximum has the bits `from`; true where there are any.
template <typename T1, typename T2, bool isDataFormatNZ = false, uint8_t stepSizeMode = 0>
bool AdjustSoftMaxRes(const LocalTensor<T1>& softMaxRes, const LocalTensor<T2>& maxTensor,
                      const uint32_t from, const T1 to, const SoftMaxShapeInfo& softmaxShapeInfo,
                      twin::Where where = twin::Here()) {
  TWIN_DTYPES("AdjustSoftMaxRes (softMaxRes)", T1, half, float);
  TWIN_DTYPES("AdjustSoftMaxRes (maxTensor)", T2, half, float);
  static_assert(!isDataFormatNZ, "AdjustSoftMaxRes: CANN documents ND only");
  uint64_t bits = 0;
  std::memcpy(&bits, &to, sizeof(T1));
  return twin::RunAdjustSoftMaxRes(
      {"softMaxRes", softMaxRes}, {"maxTensor", maxTensor},
      {softmaxShapeInfo.srcM, softmaxShapeInfo.srcK, from, bits, stepSizeMode != 0}, where);
}

}  // namespace AscendC
