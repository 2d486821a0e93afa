// LoadData: fractals into L0A, L0B and L1, with transposition, and unfolding of a feature map.
#pragma once

#include "twin/cube/params.h"
#include "twin/cube/state.h"
#include "twin/device/data_copy.h"

namespace twin {

// LoadData3DParamsV2 without its data type.
struct Load3D {
  bool set_map, set_padding;
  uint8_t pad[4];
  int64_t l1_h, l1_w, channels, k_extension, m_extension, k_start, m_start;
  int64_t stride_w, stride_h, filter_w, filter_h, dilation_w, dilation_h;
  bool transpose, small_k, wide_filter_w, wide_filter_h, right_map;
  uint64_t pad_bits;
};

template <typename T>
Load3D Load3DOf(const AscendC::LoadData3DParamsV2<T>& p, const AscendC::IsResetLoad3dConfig& c) {
  return {c.isSetFMatrix,
          c.isSetPadding,
          {p.padList[0], p.padList[1], p.padList[2], p.padList[3]},
          twin::Wide(p.l1H),
          twin::Wide(p.l1W),
          twin::Wide(p.channelSize),
          twin::Wide(p.kExtension),
          twin::Wide(p.mExtension),
          twin::Wide(p.kStartPt),
          twin::Wide(p.mStartPt),
          twin::Wide(p.strideW),
          twin::Wide(p.strideH),
          twin::Wide(p.filterW),
          twin::Wide(p.filterH),
          twin::Wide(p.dilationFilterW),
          twin::Wide(p.dilationFilterH),
          p.enTranspose,
          p.enSmallK,
          p.filterSizeW,
          p.filterSizeH,
          p.fMatrixCtrl,
          BitsOf(p.padValue)};
}

// The same, with the feature map of SetFmatrix and the padding of SetLoadDataPaddingValue.
inline Load3D Load3DOf(const AscendC::LoadData3DParamsV2Pro& p) {
  const auto field = [](uint64_t word, int at, int bits) {
    return static_cast<int64_t>(word >> at & ((1u << bits) - 1));
  };
  const uint64_t e = p.extConfig, f = p.filterConfig;
  return {false,
          false,
          {0, 0, 0, 0},
          0,
          0,
          twin::Wide(p.channelSize),
          field(e, 0, 16),
          field(e, 16, 16),
          field(e, 32, 16),
          field(e, 48, 16),
          field(f, 0, 8),
          field(f, 8, 8),
          field(f, 16, 8),
          field(f, 24, 8),
          field(f, 32, 8),
          field(f, 40, 8),
          p.enTranspose,
          p.enSmallK,
          p.filterSizeW,
          p.filterSizeH,
          p.fMatrixCtrl,
          0};
}

TWIN_API void RunLoad2D(const Operand& dst, const Operand& src,
                        const AscendC::LoadData2DParams& params, const Where& where);
TWIN_API void RunLoadTranspose(const Operand& dst, const Operand& src,
                               const AscendC::LoadData2dTransposeParams& params,
                               const Where& where);
TWIN_API void RunLoadSparse(const Operand& dst, const Operand& src, const Operand& idx,
                            const AscendC::LoadData2DParams& params, const Where& where);
TWIN_API void RunLoad3D(const Operand& dst, const Operand& src, const Load3D& params,
                        const Where& where);

}  // namespace twin

#define TWIN_LOAD_TYPES \
  int8_t, uint8_t, int16_t, uint16_t, half, bfloat16_t, int32_t, uint32_t, float

