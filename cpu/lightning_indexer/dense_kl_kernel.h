// The KL loss of an indexer over all keys that a query sees. A wave of queries keeps one float for
// each of its keys: the mean attention, which the heads of the attention add up one after the
// other, then the gradient of the score. Products are computed anew where they are needed.
#pragma once

#include "cpu/engine/step/forward.h"
#include "cpu/engine/step/head_sums.h"
#include "cpu/lightning_indexer/divergence.h"
#include "cpu/lightning_indexer/kl_loss_plan.h"

namespace nsa::cpu {
namespace {

static_assert(kWorkItemKeys % kTileKeys == 0 && kPackedKeys % kWorkItemKeys == 0);

struct DenseKLBuffers {
  float* q;         // [attention rows, row_k]
  float* s;         // [rows, kScoreRow]
  float* max;       // [attention rows]
  float* inverse;   // [attention rows]
  float* gathered;  // [kKvBlockKeys, row_k] of keys with their ropes
  float* tmp;       // [depth]
  float* one;       // [kTileKeys] scores of one query
  float* weight;    // [index rows]
  float* dweight;   // [index rows]
  float* dq;        // [index rows, row_d]
  float* dk;        // [kTileKeys, row_d]

  static DenseKLBuffers carve(Arena& arena, const DenseKLPlan& plan) {
    DenseKLBuffers b{};
    const int64_t row_k = padded_row(plan.tokens.depth(plan.attention));
    const int64_t row_d = padded_row(plan.index.D);
    const int64_t rows = plan.tile_queries * plan.attention.G;
    const int64_t index_rows = plan.index_queries * plan.index.G;
    b.q = arena.take<float>(rows * row_k);
    b.s = arena.take<float>(max64(rows, index_rows) * kScoreRow);
    b.max = arena.take<float>(rows);
    b.inverse = arena.take<float>(rows);
    b.gathered = arena.take<float>(kKvBlockKeys * row_k);
    b.tmp = arena.take<float>(max64(row_k, row_d));
    b.one = arena.take<float>(kTileKeys);
    b.weight = arena.take<float>(index_rows);
    b.dweight = arena.take<float>(index_rows);
    b.dq = arena.take<float>(index_rows * row_d);
    b.dk = arena.take<float>(kTileKeys * row_d);
    return b;
  }
};

// The queries [i0, i0 + queries) of a segment, with one group.
class DenseKLWave {
 public:
  DenseKLWave(const DenseKLPlan& plan, int64_t segment, int64_t group, int64_t i0, int64_t queries,
              DenseKLBuffers& b)
      : plan_(plan),
        seg_(plan.index.segments[segment]),
        group_(group),
        i0_(i0),
        queries_(queries),
        end_(seg_.range.hi(i0 + queries - 1)),
        b_(b) {}

  // All members of a team call it.
  void run(const Member& member) {
    member.static_for(queries_,
                      [&](int64_t n) { fill(mass_of(n), round_up(end_, kTileKeys), 0.0f); });
    const int64_t heads = plan_.key_heads(), tiles = ceil_div(queries_, plan_.tile_queries);
    for (int64_t k0 = 0; k0 < end_; k0 += kPackedKeys) {
      const int64_t keys = min64(kPackedKeys, end_ - k0),
                    work_items = ceil_div(keys, kWorkItemKeys);
      for (int64_t h = group_ * heads; h < (group_ + 1) * heads; ++h) {
        member.static_for(ceil_div(keys, kKvBlockKeys), [&](int64_t kv_block) {
          pack_attended(h, k0 + kv_block * kKvBlockKeys,
                        plan_.attended + kv_block * kv_block_size());
        });
        member.barrier();
        member.dynamic_for(tiles * work_items, [&](int64_t work_item) {
          const int64_t first = k0 + work_item % work_items * kWorkItemKeys;
          add_attention(h, work_item / work_items * plan_.tile_queries, k0, first);
        });
        member.barrier();
      }
    }
    const int64_t index_tiles = ceil_div(queries_, plan_.index_queries);
    member.dynamic_for(index_tiles, [&](int64_t tile) { gradients(tile * plan_.index_queries); });
    member.barrier();
    member.dynamic_for(ceil_div(end_, kTileKeys),
                       [&](int64_t step) { add_to_keys(step * kTileKeys); });
    member.barrier();
  }

 private:
  int64_t row_d() const { return padded_row(plan_.index.D); }
  int64_t kv_block_size() const { return plan_.tokens.depth(plan_.attention) * kKvBlockKeys; }
  // Row of mean attention of a query of the wave, later of gradients.
  float* mass_of(int64_t n) const { return plan_.mass + n * plan_.columns; }
  int64_t sees(int64_t n) const { return seg_.range.hi(i0_ + n); }
  float* index_row(int64_t n) const { return plan_.index_rows + n * plan_.index.G * row_d(); }

