#include <vector>

#include "cpu/attention/grad_accumulators.h"
#include "cpu/attention/layout.h"
#include "cpu/kernel_table.h"
#include "cpu/runtime.h"

namespace nsa::cpu {
namespace {

// Rows of a query chunk: its outputs and statistics stay in the second-level cache.
constexpr int64_t kChunkRows = 1024;
// Keys of a key chunk of the gradient: several blocks, to amortise the barrier of a step.
constexpr int64_t kChunkKeys = 256;
constexpr int64_t kWaveKeys = 8192;

struct WaveSpan {
  int64_t pair = 0, num_pairs = 0, parts = 0, tiles = 0, units = 0, steps = 0;
  int64_t rows = 0, index = 0, entries = 0, accumulators = 0;
};

WaveSpan larger(const WaveSpan& a, const WaveSpan& b) {
  WaveSpan m;
  m.parts = max64(a.parts, b.parts);
  m.rows = max64(a.rows, b.rows);
  m.index = max64(a.index, b.index);
  m.entries = max64(a.entries, b.entries);
  m.accumulators = max64(a.accumulators, b.accumulators);
  return m;
}

class SelectSchedule {
 public:
  SelectSchedule(const AttentionPlan& plan, const Selection& sel, const int64_t* seq_q,
                 int threads) {
    chunk_queries_ = max64(1, kChunkRows / plan.G);
    for (int64_t b = 0; b < plan.num_segments; ++b) {
      for (int64_t h = 0; h < plan.N2; ++h)
        add(plan, sel, b, h, b == 0 ? 0 : seq_q[b - 1], threads);
    }
    close();
  }

  int64_t chunk_rows(const AttentionPlan& plan) const { return chunk_queries_ * plan.G; }

  SelectWave wave(const WaveSpan& span) const {
    return {pairs.data() + span.pair, span.num_pairs, span.tiles, span.units, span.steps};
  }

  void place_index(const AttentionPlan& plan, const Selection& sel, const WaveSpan& span,
                   int64_t* begin, int32_t* queries) {
    for (int64_t n = 0; n < span.num_pairs; ++n) {
      SelectPair& pair = pairs[span.pair + n];
      pair.begin = begin;
      pair.queries = queries;
      pair.marks = begin + pair.blocks + 1;
      begin = pair.marks + pair.blocks + 1;
      queries += plan.segments[pair.segment].q_len * sel.count;
    }
  }

  std::vector<SelectPair> pairs;
  std::vector<WaveSpan> spans;
  WaveSpan largest;

 private:
  void add(const AttentionPlan& plan, const Selection& sel, int64_t b, int64_t h, int64_t first_row,
           int threads) {
    const Segment& seg = plan.segments[b];
    if (seg.q_len == 0 && seg.kv_len == 0) return;
    const bool enough = open_.tiles >= 4 * threads && open_.units >= 4 * threads;
    if (enough && open_.parts * sel.shape.part >= kWaveKeys) close();
    SelectPair pair{};
    pair.segment = b;
    pair.kv_head = h;
    pair.blocks = ceil_div(seg.kv_len, sel.shape.block);
    pair.q_chunk = chunk_queries_;
    pair.kv_chunk = max64(1, kChunkKeys / sel.shape.block);
    pair.q_chunks = ceil_div(seg.q_len, pair.q_chunk);
    pair.kv_chunks = ceil_div(pair.blocks, pair.kv_chunk);
    pair.first_block = open_.parts;
    pair.first_unit = open_.units;
    pair.first_tile = open_.tiles;
    pair.first_row = first_row;
    pairs.push_back(pair);
    ++open_.num_pairs;
    open_.parts += pair.blocks * sel.shape.parts;
    open_.tiles += pair.q_chunks;
    open_.units += pair.kv_chunks;
    open_.steps = max64(open_.steps, pair.steps());
    open_.rows += seg.q_len * plan.G;
    open_.index += 2 * (pair.blocks + 1);
    open_.entries += seg.q_len * sel.count;
    open_.accumulators += seg.q_len * plan.G * plan.D + seg.kv_len * (plan.D + plan.Dv);
  }

  void close() {
    if (open_.num_pairs > 0) spans.push_back(open_);
    largest = larger(largest, open_);
    open_ = {};
    open_.pair = static_cast<int64_t>(pairs.size());
  }

