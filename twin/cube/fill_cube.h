// Fill: one value into L1, L0A or L0B.
#pragma once

#include "twin/cube/params.h"
#include "twin/device/data_copy.h"

namespace twin {

struct FillSpec {
  int64_t repeat_times, block_num, dst_gap;
  uint64_t value;  // bits of one element
};
TWIN_API void FillCube(const char* name, const Operand& dst, const FillSpec& spec,
                       const Where& where);

template <typename T>
FillSpec FillSpecOf(const AscendC::InitConstValueParams<T>& params) {
  return {twin::Wide(params.repeatTimes), twin::Wide(params.blockNum), twin::Wide(params.dstGap),
          BitsOf(params.initValue)};
}

}  // namespace twin

#define TWIN_FILL_TYPES int16_t, uint16_t, half, bfloat16_t, int32_t, uint32_t, float

namespace AscendC {

template <typename T, typename U = T, std::enable_if_t<std::is_same<T, U>::value, bool> = true>
void Fill(const LocalTensor<T>& dst, const InitConstValueParams<U>& initConstValueParams,
          twin::Where where = twin::Here()) {
  TWIN_DTYPES("Fill", T, TWIN_FILL_TYPES);
  twin::FillCube("Fill", {"dst", dst}, twin::FillSpecOf(initConstValueParams), where);
}
template <typename T, typename U = T, std::enable_if_t<std::is_same<T, U>::value, bool> = true>
void InitConstValue(const LocalTensor<T>& dst, const InitConstValueParams<U>& initConstValueParams,
                    twin::Where where = twin::Here()) {
  TWIN_DTYPES("InitConstValue", T, TWIN_FILL_TYPES);
  twin::FillCube("InitConstValue", {"dst", dst}, twin::FillSpecOf(initConstValueParams), where);
}

}  // namespace AscendC
