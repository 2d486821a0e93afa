// Fixpipe: from L0C to GM or L1, with conversion, ReLU and a change of layout on the way.
#pragma once

#include "twin/cube/params.h"
#include "twin/cube/state.h"
#include "twin/device/data_copy.h"

namespace twin {

template <typename T, typename U>
constexpr bool kFixpipeToL1 =
    (std::is_same<U, float>::value &&
     (std::is_same<T, half>::value || std::is_same<T, bfloat16_t>::value)) ||
    (std::is_same<U, int32_t>::value && std::is_same<T, half>::value);
template <typename T, typename U>
constexpr bool kFixpipeToGm =
    kFixpipeToL1<T, U> || (std::is_same<T, U>::value && IsDtypeOf<T, float, int32_t>::value);

struct FixpipeCall {
  const char* name;
  bool to_nd;
  bool barrier;            // begins with PipeBarrier<PIPE_FIX>
  const Operand* factors;  // of columns, null for none
};
TWIN_API void RunFixpipe(const FixpipeCall& call, const Operand& dst, const Operand& src,
                         const AscendC::FixpipeParamsV220& params, const Where& where);
// Fixpipe as CANN builds it from registers and the move.
TWIN_API void RunFixpipe(const Operand& dst, const Operand& src, const Operand* factors,
                         const AscendC::FixpipeParamsV220& params, bool to_nd, const Where& where);
// The move alone, by the registers as they are.
TWIN_API void CopyResult(const Operand& dst, const Operand& src,
                         const AscendC::DataCopyCO12DstParams& params, const Where& where);

// The newer parameters of a result of 4-byte elements in L0C, `width` bytes each in dst.
template <typename U>
AscendC::FixpipeParamsV220 OfBursts(const AscendC::FixpipeParams<U>& bursts, uint32_t width,
                                    const Where& where) {
  const int64_t blocks = Wide(bursts.burstLen), rows = blocks / 2;
  const bool to_nd = bursts.nz2ndParams.nz2ndEn;
  const int64_t columns = Wide(bursts.nz2ndParams.originalNSize);
  if (blocks % 2 != 0) {
    Fail("Fixpipe", where,
         Format("burstLen is %lld, expected two blocks for each row",
                static_cast<long long>(blocks)));
  }
  if (to_nd && columns == 0) {
    Fail("Fixpipe", where, "nz2ndParams.originalNSize is 0, expected the columns");
  }
  AscendC::FixpipeParamsV220 params;
  params.nSize = to_nd ? columns : 16 * Wide(bursts.cburstNum);
  params.mSize = rows;
  params.srcStride = 16 * Wide(bursts.srcStride) + (rows + 15) / 16 * 16;
  params.dstStride = to_nd ? Wide(bursts.dstStride) : Wide(bursts.dstStride) + blocks * width / 4;
  params.quantPre = bursts.quantParams.quantPre;
  params.deqScalar = bursts.quantParams.deqScalar;
  params.ndNum = bursts.nz2ndParams.ndNum;
  params.srcNdStride = bursts.nz2ndParams.srcNdStride;
  params.dstNdStride = bursts.nz2ndParams.dstNdStride;
  params.reluEn = bursts.reluEn;
  params.unitFlag = bursts.unitFlag;
  return params;
}

}  // namespace twin

#define TWIN_FIXPIPE_GM(name)                                                                  \
  static_assert(twin::kFixpipeToGm<T, U>, name                                                 \
                " to GM does not take these data types (dst/src) in the twin of dav-c220; it " \
                "takes half, bfloat16_t and float from float, half and int32_t from int32_t")
#define TWIN_FIXPIPE_L1(name)                                                                  \
  static_assert(twin::kFixpipeToL1<T, U>, name                                                 \
                " to L1 does not take these data types (dst/src) in the twin of dav-c220; it " \
                "takes half and bfloat16_t from float, half from int32_t")
#define TWIN_FIXPIPE_NZ                         \
  static_assert(config.format == CO2Layout::NZ, \
                "Fixpipe to L1 keeps the layout NZ on dav-c220: Fixpipe<T, U, CFG_NZ>")

