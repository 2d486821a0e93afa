#include <cstring>
#include <vector>

#include "cpu/dispatch/kernel_table.h"
#include "cpu/engine/plan/tokens.h"
#include "cpu/engine/threads/team.h"
#include "cpu/sparse_flash_attention/params.h"
#include "cpu/sparse_flash_attention/sparse_plan.h"

namespace nsa::cpu {
namespace {

// Bytes of probabilities and gradients of scores that wait for the sums of keys and values.
constexpr int64_t kWaitingBytes = 48 << 20;

// Which rows of queries and keys belong to each other, and which keys a query sees.
std::vector<Segment> make_sparse_plan(const SparseFlashAttentionParams& p, AttentionPlan& plan,
                                      SparsePlan& sparse) {
  plan.query = p.query;
  plan.key = p.key;
  plan.value = p.value;
  plan.out = p.attention_out;
  plan.softmax_max = p.softmax_max;
  plan.softmax_sum = p.softmax_sum;
  plan.sink = p.sinks;
  plan.dtype = p.dtype;
  plan.N1 = p.N;
  plan.N2 = p.N2;
  plan.G = p.N / p.N2;
  plan.D = p.D;
  plan.Dv = p.Dv;
  plan.scale = p.scale_value;
  sparse.indices = p.sparse_indices;
  sparse.count = p.count;
  sparse.query_rope = p.query_rope;
  sparse.key_rope = p.key_rope;
  sparse.R = p.query_rope ? p.R : 0;
  sparse.table = p.block_table;
  sparse.places = p.places;
  sparse.page = p.page;
  sparse.statistic_rows = {p.packed, p.rows, p.Sq};
  sparse.statistics = p.softmax_max != nullptr;
  const bool packed_keys = p.packed && p.block_table == nullptr;
  const TokenLists lists{p.seq_q, p.seq_k, p.packed, packed_keys, p.Sq, p.Sk};
  int64_t longest = 1;
  std::vector<Segment> segments;
  for (int64_t b = 0; b < p.B; ++b) {
    Segment seg = token_segment(lists, b);
    if (p.sparse_mode == 3) seg.range.window_right = seg.kv_len - seg.q_len;
    longest = max64(longest, seg.kv_len);
    segments.push_back(seg);
  }
  plan.segments = segments.data();
  plan.num_segments = p.B;
  // A block that is longer than every segment is cut: an index times its size then fits.
  sparse.block = min64(p.sparse_block_size, longest);
  // A block may stand there more than once, or reach past the end.
  sparse.most = sparse.count * sparse.block;
  return segments;
}

void clear_rows(void* x, int64_t first, int64_t rows, int64_t row_bytes) {
  std::memset(static_cast<char*>(x) + first * row_bytes, 0, static_cast<size_t>(rows * row_bytes));
}

}  // namespace

void sparse_flash_attention(const SparseFlashAttentionParams& p) {
  const KernelTable& table = kernels();
  const int threads = num_threads();
  AttentionPlan plan{};
  SparsePlan sparse{};
  const std::vector<Segment> segments = make_sparse_plan(p, plan, sparse);
  ForwardScratch space{};
  space.thread_size = thread_space(table.sparse_flash_attention_thread_size(plan, sparse));
  const Scratch scratch(
      [&](Arena& arena) { space.threads = arena.take_threads(threads, space.thread_size); });
  each_other_row(plan, p.rows, [&](int64_t first, int64_t rows) {
    clear_rows(p.attention_out, first, rows, p.N * p.Dv * elem_size(p.dtype));
    if (!sparse.statistics) return;
    for (int64_t row = first; row < first + rows; ++row) {
      for (int64_t h = 0; h < p.N2; ++h) {
        for (int64_t g = 0; g < plan.G; ++g) {
          p.softmax_max[sparse.statistic(plan, row, h) + g] = -kFloatMax;
          p.softmax_sum[sparse.statistic(plan, row, h) + g] = kFloatMax;
        }
      }
    }
  });
  table.sparse_flash_attention(plan, sparse, space, threads);
}

void sparse_flash_attention_grad(const SparseFlashAttentionGradParams& p) {
  const KernelTable& table = kernels();
  const int threads = num_threads();
  AttentionPlan plan{};
  SparseGradPlan grad{};
  const std::vector<Segment> segments = make_sparse_plan(p, plan, grad);
  grad.dout = p.attention_out_grad;
  grad.sum_grad = p.softmax_sum_grad;
  grad.dq = p.dq;
  grad.dq_rope = p.dq_rope;
  const int64_t lanes = round_up(plan.G, kLanePad);
  WaitingTokens& waiting = grad.waiting;
  waiting.most = grad.most;
  waiting.plan(segments, sum_blocks(p.D) + sum_blocks(grad.R) + sum_blocks(p.Dv), threads,
               kWaitingBytes, 2 * lanes * 4);

  const int64_t size = elem_size(p.dtype), tokens = p.keys * p.N2;
  const bool narrow = p.dtype != ElemType::kFloat32;
  ForwardScratch space{};
  space.thread_size = thread_space(table.sparse_flash_attention_grad_thread_size(plan, grad));
  const Scratch scratch([&](Arena& arena) {
    const auto sums = [&](void* output, int64_t width) {
      return narrow ? arena.take<float>(tokens * width) : static_cast<float*>(output);
    };
    waiting.carve(arena);
    grad.p = arena.take<float>(waiting.wave * waiting.most * lanes);
    grad.ds = arena.take<float>(waiting.wave * waiting.most * lanes);
    grad.dk = sums(p.dk, p.D);
    grad.dv = sums(p.dv, p.Dv);
    if (grad.R > 0) grad.dk_rope = sums(p.dk_rope, grad.R);
    if (p.dsinks) grad.dsink = arena.take<float>(p.rows * p.N);
    space.threads = arena.take_threads(threads, space.thread_size);
  });
  std::memset(grad.dk, 0, static_cast<size_t>(tokens * p.D) * 4);
  std::memset(grad.dv, 0, static_cast<size_t>(tokens * p.Dv) * 4);
  if (grad.R > 0) std::memset(grad.dk_rope, 0, static_cast<size_t>(tokens * grad.R) * 4);
  if (p.dsinks) std::memset(grad.dsink, 0, static_cast<size_t>(p.rows * p.N) * 4);
  each_other_row(plan, p.rows, [&](int64_t first, int64_t rows) {
    clear_rows(p.dq, first, rows, p.N * p.D * size);
    if (grad.R > 0) clear_rows(p.dq_rope, first, rows, p.N * grad.R * size);
  });
  table.sparse_flash_attention_grad(plan, grad, space, threads);
  if (p.dsinks) {
    for (int64_t n = 0; n < p.N; ++n) {
      double sum = 0.0;
      for (int64_t row = 0; row < p.rows; ++row) sum += grad.dsink[row * p.N + n];
      p.dsinks[n] = static_cast<float>(sum);
    }
  }
  if (!narrow) return;
  const auto round = [&](const float* sums, int64_t width, void* output) {
    parallel_region(threads, [&](const Member& member) {
      member.static_for(tokens, [&](int64_t k) {
        table.round_rows(p.dtype, sums + k * width, width,
                         static_cast<char*>(output) + k * width * size);
      });
    });
  };
  round(grad.dk, p.D, p.dk);
  round(grad.dv, p.Dv, p.dv);
  if (grad.R > 0) round(grad.dk_rope, grad.R, p.dk_rope);
}

}  // namespace nsa::cpu
