// Reductions of a matrix along one axis: Sum of the rows, ReduceSum, ReduceMean, ReduceMax and
// ReduceMin with a pattern of axes (AR: every row to one value, RA: every column).
#pragma once

#include "twin/device/instr.h"
#include "twin/device/sync.h"
#include "twin/device/tensor.h"
#include "twin/vector/elementwise.h"
#include "twin/vector/params.h"

namespace AscendC {

struct SumParams {
  uint32_t outter = 1;
  uint32_t inner;
  uint32_t n;
};

namespace Pattern {
namespace Reduce {

struct AR {};
struct RA {};

}  // namespace Reduce
}  // namespace Pattern

}  // namespace AscendC

namespace twin {

struct AxisCall {
  const char* name;
  Where where;
  AscendC::ReduceType type;
  bool columns;       // RA
  uint32_t rows;      // of the source
  uint32_t length;    // of a row
  uint32_t pitch;     // elements from row to row
  uint32_t space;     // bytes of temporary space
  bool reuse_source;  // its contents are lost
};
// `tmp` without a view: the temporary space is what no buffer takes. `dtype` half or float.
TWIN_API void RunReduceAxis(const AxisCall& call, const Operand& dst, const Operand& src,
                            const Operand& tmp);
TWIN_API void CheckSumParams(const AscendC::SumParams& params, uint32_t width, const Where& where);
TWIN_API void CheckReduceShape(const char* name, const uint32_t shape[], bool inner_pad,
                               const Where& where);

// Bytes of temporary space, as CANN's host functions give them.
TWIN_API uint32_t SumSpace(uint32_t n, uint32_t width);
TWIN_API uint32_t ReduceAxisSpace(AscendC::ReduceType type, bool columns, uint32_t rows,
                                  uint32_t length, uint32_t width, bool reuse_source);

template <typename T>
void RunSum(const AscendC::SumParams& params, const Operand& dst, const Operand& src,
            const Operand& tmp, const Where& where) {
  CheckSumParams(params, sizeof(T), where);
  RunReduceAxis({"Sum", where, AscendC::ReduceType::SUM, false, params.outter, params.n,
                 params.inner, SumSpace(params.n, sizeof(T)), false},
                dst, src, tmp);
}

template <typename T, typename Axes, bool reuse>
void RunPattern(const char* name, AscendC::ReduceType type, const uint32_t shape[], bool inner_pad,
                const Operand& dst, const Operand& src, const Operand& tmp, const Where& where) {
  using namespace AscendC::Pattern;
  static_assert(std::is_same<Axes, Reduce::AR>::value || std::is_same<Axes, Reduce::RA>::value,
                "the pattern of a reduction is Pattern::Reduce::AR or RA on dav-c220");
  constexpr bool kColumns = std::is_same<Axes, Reduce::RA>::value;
  CheckReduceShape(name, shape, inner_pad, where);
  const uint32_t unit = kBlockBytes / sizeof(T);
  RunReduceAxis(
      {name, where, type, kColumns, shape[0], shape[1], (shape[1] + unit - 1) / unit * unit,
       ReduceAxisSpace(type, kColumns, shape[0], shape[1], sizeof(T), reuse), reuse},
      dst, src, tmp);
}

}  // namespace twin

