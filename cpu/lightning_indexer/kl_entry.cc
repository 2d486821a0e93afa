#include <cstring>
#include <vector>

#include "cpu/dispatch/kernel_table.h"
#include "cpu/engine/plan/token_segments.h"
#include "cpu/engine/threads/team.h"
#include "cpu/lightning_indexer/kl_plan.h"
#include "cpu/runtime.h"

namespace nsa::cpu {
namespace {

// Bytes of products that wait to be added to keys.
constexpr int64_t kWaitingBytes = 32 << 20;

// The segments of the attention and of the indexer, which differ in how their keys are counted.
struct KLSegments {
  std::vector<Segment> attention, index;
};

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
  tokens.rows = p.rows;
  tokens.groups_first = p.packed ? 1 : 0;
  tokens.batch_rows = p.Sq;
}

KLSegments make_plan(const IndexerKLLossParams& p, KLPlan& plan) {
  make_indexer(p, plan.index, plan.grad);
  make_attention(p, plan.attention, plan.tokens);
  KLSegments segments;
  const TokenLists lists{p.seq_q, p.seq_k, p.packed, p.packed, p.Sq, p.Sk};
  for (int64_t b = 0; b < p.B; ++b) {
    Segment seg = token_segment(lists, b);
    if (p.sparse_mode == 3) seg.range.ahead = seg.kv_len - seg.q_len;
    segments.attention.push_back(seg);
    seg.q = seg.stat * plan.index.q.row;
    seg.k *= plan.index.k.row;
    segments.index.push_back(seg);
  }
  plan.attention.segments = segments.attention.data();
  plan.index.segments = segments.index.data();
  plan.attention.num_segments = plan.index.num_segments = p.B;
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
  in_team(threads, [&](const Member& member) {
    member.share(p.keys, [&](int64_t k) {
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
  const KLSegments segments = make_plan(p, plan);
  TokenGradPlan& grad = plan.grad;
  plan.tokens.most = grad.count = p.count;
  int64_t longest = 1;
  for (const Segment& seg : segments.index) longest = max64(longest, seg.q_len);
  const int64_t row = padded_row(p.d), of_query = max64(1, p.count * row * 4);
  grad.wave = min64(longest, max64(1, kWaitingBytes / of_query));

  ForwardScratch parts{};
  parts.thread_size = thread_part(table.sparse_kl_loss_thread_size(plan));
  const Scratch scratch([&](Arena& arena) {
    grad.products = arena.take<float>(grad.wave * p.count * row);
    grad.picked = arena.take<int32_t>(grad.wave * p.count);
    grad.num_picked = arena.take<int64_t>(grad.wave);
    plan.loss = arena.take<double>(p.rows * p.groups);
    grad.dk = key_sums(p, arena);
    parts.threads = arena.take_threads(threads, parts.thread_size);
  });
  clear(p, plan);
  table.sparse_kl_loss(plan, parts, threads);
  finish(p, plan, table, threads);
}

}  // namespace nsa::cpu
