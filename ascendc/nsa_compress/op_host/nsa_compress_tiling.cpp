#include "ascendc/nsa_compress/op_host/nsa_compress_tiling.h"

namespace nsa::ascend {

namespace {

// A row of a tile that is shorter than this makes poor use of a transfer.
constexpr int32_t kLeastRowBytes = 512;
// Two cores that share a segment both read the tokens where their windows overlap. Narrower tiles
// cut fewer segments; such a share of the work may be read twice before it is worth it, and more of
// it the more windows lie over a token: then the sums take the time, and wide tiles have fewer of
// them.
constexpr int64_t kOverlapShare = 8;

// Heads of a head tile: as many as the UB holds, but no more than give every core a window, and
// fewer while the cores would read much twice.
int32_t tile_heads(const CompressSizes& sizes, const CompressWork& work, int32_t cores,
                   uint32_t ub_bytes) {
  int32_t most = largest_tile(sizes.heads, [&](int32_t heads) {
    return TileFitsInstructions(heads, sizes.dim) &&
           NsaCompressBuffers(sizes.block_size, sizes.stride, heads, sizes.dim, 1).Total() <=
               ub_bytes;
  });
  const int32_t least = CeilDiv(kLeastRowBytes, 2 * sizes.dim);
  const int64_t overlap = (sizes.block_size - sizes.stride) / kSliceTokens;
  const int64_t cuts = cores > 1 ? cores : 0;
  const int64_t windows = CeilDiv(sizes.block_size, sizes.stride);
  const int64_t hidden = work.slices() * sizes.heads * std::max<int64_t>(1, windows - 1);
  while (most > least && kOverlapShare * most * overlap * cuts > hidden) --most;
  int64_t tiles = CeilDiv(sizes.heads, most);
  if (work.windows() > 0) {
    tiles = std::max(tiles, std::min<int64_t>(sizes.heads, ceil_div(cores, work.windows())));
  }
  return CeilDiv(sizes.heads, static_cast<int32_t>(tiles));
}

// The unit at which the units before it cost `cost`; a head tile costs its heads times the slices.
int64_t unit_at_cost(const CompressWork& work, const NsaCompressTilingData& t, int64_t cost) {
  const int64_t tile = cost / work.slices() / t.tile_heads;
  const int64_t first_head = tile * t.tile_heads;
  const int64_t heads = std::min<int64_t>(t.tile_heads, t.heads - first_head);
  return tile * work.windows() + work.window_at_cost((cost - first_head * work.slices()) / heads);
}

void share_windows(const CompressWork& work, int32_t cores, NsaCompressTilingData* t) {
  const int64_t units = static_cast<int64_t>(CeilDiv(t->heads, t->tile_heads)) * t->windows;
  const int64_t cost = work.slices() * t->heads;
  for (int32_t core = 0; core <= kMaxCores; ++core) {
    t->unit_begin[core] =
        core == 0 || units == 0 ? 0
        : core >= cores ? units
                        : unit_at_cost(work, *t, cost / cores * core + cost % cores * core / cores);
  }
  for (int32_t core = 0; core < kMaxCores; ++core) {
    const bool idle = t->unit_begin[core] == t->unit_begin[core + 1];
    const CompressWork::Place at =
        idle ? CompressWork::Place{} : work.of_window(t->unit_begin[core] % t->windows);
    t->first_segment[core] = at.segment;
    t->windows_before[core] = at.windows_before;
  }
}

}  // namespace

int32_t tile_nsa_compress(const CompressSizes& sizes, const SeqList& list, int32_t cores,
                          uint32_t ub_bytes, NsaCompressTilingData* tiling) {
  cores = std::min(cores, kMaxCores);
  NsaCompressTilingData& t = *tiling;
  set_sizes(sizes, list, tiling);
  const CompressWork work(list, ShapeOf(t));
  t.windows = work.windows();
  t.tile_heads = tile_heads(sizes, work, cores, ub_bytes);
  t.step_slices = slices_of_step(t.tile_heads * t.dim, [&](int32_t slices) {
    return NsaCompressBuffers(t.block_size, t.stride, t.tile_heads, t.dim, slices).Total() <=
           ub_bytes;
  });
  const int64_t units = CeilDiv(t.heads, t.tile_heads) * t.windows;
  const int64_t work_items = std::max(units, t.rows - t.windows);
  cores = static_cast<int32_t>(std::clamp<int64_t>(work_items, 1, cores));
  share_windows(work, cores, tiling);
  return cores;
}

}  // namespace nsa::ascend
