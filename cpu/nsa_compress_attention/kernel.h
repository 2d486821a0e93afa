// NsaCompressAttention's calls.
#pragma once

#include "cpu/nsa_compress_attention/bf16x3.h"
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

template <class Variant>
using CompressBuffers =
    std::conditional_t<(Variant::kForm.terms > 1), CompressBf16x3<Variant>, CompressTileBuffers>;

template <class Variant>
inline void compress_tile(const AttentionPlan& plan, const ImportancePlan& imp,
                          const TileContext& context, const PackedPair& packed,
                          CompressBuffers<Variant>& buffers) {
  if constexpr (kRowsOnly<Variant> && Variant::kForm.terms == 1) {
    if (CompressSteps<Variant>::fit(plan, context, packed))
      return CompressSteps<Variant>(plan, imp, context, packed, buffers).run();
  }
  each_few_rows(imp, context, [&](const TileContext& few) {
    if constexpr (Variant::kForm.terms > 1) {
      if (!compress_tile_as_bf16x3<Variant>(plan, imp, few, packed, buffers))
        compress_tile_apart<Variant>(plan, imp, few, buffers);
    } else {
      compress_attention_tile<Variant>(plan, imp, few, packed, buffers);
    }
  });
}

template <class Variant>
void compress_attention_wave(const AttentionPlan& plan, const ImportancePlan& imp, const Wave& wave,
                             const ForwardScratch& scratch, int threads) {
  run_forward_wave<Variant>(
      plan, wave, scratch, threads,
      [&](Arena& arena) {
        return CompressBuffers<Variant>::carve(arena, imp, plan.D, plan.Dv, plan.G);
      },
      [&](const TileContext& context, const PackedPair& packed, CompressBuffers<Variant>& buffers) {
        compress_tile<Variant>(plan, imp, context, packed, buffers);
      });
}

void compress_attention_by_dtype(const AttentionPlan& plan, const ImportancePlan& imp,
                                 const Wave& wave, const ForwardScratch& scratch, int threads) {
  if (plan.dtype == ElemType::kBFloat16)
    return compress_attention_wave<VariantOfBFloat16>(plan, imp, wave, scratch, threads);
  if (scratch.as_bf16x3)
    return compress_attention_wave<SplitFloatVariant>(plan, imp, wave, scratch, threads);
  compress_attention_wave<FloatVariant>(plan, imp, wave, scratch, threads);
}

int64_t compress_attention_thread_size(const ImportancePlan& imp, int64_t D, int64_t Dv, int64_t G,
                                       bool as_bf16x3) {
  return measured([&](Arena& arena) {
    if (as_bf16x3) {
      CompressBuffers<SplitFloatVariant>::carve(arena, imp, D, Dv, G);
    } else {
      CompressTileBuffers::carve(arena, imp, D, Dv, G);
    }
  });
}

}  // namespace
}  // namespace nsa::cpu
