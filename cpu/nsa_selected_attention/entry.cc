#include <type_traits>
#include <vector>

#include "cpu/dispatch/kernel_table.h"
#include "cpu/engine/plan/make_plan.h"
#include "cpu/engine/plan/tuning.h"
#include "cpu/engine/threads/team.h"
#include "cpu/nsa_selected_attention/params.h"

namespace nsa::cpu {
namespace {

// Chunks are longer where a sequence still has so many of them.
constexpr int64_t kManyChunks = 64;
// Rows of a chunk of the gradient, whose rows wait in memory, and which reads a block of keys in
// three forms and adds to its sums once per chunk.
constexpr int64_t kGradChunkRows = 1024;
constexpr int64_t kLongRows = 8192;
constexpr int64_t kWaveKeys = 8192;

// Shares of block 0, which almost all queries select.
constexpr int64_t kFirstBlockPartials = 4;

// Chunk sizes, in queries and in keys.
struct ChunkSize {
  int64_t queries, keys;
};

// Pair: SelectPair, or SelectGradPair. A gradient has sums for its keys, one for each share of the
// queries. It takes a segment without queries, too, whose dK and dV become zeros.
template <class Pair>
class SelectSchedule {
 public:
  // chunk_of(segment): ChunkSize.
  template <class Chunk>
  SelectSchedule(const AttentionPlan& plan, const Selection& sel, const int64_t* seq_q, int threads,
                 const Chunk& chunk_of) {
    for (int64_t b = 0; b < plan.num_segments; ++b) {
      for (int64_t h = 0; h < plan.N2; ++h)
        add(plan, sel, b, h, b == 0 ? 0 : seq_q[b - 1], chunk_of(plan.segments[b]), threads);
    }
    waves.close();
  }

  auto wave(const WaveSpan& span) const {
    const Pair* first = pairs.data() + span.pair;
    if constexpr (kGradient) {
      return SelectGradWave{first, span.num_pairs, span.key_chunks, span.slots, span.rounds};
    } else {
      return SelectWave{first, span.num_pairs, span.tiles};
    }
  }

  void carve_index(Arena& arena) {
    begin_ = arena.take<int64_t>(waves.largest().index);
    queries_ = arena.take<int32_t>(waves.largest().entries);
    repeats_ = arena.take<bool>(waves.largest().num_pairs);
  }

  // Points the pairs of a wave into the index.
  void place_index(const AttentionPlan& plan, const Selection& sel, const WaveSpan& span) {
    int64_t* begin = begin_;
    int32_t* queries = queries_;
    for (int64_t n = 0; n < span.num_pairs; ++n) {
      Pair& pair = pairs[span.pair + n];
      pair.begin = begin;
      pair.marks = pair.begin + pair.blocks + 1;
      pair.repeats = repeats_ + n;
      pair.queries = queries;
      begin = pair.marks + pair.blocks;
      queries += index_size(plan, sel, pair);
    }
  }

  std::vector<Pair> pairs;
  Waves waves;

 private:
  static constexpr bool kGradient = std::is_same_v<Pair, SelectGradPair>;

  void add(const AttentionPlan& plan, const Selection& sel, int64_t b, int64_t h, int64_t first_row,
           ChunkSize chunk, int threads) {
    const Segment& seg = plan.segments[b];
    if (seg.q_len == 0 && (seg.kv_len == 0 || !kGradient)) return;
    WaveSpan& open = waves.open();
    const bool enough = open.tiles >= 4 * threads && open.key_chunks >= 4 * threads;
    if (enough && open.packed * sel.shape.part >= kWaveKeys) waves.close();
    const int64_t kv_chunk = max64(1, chunk.keys / sel.shape.block);
    Pair pair{};
    pair.segment = b;
    pair.kv_head = h;
    pair.blocks = ceil_div(seg.kv_len, sel.shape.block);
    pair.q_chunk = chunk.queries;
    pair.q_chunks = ceil_div(seg.q_len, pair.q_chunk);
    pair.first_packed = open.packed;
    pair.first_row = first_row;
    if constexpr (kGradient) {
      pair.kv_chunk = kv_chunk;
      pair.kv_chunks = ceil_div(pair.blocks, kv_chunk);
      share_keys(plan, sel, pair);
      pair.set_ranges(plan, seg.q_len);
      pair.first_key_chunk = open.key_chunks;
      pair.first_slot = open.slots;
      open.key_chunks += pair.kv_chunks;
      open.slots += pair.range_chunks;
      open.rounds = max64(open.rounds, pair.rounds());
      open.accumulators += pair.accumulators(plan, seg);
    } else {
      pair.first_chunk = open.tiles;
      open.key_chunks += ceil_div(pair.blocks, kv_chunk);
    }
    pairs.push_back(pair);
    ++open.num_pairs;
    open.packed += pair.blocks * sel.shape.parts;
    open.tiles += pair.q_chunks;
    open.rows += seg.q_len * plan.G;
    open.index += 2 * pair.blocks + 1;
    open.entries += index_size(plan, sel, pair);
  }

  // Room for its queries in the index: a query is there once for every block that it selects, also
  // where it has places for far more of them than there are.
  static int64_t index_size(const AttentionPlan& plan, const Selection& sel, const Pair& pair) {
    return plan.segments[pair.segment].q_len * min64(sel.count, pair.blocks);
  }

