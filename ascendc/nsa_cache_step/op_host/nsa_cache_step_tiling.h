// How NsaCacheStep is cut up for the cores.
#pragma once

#include "ascendc/nsa_cache_step/op_kernel/nsa_cache_step_tiling.h"
#include "infer/nsa_cache_step.h"

namespace nsa::ascend {

// A call that infer/ has accepted; the lengths of its rows are known on the device alone.
struct CacheStepCall {
  int64_t batch, tokens, capacity;
  int64_t n1, n2, d, dv;
  float scale;
  bool sparse;
  bool overlap;             // importance
  NsaCacheStepAttrs attrs;  // what is said of sizes
};

// Fills the tiling data and returns the number of cube cores to use, at most `cores`.
int32_t tile_nsa_cache_step(const CacheStepCall& call, int32_t cores, uint32_t ub_bytes,
                            NsaCacheStepTilingData* tiling);

// Bytes of the workspace of `cores` cube cores.
int64_t nsa_cache_step_workspace(const NsaCacheStepTilingData& tiling, int32_t cores);

}  // namespace nsa::ascend