namespace AscendC {

template <typename T>
void LoadData(const LocalTensor<T>& dst, const LocalTensor<T>& src,
              const LoadData2DParams& loadDataParams, twin::Where where = twin::Here()) {
  TWIN_DTYPES("LoadData", T, TWIN_LOAD_TYPES, int4b_t);
  twin::RunLoad2D({"dst", dst}, {"src", src}, loadDataParams, where);
}
template <typename T>
void LoadData(const LocalTensor<T>& dst, const GlobalTensor<T>& src,
              const LoadData2DParams& loadDataParams, twin::Where where = twin::Here()) {
  TWIN_DTYPES("LoadData", T, TWIN_LOAD_TYPES);
  twin::RunLoad2D({"dst", dst}, {"src", src}, loadDataParams, where);
}

template <typename T>
void LoadDataWithTranspose(const LocalTensor<T>& dst, const LocalTensor<T>& src,
                           const LoadData2dTransposeParams& loadDataParams,
                           twin::Where where = twin::Here()) {
  TWIN_DTYPES("LoadDataWithTranspose", T, int8_t, uint8_t, half, bfloat16_t, int32_t, uint32_t,
              float);
  twin::RunLoadTranspose({"dst", dst}, {"src", src}, loadDataParams, where);
}

template <typename T, const IsResetLoad3dConfig& defaultConfig = IS_RESER_LOAD3D_DEFAULT_CONFIG,
          typename U = T, std::enable_if_t<std::is_same<T, U>::value, bool> = true>
void LoadData(const LocalTensor<T>& dst, const LocalTensor<T>& src,
              const LoadData3DParamsV2<U>& loadDataParams, twin::Where where = twin::Here()) {
  TWIN_DTYPES("LoadData with LoadData3DParamsV2", T, int8_t, uint8_t, half, bfloat16_t, int32_t,
              uint32_t, float);
  twin::RunLoad3D({"dst", dst}, {"src", src}, twin::Load3DOf(loadDataParams, defaultConfig), where);
}

template <typename T>
void LoadData(const LocalTensor<T>& dst, const LocalTensor<T>& src,
              const LoadData3DParamsV2Pro& loadDataParams, twin::Where where = twin::Here()) {
  TWIN_DTYPES("LoadData with LoadData3DParamsV2Pro", T, int8_t, uint8_t, half, bfloat16_t, int32_t,
              uint32_t, float);
  twin::RunLoad3D({"dst", dst}, {"src", src}, twin::Load3DOf(loadDataParams), where);
}

// B with two of every four rows left, and the index that tells which.
template <typename T = int8_t, typename U = uint8_t>
void LoadDataWithSparse(const LocalTensor<T>& dst, const LocalTensor<T>& src,
                        const LocalTensor<U>& idx, const LoadData2DParams& loadDataParam,
                        twin::Where where = twin::Here()) {
  TWIN_DTYPES("LoadDataWithSparse", T, int8_t);
  TWIN_DTYPES("LoadDataWithSparse (idx)", U, uint8_t);
  twin::RunLoadSparse({"dst", dst}, {"src", src}, {"idx", idx}, loadDataParam, where);
}

// Refused where a call is compiled; kernels for several architectures have it in templates.
template <typename T, typename Source>
std::enable_if_t<std::is_same_v<Source, LocalTensor<T>> || std::is_same_v<Source, GlobalTensor<T>>>
LoadData(const LocalTensor<T>&, const Source&, const LoadData2DParamsV2&) {
  static_assert(sizeof(T) == 0, "LoadData does not take LoadData2DParamsV2 on dav-c220");
}

// SetFmatrix of the left matrix, by the name inside CANN's headers.
inline void Load3DSetFMatrixCal(const Narrow16 l1H, const Narrow16 l1W, const uint8_t padList[4],
                                twin::Where where = twin::Here()) {
  twin::SetFeatureMap(twin::Wide(l1H), twin::Wide(l1W), padList, 0, where);
}

inline void SetFmatrix(const Narrow16 l1H, const Narrow16 l1W, const uint8_t padList[4],
                       const FmatrixMode& fmatrixMode, twin::Where where = twin::Here()) {
  twin::SetFeatureMap(twin::Wide(l1H), twin::Wide(l1W), padList, static_cast<int64_t>(fmatrixMode),
                      where);
}
template <typename T>
void SetLoadDataPaddingValue(const T padValue, twin::Where where = twin::Here()) {
  TWIN_DTYPES("SetLoadDataPaddingValue", T, TWIN_LOAD_TYPES, int64_t, uint64_t);
  twin::SetLoadPadding(twin::BitsOf(padValue), where);
}
inline void SetLoadDataRepeat(const LoadDataRepeatParam& repeatParams,
                              twin::Where where = twin::Here()) {
  twin::SetLoadRepeat(twin::Wide(repeatParams.repeatStride), twin::Wide(repeatParams.repeatTime),
                      twin::Wide(repeatParams.repeatMode), where);
}
inline void SetLoadDataBoundary(uint32_t boundaryValue, twin::Where where = twin::Here()) {
  twin::SetLoadBoundary(boundaryValue, where);
}

}  // namespace AscendC
