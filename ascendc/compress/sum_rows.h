// Sum of 16 rows of floats by halving: the order of additions is fixed, and shallow.
#pragma once

#include "ascendc/compress/compress_shape.h"
#include "kernel_operator.h"

namespace nsa::ascend {

// rows [16, n] become two rows, in place, whose sum is that of the 16. The caller adds the two.
__aicore__ inline void FoldToTwo(const AscendC::LocalTensor<float>& rows, int32_t n) {
  for (int32_t half = kSliceTokens / 2; half >= 2; half /= 2) {
    AscendC::Add(rows, rows, rows[half * n], half * n);
    AscendC::PipeBarrier<PIPE_V>();
  }
}

}  // namespace nsa::ascend