  // The rows of a head of the attention, with their ropes.
  void pack_attended(int64_t head, int64_t j0, float* packed) {
    const AttentionPlan& plan = plan_.attention;
    const int64_t depth = plan_.tokens.depth(plan), row = padded_row(depth);
    const int64_t n = min64(kKvBlockKeys, end_ - j0), R = plan_.tokens.R;
    for (int64_t j = 0; j < n; ++j) {
      const int64_t at = (seg_.first_key + j0 + j) * plan.N2 + head;
      to_float(plan.dtype, plan.key, at * plan.D, plan.D, b_.gathered + j * row);
      if (R > 0)
        to_float(plan.dtype, plan_.tokens.key_rope, at * R, R, b_.gathered + j * row + plan.D);
    }
    pack_transposed<FloatVariant>({ElemType::kFloat32, b_.gathered, 0, row, n}, depth, kKvBlockKeys,
                                  packed, b_.tmp);
  }

  // Adds what a key head's queries from n0 on give to the keys of a work item from k0 on, of those
  // that are packed from `packed` on.
  void add_attention(int64_t key_head, int64_t n0, int64_t packed, int64_t k0) {
    const AttentionPlan& plan = plan_.attention;
    const int64_t past = min64(n0 + plan_.tile_queries, queries_), G = plan.G;
    const int64_t end = min64(k0 + kWorkItemKeys, sees(past - 1));
    if (k0 >= end) return;
    const int64_t depth = plan_.tokens.depth(plan), row = padded_row(depth);
    for (int64_t n = n0; n < past; ++n) load_attention(key_head, n, (n - n0) * G, row);
    for (int64_t k = k0; k < end; k += kTileKeys) {
      const int64_t first = first_that_sees(n0, k);
      const int64_t n1 = min64(k + kTileKeys, round_up(end, key_step<FloatVariant>()));
      key_products<FloatVariant>(Operand{b_.q + (first - n0) * G * row, row, 1}, (past - first) * G,
                                 {plan_.attended, depth, kKvBlockKeys}, k - packed, n1 - packed,
                                 {b_.s, kScoreRow});
      for (int64_t n = first; n < past; ++n) {
        const int64_t count = min64(kTileKeys, sees(n) - k);
        for (int64_t g = 0; g < G; ++g) {
          add_probabilities_of_row(b_.s + ((n - first) * G + g) * kScoreRow, (n - n0) * G + g,
                                   count, mass_of(n) + k);
        }
      }
    }
  }

  void load_attention(int64_t key_head, int64_t n, int64_t r0, int64_t row) {
    const AttentionPlan& plan = plan_.attention;
    const int64_t at = seg_.first_query + i0_ + n, R = plan_.tokens.R;
    const int64_t statistic = plan_.tokens.statistic(plan, at, key_head);
    const float share = 1.0f / static_cast<float>(plan.G * plan_.key_heads());
    for (int64_t g = 0; g < plan.G; ++g) {
      const int64_t head = at * plan.N1 + key_head * plan.G + g;
      float* q = b_.q + (r0 + g) * row;
      to_float(plan.dtype, plan.query, head * plan.D, plan.D, q);
      if (R > 0) to_float(plan.dtype, plan_.tokens.query_rope, head * R, R, q + plan.D);
      const float top = plan.softmax_max[statistic + g], sum = plan.softmax_sum[statistic + g];
      b_.inverse[r0 + g] = share * SoftmaxState::inverse_of(top, sum);
      b_.max[r0 + g] = top == -kFloatMax ? 0.0f : top;
    }
  }

  // Lanes past the keys that the query sees get garbage, which nobody reads.
  void add_probabilities_of_row(const float* s, int64_t r, int64_t count, float* mass) {
    const V by = set1(plan_.attention.scale), base = set1(b_.max[r]);
    const V inverse = set1(b_.inverse[r]);
    for (int64_t j = 0; j < count; j += W)
      store(mass + j, fma(exp_from(mul(load(s + j), by), base), inverse, load(mass + j)));
  }

  // The first query from n0 on that sees key k; one of them does.
  int64_t first_that_sees(int64_t n0, int64_t k) const {
    while (sees(n0) <= k) ++n0;
    return n0;
  }

