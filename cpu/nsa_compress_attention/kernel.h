// NsaCompressAttention's calls.
#pragma once

#include "cpu/nsa_compress_attention/pieces.h"
#include "cpu/nsa_compress_attention/steps.h"
#include "cpu/nsa_compress_attention/tile.h"

namespace nsa::cpu {
namespace {

// tile(context) for the rows of a tile, as many at a time as there are buffers for.
template <class Tile>
inline void each_few_rows(const ImportancePlan& imp, const TileContext& c, const Tile& tile) {
  RowTile few = c.tile;
  for (int64_t left = few.queries; left > 0; left -= few.queries) {
    few.queries = min64(left, imp.max_queries);
    tile(TileContext{c.plan, c.seg, few, c.first_head});
    few.i0 += few.queries;
  }
}

template <class Path>
using CompressBuffers =
    std::conditional_t<(Path::kForm.pieces > 1), CompressPieces<Path>, CompressTileBuffers>;

template <class Path>
inline void compress_tile(const AttentionPlan& plan, const ImportancePlan& imp,
                          const TileContext& context, const PackedPair& packed,
                          CompressBuffers<Path>& buffers) {
  if constexpr (kRowsOnly<Path> && Path::kForm.pieces == 1) {
    if (CompressSteps<Path>::fit(plan, context, packed))
      return CompressSteps<Path>(plan, imp, context, packed, buffers).run();
  }
  each_few_rows(imp, context, [&](const TileContext& few) {
    if constexpr (Path::kForm.pieces > 1) {
      if (!compress_tile_in_pieces<Path>(plan, imp, few, packed, buffers))
        compress_tile_apart<Path>(plan, imp, few, buffers);
    } else {
      compress_attention_tile<Path>(plan, imp, few, packed, buffers);
    }
  });
}

template <class Path>
void compress_attention_wave(const AttentionPlan& plan, const ImportancePlan& imp, const Wave& wave,
                             const ForwardScratch& scratch, int threads) {
  run_forward_wave<Path>(
      plan, wave, scratch, threads,
      [&](Arena& arena) {
        return CompressBuffers<Path>::carve(arena, imp, plan.D, plan.Dv, plan.G);
      },
      [&](const TileContext& context, const PackedPair& packed, CompressBuffers<Path>& buffers) {
        compress_tile<Path>(plan, imp, context, packed, buffers);
      });
}

void compress_attention(const AttentionPlan& plan, const ImportancePlan& imp, const Wave& wave,
                        const ForwardScratch& scratch, int threads) {
  if (plan.dtype == ElemType::kBFloat16)
    return compress_attention_wave<PathOfBFloat16>(plan, imp, wave, scratch, threads);
  if (scratch.in_pieces)
    return compress_attention_wave<PathOfPieces>(plan, imp, wave, scratch, threads);
  compress_attention_wave<FloatPath>(plan, imp, wave, scratch, threads);
}

int64_t compress_attention_thread_size(const ImportancePlan& imp, int64_t D, int64_t Dv, int64_t G,
                                       bool in_pieces) {
  return measured([&](Arena& arena) {
    if (in_pieces) {
      CompressBuffers<PathOfPieces>::carve(arena, imp, D, Dv, G);
    } else {
      CompressTileBuffers::carve(arena, imp, D, Dv, G);
    }
  });
}

}  // namespace
}  // namespace nsa::cpu
