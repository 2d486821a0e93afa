#include <vector>

#include "cpu/dispatch/kernel_table.h"
#include "cpu/engine/plan/make_plan.h"
#include "cpu/engine/plan/tuning.h"
#include "cpu/engine/threads/team.h"
#include "cpu/nsa_compress_attention/compress_attention_plan.h"
#include "cpu/nsa_compress_attention/params.h"

namespace nsa::cpu {
namespace {

// Every compressed token is visible from the position on at which its window has ended.
std::vector<Segment> make_compressed_plan(const NsaCompressAttentionParams& p,
                                          AttentionPlan& plan) {
  std::vector<Segment> segments = make_packed_plan(p, p.seq_cmp_kv, plan);
  for (Segment& seg : segments) {
    seg.range.compress_block = p.compress_block_size;
    seg.range.compress_stride = p.causal ? p.compress_stride : 0;
    seg.range.position = p.q_offset ? p.q_offset[seg.index] : 0;
  }
  plan.bias.mask = p.atten_mask;  // by position in the segment, for all segments and heads
  if (p.atten_mask) plan.bias.mask_strides = {p.atten_mask_cols, 0};
  return segments;
}

}  // namespace

void nsa_compress_attention(const NsaCompressAttentionParams& p) {
  const KernelTable& table = kernels();
  const int threads = num_threads();
  AttentionPlan plan{};
  std::vector<Segment> segments = make_compressed_plan(p, plan);

  std::vector<int64_t> first_row(segments.size());
  ImportancePlan imp{};
  imp.rule = {p.select_block_size / p.compress_stride, p.compress_block_size / p.compress_stride,
              p.importance == Importance::kOverlap};
  imp.topk_mask = p.topk_mask;
  imp.topk_mask_cols = p.topk_mask_cols;
  imp.topk_indices = p.topk_indices;
  imp.count = p.select_block_count;
  imp.select_block_size = p.select_block_size;
  imp.init_blocks = p.init_blocks;
  imp.local_blocks = p.local_blocks;
  imp.causal = p.causal;
  imp.q_offset = p.q_offset;
  imp.first_row = first_row.data();
  for (size_t b = 0; b < segments.size(); ++b) {
    first_row[b] = b == 0 ? 0 : p.seq_q[b - 1];
    if (segments[b].q_len == 0) continue;
    imp.max_kv_len = max64(imp.max_kv_len, segments[b].kv_len);
    imp.max_blocks = max64(imp.max_blocks, imp.blocks(segments[b]));
  }
  const int64_t queries = whole_group_queries(plan.G, imp.max_kv_len);
  imp.max_rows = queries * plan.G;
  imp.max_queries = queries;
  const int64_t times = tuning(table.form(p.dtype)).compress_tile_times;
  Schedule schedule(plan, TileRule{times * queries, times * imp.max_rows}, threads);

  ForwardScratch space{};
  const WordForm form = table.forward_form(plan, false);
  space.as_bf16x3 = form.terms > 1;
  space.thread_size =
      thread_space(table.compress_attention_thread_size(imp, p.D, p.Dv, plan.G, space.as_bf16x3));
  const Scratch scratch([&](Arena& arena) {
    carve_forward(arena, plan, schedule.largest(), kKvBlockKeys, form, threads, space);
  });
  for (const Wave& wave : schedule.waves())
    table.compress_attention(plan, imp, wave, space, threads);
}

}  // namespace nsa::cpu