  // The loss and the gradients of queries and weights from n0 on; those of scores stay behind.
  void gradients(int64_t n0) {
    const AttentionPlan& plan = plan_.index;
    const int64_t past = min64(n0 + plan_.index_queries, queries_), G = plan.G;
    const int64_t end = sees(past - 1), lanes = round_up(plan.D, kLanePad);
    for (int64_t n = n0; n < past; ++n) load_index(n, (n - n0) * G);
    fill(b_.dweight, (past - n0) * G, 0.0f);
    fill(b_.dq, (past - n0) * G * row_d(), 0.0f);
    for (int64_t n = n0; n < past; ++n) start_row(n);
    for (int64_t k = 0; k < end; k += kTileKeys) {
      const int64_t first = first_that_sees(n0, k), rows = (past - first) * G;
      products_of_step(first, rows, k);
      for (int64_t n = first; n < past; ++n) {
        float* z = b_.s + (n - first) * G * kScoreRow;
        score_gradients(n, k, (n - n0) * G, z);
        head_gradients(mass_of(n) + k, (n - n0) * G, z, true);
      }
      multiply_values<FloatVariant>(plan_.finite[k / kTileKeys],
                                    {rows, lanes, min64(kTileKeys, end - k)}, {b_.s, kScoreRow, 1},
                                    {plan_.key_rows + k * row_d(), row_d()},
                                    {b_.dq + (first - n0) * G * row_d(), row_d()}, {Into::kAdd});
    }
    for (int64_t n = n0; n < past; ++n) store_index(n, (n - n0) * G);
  }

  void load_index(int64_t n, int64_t r0) {
    const AttentionPlan& plan = plan_.index;
    const int64_t row = seg_.first_query + i0_ + n;
    for (int64_t g = 0; g < plan.G; ++g) {
      const int64_t head = group_ * plan.G + g;
      float* q = index_row(n) + g * row_d();
      to_float(plan.dtype, plan.query, row * plan.q.row + head * plan.q.head, plan.D, q);
      fill(q + plan.D, row_d() - plan.D, 0.0f);
      b_.weight[r0 + g] = plan_.grad.weights[row * plan.N1 + head];
    }
  }

  // The mass of the teacher, which is 1 but for rounding and sinks.
  void start_row(int64_t n) {
    double sum = 0.0;
    const float* mass = mass_of(n);
    for (int64_t k = 0; k < sees(n); ++k) sum += mass[k];
    plan_.masses[n] = static_cast<float>(sum);
  }

  // Products of a whole step: keys past the end are zeros.
  void products_of_step(int64_t first, int64_t rows, int64_t k) {
    key_products<FloatVariant>(Operand{index_row(first), row_d(), 1}, rows,
                               {plan_.index_keys, plan_.index.D, kKvBlockKeys}, k, k + kTileKeys,
                               {b_.s, kScoreRow});
  }

  // The row's mean attention of a step becomes the gradients of its scores, 0 where it sees
  // nothing.
  void score_gradients(int64_t n, int64_t k, int64_t r0, const float* z) {
    const AttentionPlan& plan = plan_.index;
    const int64_t row = seg_.first_query + i0_ + n, count = min64(kTileKeys, sees(n) - k);
    const int64_t at = plan_.statistics.of(plan.N2, row, group_);
    const float top = plan.softmax_max[at], sum = plan.softmax_sum[at];
    float* mass = mass_of(n) + k;
    combine_heads<true>(z, kScoreRow, 1.0f, b_.weight + r0, plan.G, count, b_.one);
    plan_.loss[row * plan.N2 + group_] += divergence(mass, b_.one, count, top, sum);
    const V base = set1(top), by = set1(plan_.masses[n] / sum);
    for (int64_t j = 0; j < count; j += W)
      store(mass + j, sub(mul(exp_from(load(b_.one + j), base), by), load(mass + j)));
    fill(mass + count, kTileKeys - count, 0.0f);
  }

  // Products of a query's heads with the keys of a step become their gradients.
  void head_gradients(const float* gradient, int64_t r0, float* z, bool weights) {
    for (int64_t g = 0; g < plan_.index.G; ++g) {
      const V weight = set1(b_.weight[r0 + g]);
      V sum = zero();
      float* of_head = z + g * kScoreRow;
      for (int64_t j = 0; j < kTileKeys; j += W) {
        const V x = load(of_head + j), d = load(gradient + j);
        // Where the gradient is 0 an infinite product is none of this query's.
        sum = fma(d, where_lt(zero(), x, min(x, set1(kFloatMax)), zero()), sum);
        store(of_head + j, where_lt(zero(), x, mul(d, weight), zero()));
      }
      if (weights) b_.dweight[r0 + g] += hsum(sum);
    }
  }

