// NsaCompressAttention's calls.
#pragma once

#include "cpu/engine/step/forward_wave.h"
#include "cpu/nsa_compress_attention/tile.h"
#ifdef NSA_ISA_AMX
#include "cpu/nsa_compress_attention/pieces.h"
#include "cpu/nsa_compress_attention/steps.h"
#endif

namespace nsa::cpu {
namespace {

// tile(context) for parts of the rows of a tile, as many as there are buffers for.
template <class Tile>
inline void each_part(const ImportancePlan& imp, const TileContext& c, const Tile& tile) {
  RowTile part = c.tile;
  for (int64_t left = part.queries; left > 0; left -= part.queries) {
    part.queries = min64(left, imp.max_queries);
    tile(TileContext{c.plan, c.seg, part, c.first_head});
    part.i0 += part.queries;
  }
}

template <class Path>
void compress_attention_wave(const AttentionPlan& plan, const ImportancePlan& imp, const Wave& wave,
                             const ForwardScratch& scratch, int threads) {
  run_forward_wave<Path>(
      plan, wave, scratch, threads,
      [&](Arena& arena) { return CompressTileBuffers::carve(arena, imp, plan.D, plan.Dv, plan.G); },
      [&](const TileContext& context, const PackedPair& packed, CompressTileBuffers& buffers) {
#ifdef NSA_ISA_AMX
        if (kRowsOnly<Path> && CompressSteps::fit(plan, context, packed))
          return CompressSteps(plan, imp, context, packed, buffers).run();
#endif
        each_part(imp, context, [&](const TileContext& part) {
          compress_attention_tile<Path>(plan, imp, part, packed, buffers);
        });
      });
}

#ifdef NSA_ISA_AMX
void compress_attention_in_pieces(const AttentionPlan& plan, const ImportancePlan& imp,
                                  const Wave& wave, const ForwardScratch& scratch, int threads) {
  run_forward_wave<PiecesPath>(
      plan, wave, scratch, threads,
      [&](Arena& arena) { return CompressPieces::carve(arena, imp, plan.D, plan.Dv, plan.G); },
      [&](const TileContext& context, const PackedPair& packed, CompressPieces& buffers) {
        each_part(imp, context, [&](const TileContext& part) {
          if (!compress_tile_in_pieces(plan, imp, part, packed, buffers))
            compress_tile_apart(plan, imp, part, buffers);
        });
      });
}
#endif

void compress_attention(const AttentionPlan& plan, const ImportancePlan& imp, const Wave& wave,
                        const ForwardScratch& scratch, int threads) {
  if (plan.dtype == ElemType::kBFloat16)
    return compress_attention_wave<PathOfBFloat16>(plan, imp, wave, scratch, threads);
#ifdef NSA_ISA_AMX
  if (scratch.in_pieces) return compress_attention_in_pieces(plan, imp, wave, scratch, threads);
#endif
  compress_attention_wave<FloatPath>(plan, imp, wave, scratch, threads);
}

int64_t compress_attention_thread_size(const ImportancePlan& imp, int64_t D, int64_t Dv, int64_t G,
                                       [[maybe_unused]] bool in_pieces) {
  return measured([&](Arena& arena) {
#ifdef NSA_ISA_AMX
    if (in_pieces) return void(CompressPieces::carve(arena, imp, D, Dv, G));
#endif
    CompressTileBuffers::carve(arena, imp, D, Dv, G);
  });
}

}  // namespace
}  // namespace nsa::cpu
