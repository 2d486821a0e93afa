// Sigmoid: 1 / (1 + exp(-x)), in the precision of the data.
#pragma once

#include <algorithm>

#include "twin/adv/work_space.h"
#include "twin/vector/elementwise.h"
#include "twin/vector/fill.h"

namespace twin {

// In passes of as many elements as the temporary space holds, which gets the divisors.
template <typename T>
void RunSigmoid(const AscendC::LocalTensor<T>& dst, const AscendC::LocalTensor<T>& src,
                const AscendC::LocalTensor<uint8_t>& space, uint32_t count, const Where& where) {
  using namespace AscendC;
  const uint32_t pass = space.GetSize() / kBlockBytes * kBlockBytes / sizeof(T);
  if (pass == 0) {
    Fail("Sigmoid", where, Format("temporary space has %u bytes, 32 are needed", space.GetSize()));
  }
  CheckApart("Sigmoid", dst, src, uint64_t{count} * sizeof(T), where);
  const LocalTensor<T> divisor = space.ReinterpretCast<T>();
  for (uint32_t at = 0; at < count; at += pass) {
    const int32_t n = static_cast<int32_t>(std::min(count - at, pass));
    Muls(divisor, src[at], static_cast<T>(-1.0f), n, where);
    PipeBarrier<PIPE_V>(where);
    Exp(divisor, divisor, n, where);
    PipeBarrier<PIPE_V>(where);
    Adds(divisor, divisor, static_cast<T>(1.0f), n, where);
    Duplicate(dst[at], static_cast<T>(1.0f), n, where);
    PipeBarrier<PIPE_V>(where);
    Div(dst[at], dst[at], divisor, n, where);
    PipeBarrier<PIPE_V>(where);
  }
}

}  // namespace twin

namespace AscendC {

template <typename T, bool isReuseSource = false>
void Sigmoid(const LocalTensor<T>& dstTensor, const LocalTensor<T>& srcTensor,
             const LocalTensor<uint8_t>& sharedTmpBuffer, const uint32_t calCount,
             twin::Where where = twin::Here()) {
  TWIN_DTYPES("Sigmoid", T, half, float);
  twin::RunSigmoid(dstTensor, srcTensor, sharedTmpBuffer, calCount, where);
}
template <typename T, bool isReuseSource = false>
void Sigmoid(const LocalTensor<T>& dstTensor, const LocalTensor<T>& srcTensor,
             const LocalTensor<uint8_t>& sharedTmpBuffer, twin::Where where = twin::Here()) {
  Sigmoid(dstTensor, srcTensor, sharedTmpBuffer, srcTensor.GetSize(), where);
}
template <typename T, bool isReuseSource = false>
void Sigmoid(const LocalTensor<T>& dstTensor, const LocalTensor<T>& srcTensor,
             const uint32_t calCount, twin::Where where = twin::Here()) {
  Sigmoid(dstTensor, srcTensor, twin::FreeSpace(where), calCount, where);
}
template <typename T, bool isReuseSource = false>
void Sigmoid(const LocalTensor<T>& dstTensor, const LocalTensor<T>& srcTensor,
             twin::Where where = twin::Here()) {
  Sigmoid(dstTensor, srcTensor, srcTensor.GetSize(), where);
}

}  // namespace AscendC