  void store_index(int64_t n, int64_t r0) {
    const AttentionPlan& plan = plan_.index;
    const int64_t row = seg_.first_query + i0_ + n;
    for (int64_t g = 0; g < plan.G; ++g) {
      const int64_t head = group_ * plan.G + g;
      from_float(plan.dtype, b_.dq + (r0 + g) * row_d(), plan.D, plan_.grad.dq,
                 row * plan.q.row + head * plan.q.head);
      plan_.grad.dweights[row * plan.N1 + head] = b_.dweight[r0 + g];
    }
  }

  // Adds the gradients of all queries of the wave, in their order, to the keys of a step.
  void add_to_keys(int64_t k) {
    const AttentionPlan& plan = plan_.index;
    const int64_t keys = min64(kTileKeys, end_ - k), G = plan.G;
    const int64_t lanes = round_up(plan.D, kLanePad);
    fill(b_.dk, kTileKeys * row_d(), 0.0f);
    const int64_t begin = first_that_sees(0, k) / plan_.index_queries * plan_.index_queries;
    for (int64_t n0 = begin; n0 < queries_; n0 += plan_.index_queries) {
      const int64_t past = min64(n0 + plan_.index_queries, queries_);
      const int64_t first = first_that_sees(n0, k), rows = (past - first) * G;
      products_of_step(first, rows, k);
      for (int64_t n = first; n < past; ++n) {
        load_weights(n, (n - first) * G);
        head_gradients(mass_of(n) + k, (n - first) * G, b_.s + (n - first) * G * kScoreRow, false);
      }
      const float* q = index_row(first);
      const int64_t seen = min64(kTileKeys, sees(past - 1) - k);
      multiply_values<FloatVariant>(all_finite(q, rows * row_d()), {seen, lanes, rows},
                                    {b_.s, 1, kScoreRow}, {q, row_d()}, {b_.dk, row_d()},
                                    {Into::kAdd});
    }
    for (int64_t j = 0; j < keys; ++j) {
      add_to(plan_.grad.dk + seg_.k + (k + j) * plan.k.row + group_ * plan.k.head,
             b_.dk + j * row_d(), plan.D);
    }
  }

  void load_weights(int64_t n, int64_t r0) {
    const int64_t row = seg_.first_query + i0_ + n, N1 = plan_.index.N1, G = plan_.index.G;
    for (int64_t g = 0; g < G; ++g)
      b_.weight[r0 + g] = plan_.grad.weights[row * N1 + group_ * G + g];
  }

  const DenseKLPlan& plan_;
  const Segment& seg_;
  int64_t group_, i0_, queries_;
  int64_t end_;  // of the keys that the wave sees
  DenseKLBuffers& b_;
};

// A step of the keys of a group of the indexer, packed and as rows; those past the end are zeros.
inline void pack_index_step(const DenseKLPlan& plan, const Segment& seg, int64_t group,
                            int64_t step, DenseKLBuffers& b) {
  const AttentionPlan& index = plan.index;
  const int64_t row = padded_row(index.D), j0 = step * kTileKeys;
  for (int64_t j = j0; j < j0 + kTileKeys; j += kKvBlockKeys) {
    const int64_t n = max64(0, min64(kKvBlockKeys, seg.kv_len - j));
    const TensorRows rows = keys_of(index, key_rows(index, seg, group, j, n));
    pack_transposed<FloatVariant>(rows, index.D, kKvBlockKeys, plan.index_keys + j * index.D,
                                  b.tmp);
    pack_rows<FloatVariant>(rows, index.D, kKvBlockKeys, plan.key_rows + j * row);
  }
  plan.finite[step] = all_finite(plan.key_rows + j0 * row, kTileKeys * row);
}

void dense_kl_loss(const DenseKLPlan& plan, const ForwardScratch& scratch, int threads) {
  parallel_region(threads, [&](const Member& member) {
    Arena arena{scratch.threads + member.number * scratch.thread_size};
    DenseKLBuffers buffers = DenseKLBuffers::carve(arena, plan);
    for (int64_t b = 0; b < plan.index.num_segments; ++b) {
      const Segment& seg = plan.index.segments[b];
      for (int64_t group = 0; group < plan.index.N2; ++group) {
        member.static_for(ceil_div(seg.kv_len, kTileKeys),
                          [&](int64_t step) { pack_index_step(plan, seg, group, step, buffers); });
        member.barrier();
        for (int64_t i0 = 0; i0 < seg.q_len; i0 += plan.wave) {
          const int64_t queries = min64(plan.wave, seg.q_len - i0);
          DenseKLWave(plan, b, group, i0, queries, buffers).run(member);
        }
      }
    }
  });
}

int64_t dense_kl_loss_thread_size(const DenseKLPlan& plan) {
  return measured([&](Arena& arena) { DenseKLBuffers::carve(arena, plan); });
}

}  // namespace
}  // namespace nsa::cpu
