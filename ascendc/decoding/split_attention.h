// The attention of new tokens over a cache on the cores of a block.
#pragma once

#include "ascendc/decoding/split_cube.h"
#include "ascendc/decoding/split_vector.h"

namespace nsa::ascend {

// `Keys` as in splits.h; `Ranking` of SplitVector. A kernel that goes on resets the pipe, and waits
// until all cores are done before it reads the output.
template <typename T, typename Keys, typename Ranking = NoRanking>
__aicore__ inline void AttendToSplits(AscendC::TPipe* pipe, const SplitTiling& tiling,
                                      const typename Keys::Arguments& g) {
  if ASCEND_IS_AIC {
    SplitCube<T, Keys> attention;
    attention.Init(pipe, &tiling, g);
    attention.Process();
  }
  if ASCEND_IS_AIV {
    SplitVector<T, Keys, Ranking> attention;
    attention.Init(pipe, &tiling, g);
    attention.Process();
  }
}

}  // namespace nsa::ascend
