#include "ascendc/nsa_compress_grad/op_host/nsa_compress_grad_tiling.h"

namespace nsa::ascend {

namespace {

// Chunks divide evenly among 48 and 40 vector cores, and have at least so many slices each that
// their partial sums are little compared with the input. Only the problem may have a say in this.
constexpr int64_t kMostChunks = 240;
constexpr int64_t kLeastSlices = 4;

int32_t chunks_of(int64_t slices) {
  if (slices == 0) return 0;
  return static_cast<int32_t>(std::clamp<int64_t>(slices / kLeastSlices, 1, kMostChunks));
}

bool fits(const NsaCompressGradTilingData& t, int32_t heads, int32_t step_slices,
          uint32_t ub_bytes) {
  return TileFitsInstructions(heads, t.dim) &&
         NsaCompressGradBuffers(t.block_size, t.stride, heads, t.dim, step_slices).Total() <=
             ub_bytes;
}

// Heads of a head tile: as many as the UB holds, but no more than give every core an item.
int32_t tile_heads(const NsaCompressGradTilingData& t, int32_t cores, uint32_t ub_bytes) {
  const int32_t most =
      largest_tile(t.heads, [&](int32_t heads) { return fits(t, heads, 1, ub_bytes); });
  int32_t tiles = CeilDiv(t.heads, most);
  if (t.chunks > 0) tiles = std::max(tiles, std::min(t.heads, CeilDiv(cores, t.chunks)));
  return CeilDiv(t.heads, tiles);
}

void share_items(const CompressWork& work, int32_t cores, NsaCompressGradTilingData* t) {
  const int64_t items = static_cast<int64_t>(t->chunks) * t->tiles;
  for (int32_t core = 0; core < kMaxCores; ++core) {
    CompressWork::Place items_at{}, clear_at{};
    if (core < cores) {
      const int64_t item = ShareBegin(items, core, cores);
      if (item < ShareBegin(items, core + 1, cores)) {
        items_at = work.of_slice(ShareBegin(t->slices, item % t->chunks, t->chunks));
      }
      const int64_t token = ShareBegin(t->uncovered, core, cores);
      if (token < ShareBegin(t->uncovered, core + 1, cores)) clear_at = work.of_uncovered(token);
    }
    t->first_segment[core] = items_at.segment;
    t->windows_before[core] = items_at.windows_before;
    t->slices_before[core] = items_at.slices_before;
    t->clear_segment[core] = clear_at.segment;
    t->clear_before[core] = clear_at.uncovered_before;
  }
}

}  // namespace

int32_t tile_nsa_compress_grad(const CompressSizes& sizes, const SeqList& list, int32_t cores,
                               uint32_t ub_bytes, NsaCompressGradTilingData* tiling) {
  cores = std::min(cores, kMaxCores);
  NsaCompressGradTilingData& t = *tiling;
  set_sizes(sizes, list, tiling);
  const CompressWork work(list, ShapeOf(t));
  t.slices = work.slices();
  t.uncovered = work.uncovered();
  t.chunks = chunks_of(t.slices);
  t.tile_heads = tile_heads(t, cores, ub_bytes);
  t.tiles = CeilDiv(t.heads, t.tile_heads);
  t.step_slices = slices_of_step(t.tile_heads * t.dim, [&](int32_t slices) {
    return fits(t, t.tile_heads, slices, ub_bytes);
  });
  const int64_t sums = static_cast<int64_t>(t.block_size) * t.heads / kSliceTokens;
  const int64_t items = static_cast<int64_t>(t.chunks) * t.tiles;
  cores = static_cast<int32_t>(std::clamp<int64_t>(std::max({items, t.uncovered, sums}), 1, cores));
  share_items(work, cores, tiling);
  return cores;
}

size_t nsa_compress_grad_workspace(const NsaCompressGradTilingData& t) {
  return static_cast<size_t>(t.chunks) * t.block_size * t.heads * sizeof(float);
}

}  // namespace nsa::ascend
