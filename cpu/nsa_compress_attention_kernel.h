// NsaCompressAttention's calls.
#pragma once

#include "cpu/attention/forward_wave.h"
#include "cpu/nsa_compress_attention_tile.h"
#ifdef NSA_ISA_AMX
#include "cpu/nsa_compress_attention_steps.h"
#endif

namespace nsa::cpu {
namespace {

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
        RowTile part = context.tile;
        for (int64_t left = part.queries; left > 0; left -= part.queries) {
          part.queries = min64(left, imp.max_queries);
          const TileContext of_part{plan, context.seg, part, context.first_head};
          compress_attention_tile<Path>(plan, imp, of_part, packed, buffers);
          part.i0 += part.queries;
        }
      });
}

void compress_attention(const AttentionPlan& plan, const ImportancePlan& imp, const Wave& wave,
                        const ForwardScratch& scratch, int threads) {
  if (plan.dtype == ElemType::kBFloat16)
    return compress_attention_wave<PathOfBFloat16>(plan, imp, wave, scratch, threads);
  compress_attention_wave<FloatPath>(plan, imp, wave, scratch, threads);
}

int64_t compress_attention_thread_size(const ImportancePlan& imp, int64_t D, int64_t Dv,
                                       int64_t G) {
  return measured([&](Arena& arena) { CompressTileBuffers::carve(arena, imp, D, Dv, G); });
}

}  // namespace
}  // namespace nsa::cpu