  // Divides the sums of keys into partials, each of some queries.
  static void share_keys(const AttentionPlan& plan, const Selection& sel, SelectGradPair& pair) {
    pair.num_partials = partials_of_queries(plan, pair);
    pair.first_block_partials =
        pair.kv_chunk > 1 ? min64(max64(kFirstBlockPartials, pair.num_partials), pair.q_chunks / 2)
                          : 0;
    if (pair.kv_chunks < 2 || pair.first_block_partials < pair.num_partials)
      pair.first_block_partials = 0;
    pair.first_block_keys = pair.first_block_partials > 0
                                ? min64(sel.shape.block, plan.segments[pair.segment].kv_len)
                                : 0;
    pair.kv_chunks = pair.kv_chunks * pair.num_partials + pair.first_block_partials;
  }

  int64_t* begin_ = nullptr;
  int32_t* queries_ = nullptr;
  bool* repeats_ = nullptr;
};

std::vector<Segment> make_selected_plan(const NsaSelectedAttentionParams& p, AttentionPlan& plan) {
  std::vector<Segment> segments = make_packed_plan(p, p.seq_kv, plan);
  for (Segment& seg : segments)
    if (p.causal) seg.range.window_right = p.q_offset ? p.q_offset[seg.index] : 0;
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
  AttentionPlan plan{};
  std::vector<Segment> segments = make_selected_plan(p, plan);
  const int64_t block = block_keys(p, plan);
  const WordForm form = table.select_form(plan, block);
  const Selection sel{p.topk_indices, p.select_block_count, BlockShape::of(block, form.key_step())};
  const Tuning& sizes = tuning(form);
  const auto chunk_queries = [&](const Segment& seg) {
    int64_t most = min64(seg.q_len * plan.G / kManyChunks, sizes.select_most_rows);
    if (sizes.select_meeting_rows > 0) {
      const int64_t blocks = ceil_div(seg.kv_len, block);
      most = min64(most, sizes.select_meeting_rows * blocks / max64(1, p.select_block_count));
    }
    const int64_t rows = max64(sizes.select_rows, most);
    return max64(1, rows / plan.G);
  };
  int64_t chunk_rows = plan.G;
  for (const Segment& seg : segments) chunk_rows = max64(chunk_rows, chunk_queries(seg) * plan.G);
  SelectSchedule<SelectPair> schedule(plan, sel, p.seq_q, threads, [&](const Segment& seg) {
    // A forward has no chunks of keys; so many count as one where a wave is full.
    return ChunkSize{chunk_queries(seg), kTuningOfVectors.select_grad_keys};
  });

  ForwardScratch scratch{};
  scratch.thread_size =
      thread_space(table.select_forward_thread_size(p.D, p.Dv, chunk_rows, form.terms > 1));
  const Scratch memory([&](Arena& arena) {
    carve_forward(arena, plan, schedule.waves.largest(), sel.shape.lanes, form, threads, scratch);
    schedule.carve_index(arena);
  });
  for (const WaveSpan& span : schedule.waves.spans()) {
    schedule.place_index(plan, sel, span);
    table.select_forward(plan, sel, schedule.wave(span), scratch, chunk_rows, threads);
  }
}

void nsa_selected_attention_grad(const NsaSelectedAttentionGradParams& p) {
  const KernelTable& table = kernels();
  const int threads = num_threads();
  const WordForm form = table.form(p.dtype);
  AttentionGradPlan plan{};
  std::vector<Segment> segments = make_selected_plan(p, plan);
  plan.dy = p.attention_out_grad;
  plan.sum_grad = p.softmax_sum_grad;
  plan.dq = p.dq;
  plan.dk = p.dk;
  plan.dv = p.dv;
  // Rows are gathered query by query, so no 16-row tile is neighbouring queries.
  plan.tile16s = grad_tile16s(plan, form);
  if (plan.tile16s == GradTile16::kQueries) plan.tile16s = GradTile16::kNone;
  const int64_t block = block_keys(p, plan);
  plan.scores_as_bf16x3 = table.select_form(plan, block).terms > 1;
  const Selection sel{p.topk_indices, p.select_block_count, BlockShape::of(block, form.key_step())};
  SelectSchedule<SelectGradPair> schedule(plan, sel, p.seq_q, threads, [&](const Segment& seg) {
    const int64_t rows = min64(ceil_div(seg.q_len, kManyChunks), kLongRows / plan.G);
    const int64_t keys = kTuningOfTiles.select_grad_keys;
    const bool many = plan.uses_tile16() && seg.kv_len >= kRangeChunks * keys;
    return ChunkSize{
        range_chunk(plan, seg.q_len, 1, max64(max64(1, kGradChunkRows / plan.G), rows)),
        many ? keys : kTuningOfVectors.select_grad_keys};
  });

  GradSpace space{};
  space.thread_size = thread_space(table.grad_thread_size(p.dtype, p.D, p.Dv, kTileKeys));
  const Scratch memory([&](Arena& arena) {
    carve_grad(arena, plan, schedule.waves.largest(), sel.shape.lanes, form, threads, space);
    schedule.carve_index(arena);
  });
  for (const WaveSpan& span : schedule.waves.spans()) {
    schedule.place_index(plan, sel, span);
    place_accumulators(plan, schedule.pairs.data() + span.pair, span.num_pairs, space);
    table.select_backward(plan, sel, schedule.wave(span), space, threads);
  }
}

}  // namespace nsa::cpu
