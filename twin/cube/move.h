// DataCopy with a change of layout (ND to NZ), and from L1 to the bias table and the fixpipe
// buffer.
#pragma once

#include "twin/cube/params.h"
#include "twin/device/data_copy.h"

namespace twin {

TWIN_API void CopyNd2Nz(const Operand& dst, const Operand& src, const AscendC::Nd2NzParams& params,
                        const Where& where);

template <typename T, typename U>
constexpr bool kTableTakes = std::is_same<T, float>::value && std::is_same<U, half>::value;

}  // namespace twin

namespace AscendC {

template <typename T>
void DataCopy(const LocalTensor<T>& dst, const GlobalTensor<T>& src, const Nd2NzParams& intriParams,
              twin::Where where = twin::Here()) {
  TWIN_DTYPES("DataCopy with Nd2NzParams", T, int8_t, uint8_t, int16_t, uint16_t, half, bfloat16_t,
              int32_t, uint32_t, float, int4b_t);
  twin::CopyNd2Nz({"dst", dst}, {"src", src}, intriParams, where);
}

// L1 to the bias table, half to float.
template <typename T, typename U>
void DataCopy(const LocalTensor<T>& dst, const LocalTensor<U>& src,
              const DataCopyParams& repeatParams, twin::Where where = twin::Here()) {
  static_assert(twin::kTableTakes<T, U>,
                "DataCopy between different data types takes float from half (to the bias table)");
  twin::CopyToTable({"dst", dst}, {"src", src}, repeatParams, where);
}

}  // namespace AscendC
