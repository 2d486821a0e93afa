// FlashAttentionScore, forward: one parallel region per wave, first packing, then tiles.
#pragma once

#include <omp.h>

#include "cpu/attention/forward_tile.h"

namespace nsa::cpu {
namespace {

template <class Path>
void flash_forward_wave(const AttentionPlan& plan, const Wave& wave, const ForwardScratch& scratch,
                        int threads) {
  const int64_t key_size = words<Path>(plan.D) * kBlockKeys;
  const int64_t value_size = words<Path>(kBlockKeys) * padded_row(plan.Dv);
#pragma omp parallel num_threads(threads)
  {
    Arena arena{scratch.threads + omp_get_thread_num() * scratch.thread_size};
    Path::begin();
    TileBuffers buffers = TileBuffers::carve(arena, plan.D, plan.Dv);
    pack_pairs<Path>(plan, wave, scratch, buffers.tmp);
#pragma omp for schedule(dynamic, 1)
    for (int64_t n = 0; n < wave.num_tiles; ++n) {
      const RowTile& tile = wave.tiles[n];
      const KvPair& pair = wave.pairs[tile.pair];
      TileContext context{plan, plan.segments[pair.segment], tile, pair.kv_head * plan.G};
      PackedPair packed{scratch.keys + pair.first_block * key_size,
                        scratch.values + pair.first_block * value_size,
                        scratch.finite + pair.first_block};
      forward_tile<Path>(context, packed, buffers);
    }
    Path::end();
  }
}

void flash_forward(const AttentionPlan& plan, const Wave& wave, const ForwardScratch& scratch,
                   int threads) {
  if (plan.dtype == ElemType::kBFloat16)
    return flash_forward_wave<PathOfBFloat16>(plan, wave, scratch, threads);
  flash_forward_wave<FloatPath>(plan, wave, scratch, threads);
}

int64_t flash_forward_thread_size(int64_t D, int64_t Dv) {
  Arena arena;
  TileBuffers::carve(arena, D, Dv);
  return round_up(arena.used, 64);
}

}  // namespace
}  // namespace nsa::cpu
