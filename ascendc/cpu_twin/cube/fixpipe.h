// Fixpipe: from L0C to GM or L1, with conversion, ReLU and a change of layout on the way.
#pragma once

#include "ascendc/cpu_twin/cube/params.h"
#include "ascendc/cpu_twin/cube/state.h"
#include "ascendc/cpu_twin/device/data_copy.h"

namespace twin {

template <typename T, typename U>
constexpr bool kFixpipeToL1 =
    (std::is_same<U, float>::value &&
     (std::is_same<T, half>::value || std::is_same<T, bfloat16_t>::value)) ||
    (std::is_same<U, int32_t>::value && std::is_same<T, half>::value);
template <typename T, typename U>
constexpr bool kFixpipeToGm =
    kFixpipeToL1<T, U> || (std::is_same<T, U>::value && IsDtypeOf<T, float, int32_t>::value);

TWIN_API void RunFixpipe(const Operand& dst, const Operand& src, const Operand* factors,
                         const AscendC::FixpipeParamsV220& params, bool to_nd, const Where& where);

}  // namespace twin

#define TWIN_FIXPIPE_GM                                                                     \
  static_assert(                                                                            \
      twin::kFixpipeToGm<T, U>,                                                             \
      "Fixpipe to GM does not take these data types (dst/src) in the twin of dav-c220; it " \
      "takes half, bfloat16_t and float from float, half and int32_t from int32_t")
#define TWIN_FIXPIPE_L1                                                                     \
  static_assert(                                                                            \
      twin::kFixpipeToL1<T, U>,                                                             \
      "Fixpipe to L1 does not take these data types (dst/src) in the twin of dav-c220; it " \
      "takes half and bfloat16_t from float, half from int32_t");                           \
  static_assert(config.format == CO2Layout::NZ,                                             \
                "Fixpipe to L1 keeps the layout NZ on dav-c220: Fixpipe<T, U, CFG_NZ>")

namespace AscendC {

template <typename T, typename U, const FixpipeConfig& config = CFG_ROW_MAJOR>
void Fixpipe(const GlobalTensor<T>& dst, const LocalTensor<U>& src,
             const FixpipeParamsV220& intriParams, twin::Where where = twin::Here()) {
  TWIN_FIXPIPE_GM;
  twin::RunFixpipe({"dst", dst}, {"src", src}, nullptr, intriParams,
                   config.format == CO2Layout::ROW_MAJOR, where);
}
template <typename T, typename U, const FixpipeConfig& config = CFG_ROW_MAJOR,
          typename S = uint64_t, std::enable_if_t<std::is_same<S, uint64_t>::value, bool> = true>
void Fixpipe(const GlobalTensor<T>& dst, const LocalTensor<U>& src,
             const LocalTensor<S>& cbufWorkspace, const FixpipeParamsV220& intriParams,
             twin::Where where = twin::Here()) {
  TWIN_FIXPIPE_GM;
  const twin::Operand factors("cbufWorkspace", cbufWorkspace);
  twin::RunFixpipe({"dst", dst}, {"src", src}, &factors, intriParams,
                   config.format == CO2Layout::ROW_MAJOR, where);
}
template <typename T, typename U, const FixpipeConfig& config = CFG_ROW_MAJOR>
void Fixpipe(const LocalTensor<T>& dst, const LocalTensor<U>& src,
             const FixpipeParamsV220& intriParams, twin::Where where = twin::Here()) {
  TWIN_FIXPIPE_L1;
  twin::RunFixpipe({"dst", dst}, {"src", src}, nullptr, intriParams, false, where);
}
template <typename T, typename U, const FixpipeConfig& config = CFG_ROW_MAJOR,
          typename S = uint64_t, std::enable_if_t<std::is_same<S, uint64_t>::value, bool> = true>
void Fixpipe(const LocalTensor<T>& dst, const LocalTensor<U>& src,
             const LocalTensor<S>& cbufWorkspace, const FixpipeParamsV220& intriParams,
             twin::Where where = twin::Here()) {
  TWIN_FIXPIPE_L1;
  const twin::Operand factors("cbufWorkspace", cbufWorkspace);
  twin::RunFixpipe({"dst", dst}, {"src", src}, &factors, intriParams, false, where);
}

// Only the reset of the unit flags: factors reach Fixpipe as its argument cbufWorkspace.
template <typename T, bool setRelu = false>
void SetFixPipeConfig(const LocalTensor<T>&, bool isUnitFlag = false,
                      twin::Where where = twin::Here()) {
  if (isUnitFlag) twin::ResetUnits(where);
}

}  // namespace AscendC

#undef TWIN_FIXPIPE_GM
#undef TWIN_FIXPIPE_L1
