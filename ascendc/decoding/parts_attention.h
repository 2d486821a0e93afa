// The attention of new tokens over a cache on the cores of a block.
#pragma once

#include "ascendc/decoding/parts_cube.h"
#include "ascendc/decoding/parts_vector.h"

namespace nsa::ascend {

// `Keys` as in parts.h; `Ranking` of PartsVector. A kernel that goes on resets the pipe, and waits
// until all cores are done before it reads the output.
template <typename T, typename Keys, typename Ranking = NoRanking>
__aicore__ inline void AttendToParts(AscendC::TPipe* pipe, const PartsTiling& tiling,
                                     const typename Keys::Arguments& g) {
  if ASCEND_IS_AIC {
    PartsCube<T, Keys> attention;
    attention.Init(pipe, &tiling, g);
    attention.Process();
  }
  if ASCEND_IS_AIV {
    PartsVector<T, Keys, Ranking> attention;
    attention.Init(pipe, &tiling, g);
    attention.Process();
  }
}

}  // namespace nsa::ascend
