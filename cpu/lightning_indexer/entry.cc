#include <cstring>
#include <vector>

#include "cpu/dispatch/kernel_table.h"
#include "cpu/engine/plan/make_plan.h"
#include "cpu/engine/plan/tokens.h"
#include "cpu/engine/threads/team.h"
#include "cpu/lightning_indexer/indexer_plan.h"
#include "cpu/lightning_indexer/params.h"

namespace nsa::cpu {
namespace {

// Rows of a tile: enough of them for a step of the keys to be read seldom, few enough to stay, with
// their scores and top-k tokens, in the second-level cache.
constexpr int64_t kTopkRows = 256;
// Bytes of gradients of products that wait for the sums of keys.
constexpr int64_t kWaitingBytes = 32 << 20;

// Which rows of queries and keys belong to each other, and which keys a query sees.
std::vector<Segment> make_token_plan(const LightningIndexerParams& p, AttentionPlan& plan) {
  plan.query = p.query;
  plan.key = p.key;
  plan.dtype = p.dtype;
  plan.N1 = p.H;
  plan.N2 = p.N2;
  plan.G = p.H / p.N2;
  plan.D = p.D;
  plan.q = {p.H * p.D, p.D};
  plan.k = {p.N2 * p.D, p.D};
  plan.scale = 1.0f;
  const bool packed_keys = p.packed && p.block_table == nullptr;
  const TokenLists lists{p.seq_q, p.seq_k, p.packed, packed_keys, p.Sq, p.Sk};
  std::vector<Segment> segments;
  for (int64_t b = 0; b < p.B; ++b) {
    Segment seg = token_segment(lists, b);
    seg.q = seg.first_query * plan.q.row;
    seg.k = p.block_table ? 0 : seg.first_key * plan.k.row;
    if (p.sparse_mode == 3) {
      // A key of more tokens than there are queries hides as much as one of so many, and r times
      // the keys fits then.
      const int64_t r = min64(p.compress_ratio, seg.q_len + 1);
      const int64_t residual = p.residual ? min64(p.residual[b], seg.q_len) : 0;
      seg.range.compress_block = seg.range.compress_stride = r;
      seg.range.position = seg.kv_len * r + residual - seg.q_len;
    }
    segments.push_back(seg);
  }
  plan.segments = segments.data();
  plan.num_segments = p.B;
  return segments;
}

}  // namespace

void lightning_indexer(const LightningIndexerParams& p) {
  const KernelTable& table = kernels();
  const int threads = num_threads();
  AttentionPlan plan{};
  const std::vector<Segment> segments = make_token_plan(p, plan);
  TokenPlan tokens{};
  tokens.weights = p.weights;
  tokens.indices = p.sparse_indices;
  tokens.values = p.sparse_values;
  tokens.count = p.sparse_count;
  tokens.pages = {p.block_table, p.places, p.page};
  int64_t queries = 1, keys = 1;
  for (const Segment& seg : segments) {
    queries = max64(queries, seg.q_len);
    keys = max64(keys, seg.kv_len);
  }
  tokens.most = min64(tokens.count, keys);
  tokens.max_queries = min64(queries, max64(1, kTopkRows / plan.G));
  tokens.max_rows = tokens.max_queries * plan.G;

  const std::vector<float> lowest(p.sparse_values ? p.sparse_count : 0, -__builtin_inff());
  each_other_row(plan, p.rows, [&](int64_t first, int64_t rows) {
    for (int64_t n = first * p.N2; n < (first + rows) * p.N2; ++n) {
      for (int64_t i = 0; i < p.sparse_count; ++i) p.sparse_indices[n * p.sparse_count + i] = -1;
      if (p.sparse_values == nullptr) continue;
      const int64_t bytes = p.sparse_count * elem_size(p.dtype);
      table.round_rows(p.dtype, lowest.data(), p.sparse_count,
                       static_cast<char*>(p.sparse_values) + n * bytes);
    }
  });

  const Schedule schedule(plan, TileRule{tokens.max_queries, tokens.max_rows}, threads);
  ForwardScratch space{};
  space.thread_size = thread_space(table.lightning_indexer_thread_size(plan, tokens));
  const Scratch scratch([&](Arena& arena) {
    const int64_t words = table.form(p.dtype).words(p.D);
    space.keys = arena.take<float>(schedule.largest().packed * words * kKvBlockKeys);
    space.threads = arena.take_threads(threads, space.thread_size);
  });
  for (const Wave& wave : schedule.waves())
    table.lightning_indexer(plan, tokens, wave, space, threads);
}

void lightning_indexer_grad(const LightningIndexerGradParams& p) {
  const KernelTable& table = kernels();
  const int threads = num_threads();
  AttentionPlan plan{};
  const std::vector<Segment> segments = make_token_plan(p, plan);
  TokenGradPlan grad{};
  grad.weights = p.weights;
  grad.indices = p.indices;
  grad.dy = p.dy;
  grad.count = p.sparse_count;
  grad.dq = p.dq;
  grad.dweights = p.dweights;
  grad.waiting.most = p.sparse_count;
  const int64_t lanes = round_up(plan.G, kLanePad);
  grad.waiting.plan(segments, sum_blocks(p.D), threads, kWaitingBytes, lanes * 4);

  const int64_t size = elem_size(p.dtype), keys = p.keys * plan.k.row;
  const bool narrow = p.dtype != ElemType::kFloat32;
  ForwardScratch space{};
  space.thread_size = thread_space(table.lightning_indexer_grad_thread_size(plan, grad));
  const Scratch scratch([&](Arena& arena) {
    grad.waiting.carve(arena);
    grad.dz = arena.take<float>(grad.waiting.wave * p.sparse_count * lanes);
    grad.dk = narrow ? arena.take<float>(keys) : static_cast<float*>(p.dk);
    space.threads = arena.take_threads(threads, space.thread_size);
  });
  std::memset(grad.dk, 0, static_cast<size_t>(keys) * 4);
  each_other_row(plan, p.rows, [&](int64_t first, int64_t rows) {
    std::memset(static_cast<char*>(p.dq) + first * plan.q.row * size, 0,
                static_cast<size_t>(rows * plan.q.row * size));
    std::memset(p.dweights + first * p.H, 0, static_cast<size_t>(rows * p.H) * 4);
  });
  table.lightning_indexer_grad(plan, grad, space, threads);
  if (!narrow) return;
  parallel_region(threads, [&](const Member& member) {
    member.static_for(p.keys, [&](int64_t k) {
      table.round_rows(p.dtype, grad.dk + k * plan.k.row, plan.k.row,
                       static_cast<char*>(p.dk) + k * plan.k.row * size);
    });
  });
}

}  // namespace nsa::cpu
