// How NsaCompressGrad is cut up for the cores.
#pragma once

#include "ascendc/compress/op_host/compress_work.h"
#include "ascendc/nsa_compress_grad/op_kernel/nsa_compress_grad_tiling.h"

namespace nsa::ascend {

// Fills the tiling data and returns the number of cores to use, at most `cores`. `ub_bytes`: of the
// UB, that a kernel may use. The list is checked already.
int32_t tile_nsa_compress_grad(const CompressSizes& sizes, const SeqList& list, int32_t cores,
                               uint32_t ub_bytes, NsaCompressGradTilingData* tiling);

// Bytes of the partial sums of the weight gradient.
size_t nsa_compress_grad_workspace(const NsaCompressGradTilingData& tiling);

}  // namespace nsa::ascend