  int64_t chunk_queries_;
  WaveSpan open_;
};

std::vector<Segment> make_selected_plan(const NsaSelectedAttentionParams& p, AttentionPlan& plan) {
  std::vector<Segment> segments = make_plan(packed_flash_params(p, p.seq_kv), plan);
  for (Segment& seg : segments)
    if (p.causal) seg.range.ahead = p.q_offset ? p.q_offset[seg.index] : 0;
  plan.segments = segments.data();
  plan.num_segments = static_cast<int64_t>(segments.size());
  return segments;
}

// A block that is longer than every segment is cut to the longest: its packed copy is then as long
// as the keys, not as the block. Every segment keeps its one block.
int64_t block_keys(const NsaSelectedAttentionParams& p, const AttentionPlan& plan) {
  int64_t longest = 1;
  for (int64_t b = 0; b < plan.num_segments; ++b) longest = max64(longest, plan.segments[b].kv_len);
  return min64(p.select_block_size, longest);
}

}  // namespace

void nsa_selected_attention(const NsaSelectedAttentionParams& p) {
  const KernelTable& table = kernels();
  const int threads = num_threads();
  const WordForm form = table.form(p.dtype);
  AttentionPlan plan{};
  std::vector<Segment> segments = make_selected_plan(p, plan);
  const Selection sel{p.topk_indices, p.select_block_count,
                      BlockShape::of(block_keys(p, plan), form.key_step())};
  SelectSchedule schedule(plan, sel, p.seq_q, threads);
  const int64_t chunk_rows = schedule.chunk_rows(plan);

  ForwardScratch parts{};
  int64_t* begin = nullptr;
  int32_t* queries = nullptr;
  parts.thread_size = thread_part(table.select_forward_thread_size(p.D, p.Dv, chunk_rows));
  auto carve = [&](Arena& arena) {
    const int64_t n = schedule.largest.parts, lanes = sel.shape.lanes;
    parts.keys = arena.take<float>(n * form.words(p.D) * lanes);
    parts.values = arena.take<float>(n * form.words(lanes) * padded_row(p.Dv));
    parts.finite = arena.take<bool>(n);
    parts.threads = arena.take_threads(threads, parts.thread_size);
    begin = arena.take<int64_t>(schedule.largest.index);
    queries = arena.take<int32_t>(schedule.largest.entries);
  };
  Arena size;
  carve(size);
  Scratch scratch(size.used);
  Arena arena{scratch.data()};
  carve(arena);
  for (const WaveSpan& span : schedule.spans) {
    schedule.place_index(plan, sel, span, begin, queries);
    table.select_forward(plan, sel, schedule.wave(span), parts, chunk_rows, threads);
  }
}

void nsa_selected_attention_grad(const NsaSelectedAttentionGradParams& p) {
  const KernelTable& table = kernels();
  const int threads = num_threads();
  AttentionGradPlan plan{};
  std::vector<Segment> segments = make_selected_plan(p, plan);
  plan.dy = p.attention_out_grad;
  plan.dq = p.dq;
  plan.dk = p.dk;
  plan.dv = p.dv;
  const Selection sel{p.topk_indices, p.select_block_count,
                      BlockShape::of(block_keys(p, plan), WordForm{1, 1}.key_step())};
  SelectSchedule schedule(plan, sel, p.seq_q, threads);

  GradScratch parts{};
  int64_t* begin = nullptr;
  int32_t* queries = nullptr;
  float *delta = nullptr, *accumulators = nullptr;
  parts.thread_size = thread_part(table.flash_backward_thread_size(p.D, p.Dv, kTileKeys));
  auto carve = [&](Arena& arena) {
    const int64_t keys = schedule.largest.parts * sel.shape.lanes;
    parts.keys_t = arena.take<float>(keys * p.D);
    parts.values_t = arena.take<float>(keys * p.Dv);
    parts.keys = arena.take<float>(keys * padded_row(p.D));
    parts.finite = arena.take<bool>(schedule.largest.parts);
    parts.threads = arena.take_threads(threads, parts.thread_size);
    begin = arena.take<int64_t>(schedule.largest.index);
    queries = arena.take<int32_t>(schedule.largest.entries);
    delta = arena.take<float>(schedule.largest.rows);
    if (p.dtype != ElemType::kFloat32)
      accumulators = arena.take<float>(schedule.largest.accumulators);
  };
  Arena size;
  carve(size);
  Scratch scratch(size.used);
  Arena arena{scratch.data()};
  carve(arena);
  for (const WaveSpan& span : schedule.spans) {
    schedule.place_index(plan, sel, span, begin, queries);
    place_accumulators(plan, schedule.pairs.data() + span.pair, span.num_pairs, delta,
                       accumulators);
    table.select_backward(plan, sel, schedule.wave(span), parts, threads);
  }
}

}  // namespace nsa::cpu
