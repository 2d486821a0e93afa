// NsaSelectedAttentionGrad: the steps of FlashAttentionScoreGrad, with rows gathered by block.
#pragma once

#include <omp.h>

#include "cpu/flash_attention_score_grad_kernel.h"
#include "cpu/nsa_selected_attention_kernel.h"

namespace nsa::cpu {
namespace {

inline void pack_grad_part(const AttentionGradPlan& plan, const Selection& sel,
                           const SelectPair& pair, int64_t part, const GradScratch& s, float* tmp) {
  const Segment& seg = plan.segments[pair.segment];
  const int64_t lanes = sel.shape.lanes, ld = padded_row(plan.D), at = pair.first_block + part;
  const PartKeys keys = part_keys(sel.shape, seg, part);
  const int64_t k = seg.k + pair.kv_head * plan.k.head + keys.j0 * plan.k.row;
  const int64_t v = seg.v + pair.kv_head * plan.v.head + keys.j0 * plan.v.row;
  pack_transposed<FloatPath>(plan.dtype, plan.key, k, plan.k.row, keys.count, plan.D, lanes,
                             s.keys_t + at * plan.D * lanes, tmp);
  pack_transposed<FloatPath>(plan.dtype, plan.value, v, plan.v.row, keys.count, plan.Dv, lanes,
                             s.values_t + at * plan.Dv * lanes, tmp);
  pack_rows<FloatPath>(plan.dtype, plan.key, k, plan.k.row, keys.count, plan.D, lanes, ld,
                       s.keys + at * lanes * ld);
  s.finite[at] = all_finite(s.keys + at * lanes * ld, lanes * ld);
}

// One part of a block against the queries list[0 .. rows / G) that selected it.
inline void select_grad_part(const AttentionGradPlan& plan, const Selection& sel,
                             const SelectPair& pair, int64_t part, const int32_t* list,
                             int64_t rows, const GradScratch& s, UnitBuffers& b) {
  const Segment& seg = plan.segments[pair.segment];
  const int64_t lanes = sel.shape.lanes, ld = padded_row(plan.D);
  const int64_t ldv = padded_row(plan.Dv), at = pair.first_block + part;
  const PartKeys range = part_keys(sel.shape, seg, part);
  if (range.count == 0) return;
  const GradKeys keys = {s.keys_t + at * plan.D * lanes,
                         s.values_t + at * plan.Dv * lanes,
                         s.keys + at * lanes * ld,
                         lanes,
                         range.j0,
                         range.count,
                         s.finite[at]};
  fill(b.dk, range.count * ld, 0.0f);
  fill(b.dv, range.count * ldv, 0.0f);
  for (int64_t first = 0; first < rows; first += kTileRows) {
    GatheredRows c{seg, pair.kv_head * plan.G, plan.G, list, first, min64(kTileRows, rows - first)};
    load_grad_rows(plan, c, pair.delta, b.tile);
    for (int64_t r = 0; r < c.rows(); ++r)
      b.tile.inv[r] *= multiplicity(pair, sel, plan.N2, c.query(r), part / sel.shape.parts);
    fill(b.tile.dq, c.rows() * ld, 0.0f);
    // hi does not decrease along the list, so the first row sees the least.
    const bool plain = range.count == lanes && seg.range.hi(c.query(0)) >= range.j0 + range.count;
    grad_step(plan, c, keys, 0, c.rows(), 0, lanes, plain, b.tile, b.dk, b.dv);
    for (int64_t r = 0; r < c.rows(); ++r) {
      const int64_t g = c.head(r) - c.first_head;
      add_scaled(pair.dq + c.query(r) * pair.dq_strides.row + g * pair.dq_strides.head,
                 b.tile.dq + r * ld, plan.D, plan.scale);
    }
  }
  for (int64_t j = 0; j < range.count; ++j) {
    add_scaled(pair.dk + (range.j0 + j) * pair.dk_row, b.dk + j * ld, plan.D, plan.scale);
    add_to(pair.dv + (range.j0 + j) * pair.dv_row, b.dv + j * ldv, plan.Dv);
  }
}

inline void select_grad_unit(const AttentionGradPlan& plan, const Selection& sel,
                             const SelectPair& pair, int64_t q_chunk, int64_t kv_chunk,
                             const GradScratch& s, UnitBuffers& b) {
  const Segment& seg = plan.segments[pair.segment];
  const int64_t i0 = q_chunk * pair.q_chunk, i1 = min64(i0 + pair.q_chunk, seg.q_len);
  const int64_t t0 = kv_chunk * pair.kv_chunk, t1 = min64(t0 + pair.kv_chunk, pair.blocks);
  for (int64_t t = t0; t < t1; ++t) {
    const int32_t* end = pair.queries + pair.begin[t + 1];
    const int32_t* list = first_query(pair.queries + pair.begin[t], end, i0);
    const int64_t rows = (first_query(list, end, i1) - list) * plan.G;
    if (rows == 0) continue;
    for (int64_t part = t * sel.shape.parts; part < (t + 1) * sel.shape.parts; ++part)
      select_grad_part(plan, sel, pair, part, list, rows, s, b);
  }
}

void select_backward(const AttentionGradPlan& plan, const Selection& sel, const SelectWave& wave,
                     const GradScratch& scratch, int threads) {
#pragma omp parallel num_threads(threads)
  {
    Arena arena{scratch.threads + omp_get_thread_num() * scratch.thread_size};
    UnitBuffers b = UnitBuffers::carve(arena, plan.D, plan.Dv, kTileKeys);
#pragma omp for schedule(dynamic, 1) nowait
    for (int64_t p = 0; p < wave.num_pairs; ++p) {
      const SelectPair& pair = wave.pairs[p];
      index_selection(pair, plan.segments[pair.segment], sel, plan.N2);
    }
    for (int64_t p = 0; p < wave.num_pairs; ++p) {
      const SelectPair& pair = wave.pairs[p];
#pragma omp for schedule(static) nowait
      for (int64_t part = 0; part < pair.blocks * sel.shape.parts; ++part)
        pack_grad_part(plan, sel, pair, part, scratch, b.tile.tmp);
      prepare_accumulators(plan, pair, b.tile);
    }
#pragma omp barrier
    run_steps(wave, [&](const SelectPair& pair, int64_t q_chunk, int64_t kv_chunk) {
      select_grad_unit(plan, sel, pair, q_chunk, kv_chunk, scratch, b);
    });
    for (int64_t p = 0; p < wave.num_pairs; ++p) write_accumulators(plan, wave.pairs[p]);
  }
}

}  // namespace
}  // namespace nsa::cpu
