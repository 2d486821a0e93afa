// Positions of NsaCompressAttention's inputs, for its rules and for whoever calls its kernel.
#pragma once

#include <cstddef>

namespace nsa::compress_attention {

enum Input : size_t {
  kQuery,
  kKey,
  kValue,
  kTopkMask,
  kAttenMask,
  kSeqQ,
  kSeqCmpKv,
  kSeqSelKv,
  kQOffset,
};

}  // namespace nsa::compress_attention