namespace AscendC {

template <typename T, typename U, const FixpipeConfig& config = CFG_ROW_MAJOR>
void Fixpipe(const GlobalTensor<T>& dst, const LocalTensor<U>& src,
             const FixpipeParamsV220& intriParams, twin::Where where = twin::Here()) {
  TWIN_FIXPIPE_GM("Fixpipe");
  twin::RunFixpipe({"dst", dst}, {"src", src}, nullptr, intriParams,
                   config.format == CO2Layout::ROW_MAJOR, where);
}
template <typename T, typename U, const FixpipeConfig& config = CFG_ROW_MAJOR,
          typename S = uint64_t, std::enable_if_t<std::is_same<S, uint64_t>::value, bool> = true>
void Fixpipe(const GlobalTensor<T>& dst, const LocalTensor<U>& src,
             const LocalTensor<S>& cbufWorkspace, const FixpipeParamsV220& intriParams,
             twin::Where where = twin::Here()) {
  TWIN_FIXPIPE_GM("Fixpipe");
  const twin::Operand factors("cbufWorkspace", cbufWorkspace);
  twin::RunFixpipe({"dst", dst}, {"src", src}, &factors, intriParams,
                   config.format == CO2Layout::ROW_MAJOR, where);
}
template <typename T, typename U, const FixpipeConfig& config = CFG_ROW_MAJOR>
void Fixpipe(const LocalTensor<T>& dst, const LocalTensor<U>& src,
             const FixpipeParamsV220& intriParams, twin::Where where = twin::Here()) {
  TWIN_FIXPIPE_L1("Fixpipe");
  TWIN_FIXPIPE_NZ;
  twin::RunFixpipe({"dst", dst}, {"src", src}, nullptr, intriParams, false, where);
}
template <typename T, typename U, const FixpipeConfig& config = CFG_ROW_MAJOR,
          typename S = uint64_t, std::enable_if_t<std::is_same<S, uint64_t>::value, bool> = true>
void Fixpipe(const LocalTensor<T>& dst, const LocalTensor<U>& src,
             const LocalTensor<S>& cbufWorkspace, const FixpipeParamsV220& intriParams,
             twin::Where where = twin::Here()) {
  TWIN_FIXPIPE_L1("Fixpipe");
  TWIN_FIXPIPE_NZ;
  const twin::Operand factors("cbufWorkspace", cbufWorkspace);
  twin::RunFixpipe({"dst", dst}, {"src", src}, &factors, intriParams, false, where);
}

template <typename T, typename U>
void Fixpipe(const GlobalTensor<T>& dst, const LocalTensor<U>& src,
             const FixpipeParams<U>& intriParams, twin::Where where = twin::Here()) {
  TWIN_FIXPIPE_GM("Fixpipe");
  twin::RunFixpipe({"dst", dst}, {"src", src}, nullptr,
                   twin::OfBursts(intriParams, sizeof(T), where), intriParams.nz2ndParams.nz2ndEn,
                   where);
}
template <typename T, typename U>
void Fixpipe(const LocalTensor<T>& dst, const LocalTensor<U>& src,
             const FixpipeParams<U>& intriParams, twin::Where where = twin::Here()) {
  TWIN_FIXPIPE_L1("Fixpipe");
  twin::RunFixpipe({"dst", dst}, {"src", src}, nullptr,
                   twin::OfBursts(intriParams, sizeof(T), where), false, where);
}

template <typename T, typename U>
void DataCopy(const GlobalTensor<T>& dst, const LocalTensor<U>& src,
              const DataCopyCO12DstParams& intriParams, twin::Where where = twin::Here()) {
  TWIN_FIXPIPE_GM("DataCopy from L0C");
  twin::CopyResult({"dst", dst}, {"src", src}, intriParams, where);
}
template <typename T, typename U>
void DataCopy(const LocalTensor<T>& dst, const LocalTensor<U>& src,
              const DataCopyCO12DstParams& intriParams, twin::Where where = twin::Here()) {
  TWIN_FIXPIPE_L1("DataCopy from L0C");
  twin::CopyResult({"dst", dst}, {"src", src}, intriParams, where);
}

inline void SetFixpipeNz2ndFlag(const Narrow16 ndNum, const Narrow16 srcNdStride,
                                const Narrow16 dstNdStride, twin::Where where = twin::Here()) {
  twin::SetNdMatrices(twin::Wide(ndNum), twin::Wide(srcNdStride), twin::Wide(dstNdStride), where);
}
// The three numbers of SetFixpipeNz2ndFlag in 16 bits each, by the name inside CANN's headers.
inline void SetNdParaImpl(uint64_t config, twin::Where where = twin::Here()) {
  const auto field = [&](int at) { return static_cast<int64_t>(config >> at & 0xffff); };
  twin::SetNdMatrices(field(0), field(16), field(32), where);
}
inline void SetFixpipePreQuantFlag(uint64_t config, twin::Where where = twin::Here()) {
  twin::SetFixpipeFactor(config, where);
}
template <typename T, bool setRelu = false>
void SetFixPipeConfig(const LocalTensor<T>& preData, bool isUnitFlag = false,
                      twin::Where where = twin::Here()) {
  static_assert(!setRelu, "SetFixPipeConfig: setRelu has to be false");
  twin::SetFixpipeTensor(preData, isUnitFlag, where);
}

}  // namespace AscendC

#undef TWIN_FIXPIPE_GM
#undef TWIN_FIXPIPE_L1
#undef TWIN_FIXPIPE_NZ