namespace AscendC {

template <typename T, int32_t reduceDim = -1, bool isReuseSource = false, bool isBasicBlock = false>
void Sum(const LocalTensor<T>& dstTensor, const LocalTensor<T>& srcTensor,
         const LocalTensor<uint8_t>& sharedTmpBuffer, const SumParams& sumParams,
         twin::Where where = twin::Here()) {
  TWIN_DTYPES("Sum", T, half, float);
  twin::RunSum<T>(sumParams, {"dstTensor", dstTensor}, {"srcTensor", srcTensor},
                  {"sharedTmpBuffer", sharedTmpBuffer}, where);
}
template <typename T, int32_t reduceDim = -1, bool isReuseSource = false, bool isBasicBlock = false>
void Sum(const LocalTensor<T>& dstTensor, const LocalTensor<T>& srcTensor,
         const SumParams& sumParams, twin::Where where = twin::Here()) {
  TWIN_DTYPES("Sum", T, half, float);
  twin::RunSum<T>(sumParams, {"dstTensor", dstTensor}, {"srcTensor", srcTensor}, {}, where);
}

#define TWIN_REDUCE_AXIS(Name, kind, ...)                                                       \
  template <typename T, typename pattern, bool isReuseSource = false>                           \
  void Name(const LocalTensor<T>& dstTensor, const LocalTensor<T>& srcTensor,                   \
            const LocalTensor<uint8_t>& sharedTmpBuffer, const uint32_t srcShape[],             \
            bool srcInnerPad, twin::Where where = twin::Here()) {                               \
    TWIN_DTYPES(#Name " with a pattern", T, __VA_ARGS__);                                       \
    twin::RunPattern<T, pattern, isReuseSource>(                                                \
        #Name, ReduceType::kind, srcShape, srcInnerPad, {"dstTensor", dstTensor},               \
        {"srcTensor", srcTensor}, {"sharedTmpBuffer", sharedTmpBuffer}, where);                 \
  }                                                                                             \
  template <typename T, typename pattern, bool isReuseSource = false>                           \
  void Name(const LocalTensor<T>& dstTensor, const LocalTensor<T>& srcTensor,                   \
            const uint32_t srcShape[], bool srcInnerPad, twin::Where where = twin::Here()) {    \
    TWIN_DTYPES(#Name " with a pattern", T, __VA_ARGS__);                                       \
    twin::RunPattern<T, pattern, isReuseSource>(#Name, ReduceType::kind, srcShape, srcInnerPad, \
                                                {"dstTensor", dstTensor},                       \
                                                {"srcTensor", srcTensor}, {}, where);           \
  }
TWIN_REDUCE_AXIS(ReduceSum, SUM, float)
TWIN_REDUCE_AXIS(ReduceMax, MAX, half, float)
TWIN_REDUCE_AXIS(ReduceMin, MIN, half, float)
#undef TWIN_REDUCE_AXIS

// The sum, times the reciprocal of its number of terms.
#define TWIN_REDUCE_MEAN(TmpParameter, tmp_operand)                                                \
  template <typename T, typename pattern, bool isReuseSource = false>                              \
  void ReduceMean(const LocalTensor<T>& dstTensor, const LocalTensor<T>& srcTensor TmpParameter,   \
                  const uint32_t srcShape[], bool srcInnerPad, twin::Where where = twin::Here()) { \
    TWIN_DTYPES("ReduceMean", T, float);                                                           \
    twin::RunPattern<T, pattern, isReuseSource>("ReduceMean", ReduceType::SUM, srcShape,           \
                                                srcInnerPad, {"dstTensor", dstTensor},             \
                                                {"srcTensor", srcTensor}, tmp_operand, where);     \
    constexpr int kReduced = std::is_same<pattern, Pattern::Reduce::AR>::value ? 1 : 0;            \
    PipeBarrier<PIPE_V>(where);                                                                    \
    Muls(dstTensor, dstTensor, 1.0f / static_cast<float>(srcShape[kReduced]),                      \
         static_cast<int32_t>(srcShape[1 - kReduced]), where);                                     \
    PipeBarrier<PIPE_V>(where);                                                                    \
  }
#define TWIN_TMP_PARAMETER , const LocalTensor<uint8_t>& sharedTmpBuffer
#define TWIN_TMP_OPERAND twin::Operand("sharedTmpBuffer", sharedTmpBuffer)
TWIN_REDUCE_MEAN(, twin::Operand())
TWIN_REDUCE_MEAN(TWIN_TMP_PARAMETER, TWIN_TMP_OPERAND)
#undef TWIN_TMP_OPERAND
#undef TWIN_TMP_PARAMETER
#undef TWIN_REDUCE_MEAN

}  // namespace AscendC
