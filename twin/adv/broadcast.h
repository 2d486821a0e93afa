// Broadcast of one or two dimensions.
#pragma once

#include "twin/device/instr.h"
#include "twin/device/tensor.h"

namespace twin {

struct BroadcastCall {
  Where where;
  int dim;
  int axis;
  uint32_t dst[2];
  uint32_t src[2];
};
// `tmp` without a view: the temporary space is what no buffer takes.
TWIN_API void RunBroadcast(const BroadcastCall& call, const Operand& dst, const Operand& src,
                           const Operand& tmp);

// Bytes of temporary space: the least, or as much as helps. Shapes of one dimension are (1, n).
TWIN_API uint32_t BroadcastSpace(const uint32_t dst[2], const uint32_t src[2], uint32_t width,
                                 bool most);

}  // namespace twin

namespace AscendC {

#define TWIN_BROADCAST(Name, TmpParameter, tmp_operand)                                         \
  template <typename T, int32_t dim, int32_t axis, bool isReuseSource = false>                  \
  void Name(const LocalTensor<T>& dstLocal, const LocalTensor<T>& srcLocal,                     \
            const uint32_t dstShape[dim], const uint32_t srcShape[dim] TmpParameter,            \
            twin::Where where = twin::Here()) {                                                 \
    TWIN_DTYPES(#Name, T, int8_t, uint8_t, half, float);                                        \
    static_assert(dim == 1 || dim == 2, #Name ": dim has to be 1 or 2");                        \
    static_assert(axis == 0 || axis == 1, #Name ": axis has to be 0 or 1");                     \
    twin::BroadcastCall call{where, dim, axis, {1, dstShape[dim - 1]}, {1, srcShape[dim - 1]}}; \
    if constexpr (dim == 2) {                                                                   \
      call.dst[0] = dstShape[0];                                                                \
      call.src[0] = srcShape[0];                                                                \
    }                                                                                           \
    twin::RunBroadcast(call, {"dstLocal", dstLocal}, {"srcLocal", srcLocal}, tmp_operand);      \
  }
#define TWIN_TMP_PARAMETER , LocalTensor<uint8_t>& sharedTmpBuffer
#define TWIN_TMP_OPERAND twin::Operand("sharedTmpBuffer", sharedTmpBuffer)
// Both spellings.
TWIN_BROADCAST(Broadcast, , twin::Operand())
TWIN_BROADCAST(Broadcast, TWIN_TMP_PARAMETER, TWIN_TMP_OPERAND)
TWIN_BROADCAST(BroadCast, , twin::Operand())
TWIN_BROADCAST(BroadCast, TWIN_TMP_PARAMETER, TWIN_TMP_OPERAND)
#undef TWIN_TMP_OPERAND
#undef TWIN_TMP_PARAMETER
#undef TWIN_BROADCAST

}  // namespace AscendC
