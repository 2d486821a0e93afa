#include <vector>

#include "cpu/block_indexer/block_indexer_plan.h"
#include "cpu/dispatch/kernel_table.h"
#include "cpu/engine/plan/make_plan.h"
#include "cpu/engine/threads/team.h"

namespace nsa::cpu {
namespace {

// Tokens that a query sees end with itself, compressed ones with the last whose window has ended.
// With kMean the packed keys are the means of blocks.
std::vector<Segment> make_indexer_plan(const BlockIndexerParams& p, AttentionPlan& plan) {
  std::vector<Segment> segments =
      make_plan({p.query, p.key, p.key, nullptr, nullptr, nullptr, p.seq_q, p.seq_kv, Layout::kTND,
                 p.dtype, p.B, p.H, p.Nk, p.T1, p.T2, p.D, p.D, p.scale},
                plan);
  for (Segment& seg : segments) {
    seg.range.position = p.q_offset ? p.q_offset[seg.index] : 0;
    if (p.score == BlockScore::kSoftmaxMax) {
      seg.range.compress_block = p.compress_block_size;
      seg.range.compress_stride = p.compress_stride;
    } else {
      seg.range.window_right = seg.range.position;
    }
    if (p.score == BlockScore::kMean) seg.kv_len = ceil_div(seg.kv_len, p.block_size);
  }
  return segments;
}

// Queries of a tile: their rows fill the registers of the products, and what is kept of them stays
// in the second-level cache.
int64_t tile_queries(const IndexerPlan& index, int64_t G) {
  const int64_t by_blocks = whole_group_queries(G / index.heads, index.max_blocks);
  const int64_t lanes = index.score == BlockScore::kSoftmaxMax ? index.max_lanes : kTileKeys;
  return min64(by_blocks, whole_group_queries(G, lanes));
}

}  // namespace

void block_indexer(const BlockIndexerParams& p) {
  const KernelTable& table = kernels();
  const int threads = num_threads();
  AttentionPlan plan{};
  const std::vector<Segment> segments = make_indexer_plan(p, plan);

  IndexerPlan index{};
  index.score = p.score;
  index.weights = p.weights;
  index.topk_indices = p.topk_indices;
  index.groups = p.groups;
  index.heads = p.H / p.groups;
  index.block_size = p.block_size;
  index.count = p.block_count;
  index.init_blocks = p.init_blocks;
  index.local_blocks = p.local_blocks;
  index.compress_block_size = p.compress_block_size;
  index.compress_stride = p.compress_stride;
  for (const Segment& seg : segments) {
    if (seg.q_len == 0) continue;
    index.max_lanes = max64(index.max_lanes, seg.kv_len);
    index.max_blocks = max64(index.max_blocks, index.candidates(seg, seg.q_len - 1));
  }
  index.max_queries = tile_queries(index, plan.G);
  index.max_rows = index.max_queries * plan.G;
  const Schedule schedule(plan, TileRule{index.max_queries, index.max_rows}, threads);

  const WordForm form = p.score == BlockScore::kMean ? WordForm{1, 1} : table.form(p.dtype);
  ForwardScratch space{};
  space.thread_size = thread_space(table.block_indexer_thread_size(plan, index));
  const Scratch scratch([&](Arena& arena) {
    space.keys = arena.take<float>(schedule.largest().packed * form.words(p.D) * kKvBlockKeys);
    space.threads = arena.take_threads(threads, space.thread_size);
  });
  for (const Wave& wave : schedule.waves()) table.block_indexer(plan, index, wave, space, threads);
}

}  // namespace nsa::cpu
