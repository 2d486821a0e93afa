// CumSum: running sums of a matrix, along its rows or down its columns, in float.
#pragma once

#include "twin/device/instr.h"
#include "twin/device/tensor.h"

namespace AscendC {

struct CumSumConfig {
  bool isLastAxis{true};
  bool isReuseSource{false};
  bool outputLastRow{true};
};
constexpr CumSumConfig defaultCumSumConfig = {true, false, true};

struct CumSumInfo {
  uint32_t outter{0};  // rows
  uint32_t inner{0};   // columns
};

}  // namespace AscendC

namespace twin {

struct CumSumCall {
  Where where;
  AscendC::CumSumConfig config;
  AscendC::CumSumInfo info;
};
// `tmp` without a view: the temporary space is what no buffer takes. `last` gets the last row.
TWIN_API void RunCumSum(const CumSumCall& call, const Operand& dst, const Operand& last,
                        const Operand& src, const Operand& tmp);
// The least temporary space, as CANN's host function gives it.
TWIN_API uint32_t CumSumSpace(const AscendC::CumSumInfo& info, uint32_t width, bool last_axis);

}  // namespace twin

namespace AscendC {

template <typename T, const CumSumConfig& config = defaultCumSumConfig>
void CumSum(LocalTensor<T>& dstTensor, LocalTensor<T>& lastRowTensor,
            const LocalTensor<T>& srcTensor, LocalTensor<uint8_t>& sharedTmpBuffer,
            const CumSumInfo& cumSumInfo, twin::Where where = twin::Here()) {
  TWIN_DTYPES("CumSum", T, half, float);
  twin::RunCumSum({where, config, cumSumInfo}, {"dstTensor", dstTensor},
                  {"lastRowTensor", lastRowTensor}, {"srcTensor", srcTensor},
                  {"sharedTmpBuffer", sharedTmpBuffer});
}
template <typename T, const CumSumConfig& config = defaultCumSumConfig>
void CumSum(LocalTensor<T>& dstTensor, LocalTensor<T>& lastRowTensor,
            const LocalTensor<T>& srcTensor, const CumSumInfo& cumSumInfo,
            twin::Where where = twin::Here()) {
  TWIN_DTYPES("CumSum", T, half, float);
  twin::RunCumSum({where, config, cumSumInfo}, {"dstTensor", dstTensor},
                  {"lastRowTensor", lastRowTensor}, {"srcTensor", srcTensor}, {});
}

}  // namespace AscendC
