#include <cstring>
#include <vector>

#include "cpu/dispatch/kernel_table.h"
#include "cpu/engine/plan/make_plan.h"
#include "cpu/engine/plan/tokens.h"
#include "cpu/engine/threads/team.h"
#include "cpu/lightning_indexer/kl_loss_plan.h"
#include "cpu/lightning_indexer/params.h"

namespace nsa::cpu {
namespace {

// Bytes of gradients of products, or of scores and their queries, that wait for the sums of keys.
constexpr int64_t kWaitingBytes = 32 << 20;
// Rows of a tile of the indexer, and of the attention.
constexpr int64_t kIndexRows = 256;
constexpr int64_t kAttentionRows = 64;

void make_indexer(const IndexerKLLossParams& p, AttentionPlan& plan, TokenGradPlan& grad) {
  plan.query = p.query_index;
  plan.key = p.key_index;
  plan.dtype = p.dtype;
  plan.N1 = p.H;
  plan.N2 = p.groups;
  plan.G = p.H / p.groups;
  plan.D = p.d;
  plan.q = {p.H * p.d, p.d};
  plan.k = {p.groups * p.d, p.d};
  plan.scale = 1.0f;
  grad.weights = p.weights;
  grad.dq = p.dq;
  grad.dweights = p.dweights;
}

void make_attention(const IndexerKLLossParams& p, AttentionPlan& plan, SparsePlan& tokens) {
  plan.query = p.query;
  plan.key = plan.value = p.key;
  plan.softmax_max = const_cast<float*>(p.softmax_max);
  plan.softmax_sum = const_cast<float*>(p.softmax_sum);
  plan.dtype = p.dtype;
  plan.N1 = p.N;
  plan.N2 = p.N2;
  plan.G = p.N / p.N2;
  plan.D = plan.Dv = p.D;
  plan.scale = p.scale_value;
  tokens.indices = p.sparse_indices;
  tokens.count = p.count;
  tokens.block = 1;
  tokens.query_rope = p.query_rope;
  tokens.key_rope = p.key_rope;
  tokens.R = p.R;
  tokens.statistic_rows = {p.packed, p.rows, p.Sq};
}

// Segments with offsets into the indexer's tensors. The attention finds its rows by their numbers.
std::vector<Segment> make_segments(const IndexerKLLossParams& p, AttentionPlan& indexer) {
  std::vector<Segment> segments;
  const TokenLists lists{p.seq_q, p.seq_k, p.packed, p.packed, p.Sq, p.Sk};
  for (int64_t b = 0; b < p.B; ++b) {
    Segment seg = token_segment(lists, b);
    if (p.sparse_mode == 3) seg.range.window_right = seg.kv_len - seg.q_len;
    seg.q = seg.first_query * indexer.q.row;
    seg.k = seg.first_key * indexer.k.row;
    segments.push_back(seg);
  }
  indexer.segments = segments.data();
  indexer.num_segments = p.B;
  return segments;
}

std::vector<Segment> make_plan(const IndexerKLLossParams& p, KLPlan& plan) {
  make_indexer(p, plan.index, plan.grad);
  make_attention(p, plan.attention, plan.tokens);
  std::vector<Segment> segments = make_segments(p, plan.index);
  plan.attention.segments = segments.data();
  plan.attention.num_segments = p.B;
  return segments;
}

// Zeros where nothing is added: rows of no segment, and what sums begin with.
void clear(const IndexerKLLossParams& p, const KLPlan& plan) {
  std::memset(plan.grad.dk, 0, static_cast<size_t>(p.keys * plan.index.k.row) * 4);
  std::memset(plan.loss, 0, static_cast<size_t>(p.rows * p.groups) * sizeof(double));
  const int64_t bytes = plan.index.q.row * elem_size(p.dtype);
  each_other_row(plan.index, p.rows, [&](int64_t first, int64_t rows) {
    std::memset(static_cast<char*>(p.dq) + first * bytes, 0, static_cast<size_t>(rows * bytes));
    std::memset(p.dweights + first * p.H, 0, static_cast<size_t>(rows * p.H) * 4);
  });
}

// The loss, and the gradients of keys in their dtype.
void finish(const IndexerKLLossParams& p, const KLPlan& plan, const KernelTable& table,
            int threads) {
  double loss = 0.0;
  for (int64_t n = 0; n < p.rows * p.groups; ++n) loss += plan.loss[n];
  *p.loss = static_cast<float>(loss);
  if (p.dtype == ElemType::kFloat32) return;
  const int64_t width = plan.index.k.row, bytes = width * elem_size(p.dtype);
  parallel_region(threads, [&](const Member& member) {
    member.static_for(p.keys, [&](int64_t k) {
      table.round_rows(p.dtype, plan.grad.dk + k * width, width,
                       static_cast<char*>(p.dk) + k * bytes);
    });
  });
}

// Sums of the gradients of keys: where these are float32, the output itself.
float* key_sums(const IndexerKLLossParams& p, Arena& arena) {
  if (p.dtype == ElemType::kFloat32) return static_cast<float*>(p.dk);
  return arena.take<float>(p.keys * p.groups * p.d);
}

}  // namespace

void sparse_indexer_kl_loss(const IndexerKLLossParams& p) {
  const KernelTable& table = kernels();
  const int threads = num_threads();
  KLPlan plan{};
  const std::vector<Segment> segments = make_plan(p, plan);
  TokenGradPlan& grad = plan.grad;
  plan.tokens.most = grad.count = p.count;
  grad.waiting.most = p.count;
  const int64_t lanes = round_up(plan.index.G, kLanePad);
  grad.waiting.plan(segments, sum_blocks(p.d), threads, kWaitingBytes, lanes * 4);

  ForwardScratch space{};
  space.thread_size = thread_space(table.sparse_kl_loss_thread_size(plan));
  const Scratch scratch([&](Arena& arena) {
    grad.waiting.carve(arena);
    grad.dz = arena.take<float>(grad.waiting.wave * p.count * lanes);
    plan.loss = arena.take<double>(p.rows * p.groups);
    grad.dk = key_sums(p, arena);
    space.threads = arena.take_threads(threads, space.thread_size);
  });
  clear(p, plan);
  table.sparse_kl_loss(plan, space, threads);
  finish(p, plan, table, threads);
}

void dense_indexer_kl_loss(const IndexerKLLossParams& p) {
  const KernelTable& table = kernels();
  const int threads = num_threads();
  DenseKLPlan plan{};
  const std::vector<Segment> segments = make_plan(p, plan);
  plan.index.softmax_max = p.softmax_max_index;
  plan.index.softmax_sum = p.softmax_sum_index;
  plan.statistics = {p.packed, p.rows, p.Sq};
  int64_t longest = 1, keys = 1;
  for (const Segment& seg : segments) {
    longest = max64(longest, seg.q_len);
    keys = max64(keys, seg.kv_len);
  }
  plan.tile_queries = min64(longest, max64(1, kAttentionRows / plan.attention.G));
  plan.index_queries = min64(longest, max64(1, kIndexRows / plan.index.G));
  plan.columns = round_up(keys, kTileKeys);
  const int64_t row = padded_row(p.d), depth = plan.tokens.depth(plan.attention);
  const int64_t of_query = (plan.columns + plan.index.G * row) * 4;
  const int64_t tiles = max64(1, kWaitingBytes / of_query / plan.index_queries);
  plan.wave = min64(longest, tiles * plan.index_queries);

  ForwardScratch space{};
  space.thread_size = thread_space(table.dense_kl_loss_thread_size(plan));
  const Scratch scratch([&](Arena& arena) {
    plan.mass = arena.take<float>(plan.wave * plan.columns);
    plan.masses = arena.take<float>(plan.wave);
    plan.index_rows = arena.take<float>(plan.wave * plan.index.G * row);
    plan.attended = arena.take<float>(min64(kPackedKeys, plan.columns) * depth);
    plan.index_keys = arena.take<float>(plan.columns * p.d);
    plan.key_rows = arena.take<float>(plan.columns * row);
    plan.finite = arena.take<bool>(plan.columns / kTileKeys);
    plan.loss = arena.take<double>(p.rows * p.groups);
    plan.grad.dk = key_sums(p, arena);
    space.threads = arena.take_threads(threads, space.thread_size);
  });
  clear(p, plan);
  table.dense_kl_loss(plan, space, threads);
  finish(p, plan, table, threads);
}

void dense_indexer_softmax_lse(const IndexerKLLossParams& p) {
  const KernelTable& table = kernels();
  const int threads = num_threads();
  AttentionPlan plan{};
  TokenGradPlan unused{};
  make_indexer(p, plan, unused);
  const std::vector<Segment> segments = make_segments(p, plan);
  plan.softmax_max = p.softmax_max_index;
  plan.softmax_sum = p.softmax_sum_index;
  const StatisticRows statistics{p.packed, p.rows, p.Sq};
  TokenPlan tokens{};
  tokens.weights = p.weights;
  int64_t longest = 1;
  for (const Segment& seg : segments) longest = max64(longest, seg.q_len);
  tokens.max_queries = min64(longest, max64(1, kIndexRows / plan.G));
  tokens.max_rows = tokens.max_queries * plan.G;
  each_other_row(plan, p.rows, [&](int64_t first, int64_t rows) {
    for (int64_t row = first; row < first + rows; ++row) {
      for (int64_t h = 0; h < p.groups; ++h) {
        p.softmax_max_index[statistics.of(p.groups, row, h)] = -kFloatMax;
        p.softmax_sum_index[statistics.of(p.groups, row, h)] = kFloatMax;
      }
    }
  });
  const Schedule schedule(plan, TileRule{tokens.max_queries, tokens.max_rows}, threads);
  ForwardScratch space{};
  space.thread_size = thread_space(table.index_log_sum_thread_size(plan, tokens));
  const Scratch scratch([&](Arena& arena) {
    const int64_t words = table.form(p.dtype).words(p.d);
    space.keys = arena.take<float>(schedule.largest().packed * words * kKvBlockKeys);
    space.threads = arena.take_threads(threads, space.thread_size);
  });
  for (const Wave& wave : schedule.waves())
    table.index_log_sum(plan, tokens, statistics, wave, space, threads);
}

}  // namespace nsa::cpu
