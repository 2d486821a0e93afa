#include "ascendc/nsa_compress_with_cache/op_host/nsa_compress_with_cache_tiling.h"

#include "ascendc/compress/op_host/compress_work.h"

namespace nsa::ascend {

namespace {

// A row of a tile that is shorter than this makes poor use of a transfer.
constexpr int32_t kLeastRowBytes = 512;

// Heads of a head tile: as many as the UB holds, but so few that every core has a row's tile while
// its rows are not too short.
int32_t tile_heads(const CompressWithCacheSizes& sizes, int32_t cores, uint32_t ub_bytes) {
  const int32_t most = largest_tile(sizes.heads, [&](int32_t heads) {
    return TileFitsInstructions(heads, sizes.dim) &&
           NsaCompressWithCacheBuffers(heads, sizes.dim).Total() <= ub_bytes;
  });
  const int32_t least = std::min(most, CeilDiv(kLeastRowBytes, 2 * sizes.dim));
  const int64_t tiles = std::max<int64_t>(1, cores / std::max<int64_t>(1, sizes.batch));
  const int64_t wanted = ceil_div(sizes.heads, std::min<int64_t>(tiles, sizes.heads));
  const int32_t chosen = static_cast<int32_t>(std::clamp<int64_t>(wanted, least, most));
  return CeilDiv(sizes.heads, CeilDiv(sizes.heads, chosen));
}

}  // namespace

int32_t tile_nsa_compress_with_cache(const CompressWithCacheSizes& sizes, int32_t cores,
                                     uint32_t ub_bytes, NsaCompressWithCacheTilingData* tiling) {
  NsaCompressWithCacheTilingData& t = *tiling;
  t.pages = sizes.pages;
  t.batch = sizes.batch;
  t.slots = sizes.slots;
  t.block_size = sizes.block_size;
  t.stride = sizes.stride;
  t.heads = sizes.heads;
  t.dim = sizes.dim;
  t.tile_heads = tile_heads(sizes, cores, ub_bytes);
  const int64_t units = t.batch * CeilDiv(t.heads, t.tile_heads);
  return static_cast<int32_t>(std::clamp<int64_t>(units, 1, std::min(cores, kMaxCores)));
}

}  // namespace nsa::ascend
