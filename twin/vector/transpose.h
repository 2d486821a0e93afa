// Transpose and TransDataTo5HD.
#pragma once

#include "twin/vector/forms.h"

namespace twin {

TWIN_API void RunTranspose16(const Where& where, const Operand& dst, const Operand& src);
TWIN_API void RunTransposeExt(const Where& where, const Operand& dst, const Operand& src,
                              const Operand& tmp, const AscendC::TransposeParamsExt& params);
// 16 destinations, then 16 sources.
TWIN_API void RunTransDataTo5HD(const Where& where, const Operand (&blocks)[32],
                                const AscendC::TransDataTo5HDParams& params);
// The transposition with addresses as GetPhyAddr gives them.
TWIN_API void RunTransDataTo5HD(const Where& where, const char* dtype, uint32_t width,
                                const uint64_t* dst, const uint64_t* src,
                                const AscendC::TransDataTo5HDParams& params);
// The transposition with the addresses in tensors.
TWIN_API void RunTransDataTo5HD(const Where& where, const char* dtype, uint32_t width,
                                const Operand& dst, const Operand& src,
                                const AscendC::TransDataTo5HDParams& params);

template <typename T>
void FillOperands(const char* role, const AscendC::LocalTensor<T> (&list)[16], Operand* operands) {
  for (int i = 0; i < 16; ++i) operands[i] = Operand(role, list[i]);
}

}  // namespace twin

namespace AscendC {

template <typename T>
void Transpose(const LocalTensor<T>& dst, const LocalTensor<T>& src,
               twin::Where where = twin::Here()) {
  TWIN_DTYPES("Transpose", T, int16_t, uint16_t, half);
  twin::RunTranspose16(where, {"dst", dst}, {"src", src});
}
template <typename T>
void Transpose(const LocalTensor<T>& dst, const LocalTensor<T>& src,
               const LocalTensor<uint8_t>& sharedTmpBuffer,
               const TransposeParamsExt& transposeParams, twin::Where where = twin::Here()) {
  TWIN_DTYPES("Transpose", T, int8_t, uint8_t, int16_t, uint16_t, half, int32_t, uint32_t, float);
  twin::RunTransposeExt(where, {"dst", dst}, {"src", src}, {"sharedTmpBuffer", sharedTmpBuffer},
                        transposeParams);
}

#define TWIN_5HD_TYPES                                                                          \
  TWIN_DTYPES("TransDataTo5HD", T, int8_t, uint8_t, int16_t, uint16_t, half, int32_t, uint32_t, \
              float)

template <typename T>
void TransDataTo5HD(const LocalTensor<T> (&dstList)[NCHW_CONV_ADDR_LIST_SIZE],
                    const LocalTensor<T> (&srcList)[NCHW_CONV_ADDR_LIST_SIZE],
                    const TransDataTo5HDParams& nchwconvParams, twin::Where where = twin::Here()) {
  TWIN_5HD_TYPES;
  twin::Operand blocks[32];
  twin::FillOperands("dstList", dstList, blocks);
  twin::FillOperands("srcList", srcList, blocks + 16);
  twin::RunTransDataTo5HD(where, blocks, nchwconvParams);
}
template <typename T>
void TransDataTo5HD(uint64_t dstList[NCHW_CONV_ADDR_LIST_SIZE],
                    uint64_t srcList[NCHW_CONV_ADDR_LIST_SIZE],
                    const TransDataTo5HDParams& nchwconvParams, twin::Where where = twin::Here()) {
  TWIN_5HD_TYPES;
  twin::RunTransDataTo5HD(where, twin::TypeName<T>(), sizeof(T), dstList, srcList, nchwconvParams);
}
template <typename T>
void TransDataTo5HD(const LocalTensor<uint64_t>& dst, const LocalTensor<uint64_t>& src,
                    const TransDataTo5HDParams& nchwconvParams, twin::Where where = twin::Here()) {
  TWIN_5HD_TYPES;
  twin::RunTransDataTo5HD(where, twin::TypeName<T>(), sizeof(T), twin::Operand("dst", dst),
                          twin::Operand("src", src), nchwconvParams);
}
#undef TWIN_5HD_TYPES

}  // namespace AscendC
