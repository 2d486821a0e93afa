// How NsaCompressWithCache is cut up for the cores.
#pragma once

#include "ascendc/nsa_compress_with_cache/op_kernel/nsa_compress_with_cache_tiling.h"

namespace nsa::ascend {

// A call that infer/ has accepted; the lengths of its rows are known on the device alone.
struct CompressWithCacheSizes {
  PagesTiling pages;
  int64_t batch, slots, block_size, stride;
  int32_t heads, dim;
};

// Fills the tiling data and returns the number of cores to use, at most `cores`. `ub_bytes`: of the
// UB, that a kernel may use.
int32_t tile_nsa_compress_with_cache(const CompressWithCacheSizes& sizes, int32_t cores,
                                     uint32_t ub_bytes, NsaCompressWithCacheTilingData* tiling);

}  // namespace nsa::ascend
