// Silu: x / (1 + exp(-x)), in the precision of the data.
#pragma once

#include "twin/adv/work_space.h"
#include "twin/vector/elementwise.h"

namespace AscendC {

template <typename T, bool isReuseSource = false>
void Silu(const LocalTensor<T>& dstLocal, const LocalTensor<T>& srcLocal, uint32_t dataSize,
          twin::Where where = twin::Here()) {
  TWIN_DTYPES("Silu", T, half, float);
  // The quotient reads the source again when dst holds the divisor.
  twin::CheckApart("Silu", dstLocal, srcLocal, uint64_t{dataSize} * sizeof(T), where);
  const int32_t n = static_cast<int32_t>(dataSize);
  Muls(dstLocal, srcLocal, static_cast<T>(-1.0f), n, where);
  PipeBarrier<PIPE_V>(where);
  Exp(dstLocal, dstLocal, n, where);
  PipeBarrier<PIPE_V>(where);
  Adds(dstLocal, dstLocal, static_cast<T>(1.0f), n, where);
  PipeBarrier<PIPE_V>(where);
  Div(dstLocal, srcLocal, dstLocal, n, where);
  PipeBarrier<PIPE_V>(where);
}

}  // namespace AscendC
